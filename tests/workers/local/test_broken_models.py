"""Model files that can't work: they are called broken at once, and not tried again."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.core.errors import ModelFileError, WorkerError
from baton.core.messages import Card
from baton.ipc import process
from baton.workers.local import LocalWorker, check_model, starter, try_model
from support.local_worker_calls import CAPITAL, ask, local_worker
from support.tiny_models import FIRST_WORD, WORDS, tiny

pytestmark = pytest.mark.local_model

NESTED = (
    "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
    "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}"
)
"""Two lists that look the same are compared for hours, within one operation."""

ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"

IMPATIENT_RUNNER = """
from baton.workers.local.child import chat_template, main
chat_template.RENDER_SECONDS, chat_template._WATCH_SECONDS = 0.2, 0.02
main.main()
"""

Damage = Callable[[bytearray], object]


def _value_at(data: bytearray, key: str) -> int:
    name = key.encode()
    return data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name) + 4


def no_layers(data: bytearray) -> None:
    struct.pack_into("<I", data, _value_at(data, "llama.block_count"), 0)


def no_number(data: bytearray) -> None:
    where = _value_at(data, "llama.attention.layer_norm_rms_epsilon")
    struct.pack_into("<f", data, where, math.nan)


def one_token_twice(data: bytearray) -> None:
    at, seen = _value_at(data, "tokenizer.ggml.tokens") + 12, dict[int, bytes]()
    for number in range(WORDS):
        (size,) = struct.unpack_from("<Q", data, at)
        if number > FIRST_WORD and size in seen:
            data[at + 8 : at + 8 + size] = seen[size]
            return
        seen[size] = bytes(data[at + 8 : at + 8 + size])
        at += 8 + size


def no_weights(data: bytearray) -> None:
    half = len(data) // 2
    data[half:] = b"\xff" * (len(data) - half)


def damaged(folder: Path, damage: Damage) -> LocalWorker:
    return worker_of(damaged_file(folder, damage))


def damaged_file(folder: Path, damage: Damage) -> Path:
    data = bytearray(tiny(folder, "llama").read_bytes())
    damage(data)
    file = folder / "damaged.gguf"
    file.write_bytes(data)
    return file


def worker_of(file: Path) -> LocalWorker:
    return local_worker(Card("x", "local", "X", context=512), file)


def model_with(folder: Path, template: str) -> Path:
    """Write a tiny model with a chat template; return its path."""
    return tiny(folder, "llama", template=template)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let model processes give a template up sooner."""
    runner = [sys.executable, "-P", "-c", IMPATIENT_RUNNER]
    monkeypatch.setattr(process, "command", lambda _: runner)


async def refusal(worker: LocalWorker, *texts: str) -> ModelFileError:
    with pytest.raises(ModelFileError) as refused:
        await ask(worker, *texts or [CAPITAL])
    assert "Try again" not in refused.value.hint
    assert "choose another" in refused.value.hint.lower()
    return refused.value


@pytest.mark.parametrize("damage", [no_layers, no_number, one_token_twice])
async def test_a_file_of_which_llama_cpp_crashes_is_called_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage
) -> None:
    worker = damaged(tmp_path, damage)
    said = "damaged.gguf is broken: it crashes llama.cpp."
    assert (await refusal(worker)).message == said
    started: list[object] = []
    monkeypatch.setattr(process, "start_process", started.append)
    assert (await refusal(worker)).message == said
    assert started == [], "the same file isn't loaded again"
    monkeypatch.undo()
    tiny(tmp_path, "llama").replace(worker.model.path)
    assert (await ask(worker, CAPITAL, max_tokens=1)).usage, "another one is"
    await worker.aclose()


async def test_a_file_without_numbers_is_called_broken(tmp_path: Path) -> None:
    worker = damaged(tmp_path, no_weights)
    assert "file is broken" in (await refusal(worker)).message
    await worker.aclose()


