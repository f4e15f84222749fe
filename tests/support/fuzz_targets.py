"""Everything that reads strangers' bytes, as functions of bytes: `scripts/fuzz` feeds them.

Each lets pass only the errors that its reader's documentation names, and asserts what holds for all
input, such as that it makes no difference where a stream is cut. `SEEDS` are inputs to begin with.
"""

from __future__ import annotations

import io
import json
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from random import Random
from sqlite3 import Connection
from typing import Any, cast

import httpx
import msgspec
from huggingface_hub.hf_api import ModelInfo

from baton.core.catalogue_types import Source
from baton.core.errors import BatonError, ConfigError, PlanError
from baton.core.markdown import blocks, prose
from baton.core.planning import plan_schema, templates
from baton.core.sanitiser import one_line, sanitise
from baton.download import releases
from baton.download.child import hub_metadata, signed_release
from baton.gguf import header as gguf
from baton.gguf.metadata import MalformedHeader
from baton.history import schema
from baton.history.export import import_conversations
from baton.ipc import child_http, messages
from baton.ipc.parent_channel import Failure
from baton.models.catalogue import parse_models
from baton.platform import proxies, sqlite
from baton.workers.cloud.child.provider_errors import (
    context_sizes,
    error_sentence,
    find_kind,
    wait_seconds,
)
from baton.workers.cloud.child.stream_parsers import DIALECTS
from baton.workers.local.messages import REPLIES
from baton.workers.reasoning_filter import ThoughtFilter, known_marks, open_marks
from support import gguf_writer as written

Target = Callable[[bytes], None]

_CUT = 7


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def read_stream(data: bytes) -> None:
    """An answer that a provider streams; the first byte chooses the dialect."""
    dialects = list(DIALECTS.values())
    kind, data = dialects[data[0] % len(dialects) if data else 0], data[1:]
    whole, cut = kind(), kind()
    text = whole.feed(data)
    pieces = "".join(cut.feed(data[n : n + _CUT]) for n in range(0, len(data), _CUT))
    assert (text, whole.finish, whole.count) == (pieces, cut.finish, cut.count)
    assert (whole.usage, whole.at_end, whole.broken) == (cut.usage, cut.at_end, cut.broken)
    assert len(text) <= len(data)
    if (usage := whole.usage) is not None:
        assert usage.tokens_in > 0
        assert usage.tokens_out >= 0


def read_error(data: bytes) -> None:
    """What a provider says of an error."""
    with suppress(ValueError, RecursionError):
        body = json.loads(data)
        said = error_sentence(body)
        assert isinstance(said, str)
        find_kind({"openai"}, 400, body, said)
        wait = wait_seconds({}, body, said)
        assert wait is None or 0 <= wait <= child_http.MAX_WAIT_SECONDS
        needed, limit = context_sizes(body, said, 8192, 100)
        assert needed > limit


def read_frames(data: bytes) -> None:
    """Frames of a child."""
    stream, decoder = io.BytesIO(data), messages.reply_decoder(REPLIES)
    with suppress(messages.FrameError):
        while (message := messages.read(stream, decoder)) is not None:
            assert isinstance(message, messages.Message)


def read_gguf(data: bytes) -> None:
    """A model file's header; as a whole file, and as the beginning of a larger one."""
    for size in (len(data), None, 10**12):
        needed = len(data) + 1
        try:
            header = gguf.parse_header(data, size)
        except MalformedHeader:
            continue
        except gguf.HeaderIncomplete as cut:
            needed = cut.needed
        else:
            assert header.weights >= 0
            assert len(header.template) <= len(data)
        assert needed > len(data)


def read_plan(data: bytes) -> None:
    """A plan that a model draws: the first byte says for which canvas."""
    first, text = data[0] if data else 0, _text(data[1:])
    canvas = plan_schema.PlanSchema(
        ("a.txt", "b.txt")[: first & 3],
        bool(first & 4),
        ("one", "two") if first & 8 else (),
        done=2 if first & 16 else 0,
        usable=(1,) if first & 16 else (),
    )
    try:
        drawn = canvas.parse(text)
    except PlanError:
        return
    if drawn is not None:
        steps, answer = drawn
        assert 0 < len(steps) <= canvas.max_steps
        assert all(0 < number <= canvas.done + len(steps) for number in answer)


@cache
def _history() -> Connection:
    connection = sqlite.connect(None)
    sqlite.migrate(connection, schema.MIGRATIONS)
    return connection