@pytest.mark.parametrize("damage", [no_layers, one_token_twice])
async def test_a_check_shows_no_path_of_who_built_the_library(
    tmp_path: Path, damage: Damage
) -> None:
    file = damaged_file(tmp_path, damage)
    with pytest.raises(ModelFileError) as refused:
        await check_model(file)
    assert "/" not in str(refused.value).replace("llama/", "")
    assert "The file is broken" in refused.value.hint


def test_build_paths_are_taken_out_of_what_a_child_printed() -> None:
    printed = (
        "/home/builder/a b/vendor/llama.cpp/ggml/src/ggml.c:1234: GGML_ASSERT(n > 0) failed\n"
        "C:\\agents\\_work\\1\\ggml\\src\\ggml-cpu.cpp:7: failed\nsee /etc/hosts\n"
    )
    shown = process.without_build_paths(printed)
    assert "ggml.c:1234: GGML_ASSERT(n > 0) failed" in shown
    assert "builder" not in shown
    assert "agents" not in shown
    assert "see /etc/hosts" in shown, "that is a path of this machine"


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ '' }}", "makes an empty prompt"),
        ("{{ bos_token }}", "leaves out what you ask"),
        ("{{ 9 ** 9 }}", "computes powers"),
        ("{{ 'x' | center(9999999999) }}", "too large a number"),
        (NESTED, "doesn't end"),
        (ENDLESS, "doesn't end"),
    ],
)
async def test_a_template_that_cannot_be_used_is_said_at_once(
    tmp_path: Path, template: str, why: str
) -> None:
    file = model_with(tmp_path, template)
    worker = worker_of(file)
    assert why in (await refusal(worker)).message
    await worker.aclose()
    with pytest.raises(ModelFileError, match=why):
        await try_model(file)


async def test_a_template_may_bring_a_long_text_of_its_own(tmp_path: Path) -> None:
    """Some bring a thousand tokens on what the model is; of more than fit, that is what is said."""
    own = "{{ 'You are kind. ' * %d }}{{ messages[-1].content }}"
    await try_model(model_with(tmp_path, own % 50))
    with pytest.raises(ModelFileError, match=r"template makes 40,0.. tokens of one word"):
        await try_model(model_with(tmp_path, own % 2000))


@pytest.mark.usefixtures("_impatient")
async def test_one_that_fails_only_later_is_said_too(tmp_path: Path) -> None:
    """A template sees how many prompts there are, so that a first one proves little."""
    template = "{{ messages[-1].content }}{% if messages | length > 2 %}" + ENDLESS + "{% endif %}"
    file = model_with(tmp_path, template)
    await try_model(file)
    worker = worker_of(file)
    assert (await ask(worker, CAPITAL, max_tokens=1)).usage
    said = await refusal(worker, CAPITAL, "Paris.", "And of Italy?")
    assert "doesn't end" in said.message
    await worker.aclose()


async def test_a_template_that_refuses_one_conversation_answers_others(tmp_path: Path) -> None:
    template = (
        "{% if messages | length > 2 %}{{ raise_exception('Only one.') }}{% endif %}"
        "{{ messages[-1].content }}"
    )
    worker = worker_of(model_with(tmp_path, template))
    with pytest.raises(WorkerError, match=r"refuses this conversation: Only one\. Start") as no:
        await ask(worker, CAPITAL, "Paris.", "And of Italy?")
    assert not isinstance(no.value, ModelFileError)
    assert (await ask(worker, CAPITAL, max_tokens=1)).usage
    await worker.aclose()


async def test_what_stands_in_for_a_broken_template_is_said(tmp_path: Path) -> None:
    file = model_with(tmp_path, "{% for %}")
    assert await check_model(file) == (
        "The model's chat template is broken, so its answers may ramble."
    )
    worker = worker_of(file)
    await ask(worker, CAPITAL, max_tokens=1)
    assert "template is broken" in worker.card.caution
    await worker.aclose()
    assert await check_model(starter().path) == ""