def read_history(data: bytes) -> None:
    """An export that is imported, into a real database."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    connection = _history()
    connection.execute("BEGIN")
    try:
        with suppress(ConfigError):
            import_conversations(connection, document)
    finally:
        connection.execute("ROLLBACK")


def read_template(data: bytes) -> None:
    """A workflow of a user's own, or of another's."""
    with suppress(ConfigError):
        templates.parse_workflow(_text(data))


def read_catalogue(data: bytes) -> None:
    """A catalogue of models."""
    with suppress(ValueError):
        parse_models(_text(data))


def read_address(data: bytes) -> None:
    """Addresses: configured ones, and those that a redirect leads to."""
    url = _text(data)
    if proxies.is_usable(url):
        proxies.loopback_addresses(url)
        proxies.proxy_for(url, "", {"NO_PROXY": "x,.y:1", "ALL_PROXY": "http://p"})
    with suppress(Failure):
        hub_metadata.check_source(Source(url=url))
    with suppress(Failure):
        hub_metadata.check_source(Source(*url.partition(":")[::2]))
    child_http.retry_after({"Retry-After": url, "RateLimit": url}, 0.0)


def read_text(data: bytes) -> None:
    """Text that is shown."""
    text = _text(data)
    clean = sanitise(text)
    assert sanitise(clean) == clean
    assert all(c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cs"} for c in clean)
    line = one_line(text)
    assert len(line) <= 200
    assert not set(line) & set("\n\t\r")
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    assert all(block.text in lines for block in blocks(text, 0))
    prose(text)


def read_thoughts(data: bytes) -> None:
    """What a model writes that may think aloud: the first byte chooses its marks."""
    first, text = data[0] if data else 0, data[1:].decode("utf-8", "replace")
    marks = known_marks(
        "<think></think>" if first & 1 else "", lambda mark: bool(first & 2) and "<|" in mark
    )
    begun = open_marks("<think>\n", marks) if first & 4 else None
    whole, cut = ThoughtFilter(marks, begun), ThoughtFilter(marks, begun)
    said = whole.feed(text) + whole.flush()
    pieces = "".join(cut.feed(letter) for letter in text) + cut.flush()
    assert said == pieces
    assert len(said) <= len(text)


class _Hub(hub_metadata.HubMetadata):
    """Asks no hub, but takes an answer as the official client would."""

    def __init__(self, answer: object) -> None:
        super().__init__(cast(Any, None), lambda: False)
        self._answer = answer

    def _model_info(self, repo: str, revision: str) -> Any:
        return cast(Any, ModelInfo)(**cast(Any, self._answer))

    def _invalid_answer(self, what: str, why: str) -> Failure:
        return Failure("ModelFileError", f"{what}: {why}")


def read_hub(data: bytes) -> None:
    """A hub's answer about a repository, and the headers of a file."""
    with suppress(ValueError):
        response = httpx.Response(200, headers=[(b"ETag", data), (b"Content-Range", data)])
        hub_metadata._hash_of(response)
        hub_metadata._size_of(response)
    try:
        answer = json.loads(data)
        hub = _Hub(answer)
        hub._model_info("a/b", "")
    except Exception:  # the client is refused for any error that it raises
        return
    with suppress(Failure):
        for offer in hub.list_files("a/b"):
            assert offer.size > 0
            assert "/../" not in f"/{offer.source.file}/"


KEY = "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394"


def read_release(data: bytes) -> None:
    """A release's list: its signature, and what stands in it."""
    try:
        signed_release.check_signature(data, data[:130], KEY, "x")
    except Failure:
        pass
    else:
        raise AssertionError("a forged list counts as signed")
    try:
        found = msgspec.json.decode(data.decode(), type=releases.Release)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return
    with suppress(BatonError):
        file = found.file_for("linux-x86_64", "full", "")
        assert "/" not in file.name
        releases.is_newer(found.version, "0.1.0")


TARGETS: Mapping[str, Target] = {
    name.removeprefix("read_"): target
    for name, target in list(globals().items())
    if name.startswith("read_")
}


def _events(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def _frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


_STEP = {"task": "Write.", "kind": "writing", "difficulty": 2, "uses": [], "sees": ["prompt"]}
_TEMPLATE = b'name = "x"\nanswer = [1]\n[[steps]]\ntask = "Do it."\nkind = "rewriting"\n'
_TURN = {
    "id": "0123456789ab",
    "parent": None,
    "role": "user",
    "text": "Hi",
    "status": "finished",
    "label": "cloud",
    "created": 1.0,
    "worker": "",
    "run": None,
    "files": [{"name": "a.txt", "text": "x", "size": 1, "label": "local"}],
}
_CONVERSATION = {
    "id": "c0123456789a",
    "title": "T",
    "label": "cloud",
    "system": None,
    "created": 1.0,
    "updated": 1.0,
    "head": "0123456789ab",
    "sent_from": None,
    "label_changes": [],
    "turns": [_TURN],
    "runs": [],
}

SEEDS: Mapping[str, Sequence[bytes]] = {
    "stream": (
        b"\0"
        + _events(
            {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}},
        )
        + b"data: [DONE]\n\n",
        b"\1"
        + _events(
            {"type": "response.output_text.delta", "delta": "a"},
            {
                "type": "response.completed",
                "response": {"usage": {"input_tokens": 3, "output_tokens": 1}},
            },
        ),
        b"\2"
        + _events(
            {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ),
        b"\3"
        + _events(
            {
                "candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1},
            }
        ),
        b"\0: ping\r\n\r\nevent: x\ndata: {}\n\n",
    ),
    "error": (b'{"error": {"message": "no", "code": 401}}', b'[{"error": "no"}]'),
    "frames": (_frame(b'{"type":"text","text":"a","tokens":1,"id":1}') * 2, _frame(b"[]")),
    "gguf": (
        written.header(written.facts()),
        written.whole(written.facts() | written.vocabulary(3), [written.Tensor("t", (32, 2))]),
    ),
    "plan": (
        b"\0" + json.dumps({"steps": [_STEP, {**_STEP, "uses": [1]}], "answer": [2]}).encode(),
        b"\x1c" + json.dumps({"steps": [{**_STEP, "worker": "one"}], "answer": [3]}).encode(),
        b'\x10{"accept": true}',
    ),
    "history": (json.dumps({"baton_export": 1, "conversations": [_CONVERSATION]}).encode(),),
    "template": (_TEMPLATE, _TEMPLATE + b'difficulty = 3\nsees = ["prompt", "file:a"]\n'),
    "catalogue": (b'[[model]]\nid = "a"\nname = "A"\nrepo = "a/b"\nfile = "c.gguf"\n',),
    "address": (
        b"https://user@[::1]:8080/a?b#c",
        b"http://localhost.:1/",
        b"a/b:c.gguf",
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"http://0x7f.1:99999/",
    ),
    "text": ("a\x1b]52;c;x\x07\u202e\U000e0041\u200d```\nx\n```".encode(), b"\xff\xfe\r\n"),
    "thoughts": (
        b"\1<think>hm</think>\n\nYes",
        b"\2<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>a",
        b"\5hm</think>Yes</think>",
    ),
    "hub": (
        json.dumps(
            {
                "id": "a/b",
                "sha": "0" * 40,
                "siblings": [{"rfilename": "a.gguf", "size": 5, "lfs": None}],
                "cardData": {"license": "mit"},
            }
        ).encode(),
        b"bytes 0-0/123",
    ),
    "release": (
        b'{"schema":1,"version":"0.2.0","released":"","files":[{"name":"baton-0.2.0-linux-x86_64","platform":'
        b'"linux-x86_64","flavour":"full","gpu":"","size":9,"sha256":"' + b"0" * 64 + b'"}]}',
        b"0" * 128 + b"\n",
    ),
}


def change_json(data: bytes, chance: Random) -> bytes:
    """Return data in which there is JSON, with one value or key of it changed."""
    with suppress(RecursionError):  # it is nested too deeply
        return _change_value(data, chance)
    return data


def _change_value(data: bytes, chance: Random) -> bytes:
    text = _text(data)
    starts = [n for n, letter in enumerate(text) if letter == "{"][:50]
    start = chance.choice(starts) if starts else 0
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return data
    tree = [value]
    places: list[tuple[Any, Any]] = [(tree, 0)]
    for holder, key in places:  # it grows meanwhile
        match holder[key]:
            case dict() as inner:
                places += [(inner, name) for name in inner]
            case list() as items:
                places += [(items, number) for number in range(len(items))]
    holder, key = chance.choice(places[1:] or places)
    other_holder, other = chance.choice(places)
    match chance.randrange(4):
        case 0:
            holder[key] = chance.choice(_VALUES)
        case 1:
            holder[key] = json.loads(json.dumps(other_holder[other]))
        case 2 if isinstance(holder, dict):
            del holder[key]
        case 3 if isinstance(holder, dict):
            holder[chance.choice(("", "x", "id", "name", key * 2))] = holder.pop(key)
        case _:
            holder[key] = [holder[key], holder[key]]
    shown = text[:start] + json.dumps(tree[0]) + text[end:]
    return shown.encode("utf-8", "surrogateescape")


_VALUES: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308, -0.0, "", "x", "1",
    "\0", "\ud800", "a\nb", "../x", "\u202e", "x" * 5000, [], {}, [[]], {"": {}}, [None], "0" * 64,
)  # fmt: skip

FOUND: Mapping[str, Sequence[bytes]] = {
    "history": (SEEDS["history"][0].replace(b"1.0", b'"\\ud800"'),),
    "text": (b"```py\r\nx = 'a\x0cb'\r```", "~~~\na\u2028b\n~~~".encode()),
}
"""Inputs that once broke a reader."""
