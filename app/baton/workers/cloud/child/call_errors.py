"""Failures of a call, in sentences for people, and whether they can have cost anything.

`declined` is set only where the provider refused the request outright, or never got it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from baton.core.messages import estimated_tokens
from baton.core.sanitiser import one_line
from baton.ipc.child_http import wait_text
from baton.ipc.parent_channel import Failure
from baton.workers.cloud.child.answer_reader import is_own_error
from baton.workers.cloud.child.provider_errors import (
    context_sizes,
    error_sentence,
    find_kind,
    is_about_value,
    refused_option,
    wait_seconds,
)
from baton.workers.cloud.child.response_limits import ERROR_SECONDS, MAX_ERROR_BYTES, parse_json
from baton.workers.cloud.model_settings import OPTION_NAMES

if TYPE_CHECKING:
    from baton.workers.cloud.child.cloud_call import CloudCall

MAX_SAID_CHARS = 4096
"""How much of what a provider says about an error is looked at."""

MAX_SHOWN_CHARS = 300
"""How much of it is shown."""

MIN_ECHO_CHARS = 8
"""A part of a key this long is removed from what a provider says."""

KEY_MARK = "[key]"
"""What a key is replaced with."""

UNSENT_ERRORS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.InvalidURL)
"""After these not a byte of the request was sent."""

_FORM_WORDS = re.compile(
    r"response_?(format|json_?schema)|output_format|text\.format|json_?schema|structured output"
    r"|schema|grammar",
    re.IGNORECASE,
)
"""Words of a refusal of the schema that an answer should have."""

_STOPS = " .,;:。"
_STAYS_CHARGED = "All that was held stays charged; `baton budget release` lists it. "

_UNCLEAR_STATUSES = (408, 424, 499, 504, 524)
"""After these the model may have been at work: a proxy or the server stopped waiting for it, or it
failed while it read the request (424, Bedrock)."""


_SETTING_STATUSES = (400, 422, 500)
"""With these a setting is refused; 500 is what llama-server makes of a chat template's refusal."""


async def response_failure(call: CloudCall, response: httpx.Response, sent: bytes) -> Failure:
    """Return the failure that an answer other than 200 to a body that was sent means."""
    body, is_whole = await _read_error_body(response)
    status = response.status_code
    error = _parse_error(body)
    own = is_whole and is_own_error(call.dialect, error)
    is_refusal = 400 <= status < 500 or (500 <= status < 600 and own)
    declined = is_refusal and status not in _UNCLEAR_STATUSES
    reason = error_sentence(error)
    if 300 <= status < 400:
        return Failure(
            "WorkerError",
            f"{call.who} has moved (HTTP {status}). Nothing was sent to its new address.",
            "Check the address.",
        )
    if declined and status in _SETTING_STATUSES:
        refused = refused_option(error, reason, json.loads(sent))
        if refused is not None:
            return _setting_refusal(call, _shown_text(reason, call.key), *refused)
    failure = _known_failure(
        call, error, reason, declined=declined, status=status, headers=response.headers
    )
    if failure is not None:
        return failure
    shown = _shown_text(reason, call.key)
    if declined and status < 500:
        return _request_refusal(call, shown, status)
    charged = "Nothing was charged. " if declined else ""
    return Failure(
        "WorkerUnavailable",
        f"{call.who} failed (HTTP {status}){_detail(shown)}",
        f"{charged}Try again later.",
        declined=declined,
    )


async def _read_error_body(response: httpx.Response) -> tuple[bytes, bool]:
    """Read an error, within bounds; return it, and whether that is all of it."""
    body, is_whole = b"", False
    if not is_compressed(response):
        with suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(ERROR_SECONDS):
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MAX_ERROR_BYTES:
                        break
                else:
                    is_whole = True
    return body[:MAX_ERROR_BYTES], is_whole


def is_compressed(response: httpx.Response) -> bool:
    """Whether an answer is compressed, although none should be: it may expand to any size."""
    encodings: str = response.headers.get("content-encoding", "")
    return any(name.strip().lower() not in ("", "identity") for name in encodings.split(","))


def compressed_failure(call: CloudCall) -> Failure:
    return Failure(
        "WorkerError",
        f"{call.who} sends a compressed answer, which Baton doesn't read.",
        "Choose another worker, or look for a proxy that compresses.",
    )


def connection_failure(call: CloudCall, error: Exception) -> Failure:
    """Return the failure that a failed connection means."""
    kept = " What it had written is kept." if call.reader.wrote else ""
    if isinstance(error, UNSENT_ERRORS):
        why = _shown_text(str(error), call.key) or type(error).__name__
        return Failure(
            "WorkerUnavailable",
            f"{call.who} can't be reached{_detail(why)}",
            "Check the address and the network; nothing was sent.",
            declined=True,
            unsent=True,
        )
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return Failure("WorkerUnavailable", f"{call.who} stopped answering.{kept}", "Try again.")
    return Failure(
        "WorkerUnavailable", f"The connection to {call.who} was cut.{kept}", "Try again."
    )


def endless_failure(call: CloudCall) -> Failure:
    """An answer is longer than everything that its cap allows."""
    return Failure(
        "WorkerError",
        f"{call.who} doesn't end. What it had written is kept.",
        "Choose another worker.",
    )


def unfinished_failure(call: CloudCall) -> Failure:
    """The answer stopped without the provider's own end."""
    kept = " What it had written is kept." if call.reader.wrote else ""
    if call.reader.error:
        reason, event, declined = call.reader.error, call.reader.error_event, call.reader.is_refusal
        if (failure := _known_failure(call, event, reason, declined=declined)) is not None:
            failure.failed.message += kept if failure.failed.message else ""
            return failure
        return Failure(
            "WorkerUnavailable",
            f"{call.who} failed{_detail(_shown_text(reason, call.key))}{kept}",
            "Nothing was charged. Try again later." if declined else "Try again later.",
            declined=declined,
        )
    if call.reader.broken or not call.reader.events:
        message = f"{call.who} answered in a way that Baton doesn't understand.{kept}"
        return Failure("WorkerError", message, "Check the address, or choose another worker.")
    return Failure(
        "WorkerUnavailable", f"The answer of {call.who} was cut off.{kept}", "Try again."
    )


def missing_key_failure(call: CloudCall) -> Failure:
    name = call.variable or call.provider
    return Failure(
        "SecretMissing",
        f"There is no key for {call.who}.",
        f"Enter it with `baton keys set {name}`.",
    )


def _detail(reason: str, unsaid: str = ".") -> str:
    """Return what ends a sentence: what was said, with a stop; `unsaid` where nothing was."""
    reason = reason.rstrip(_STOPS)
    stop = "" if re.search(r"[.!?…][\"'`)\]]*$", reason) else "."
    return f": {reason}{stop}" if reason else unsaid


def _shown_text(reason: str, key: str) -> str:
    """Return the beginning of what was said, on one line and without the key."""
    shown = one_line(without_key(reason[:MAX_SAID_CHARS], key), MAX_SHOWN_CHARS)
    return shown if re.search(r"\w", shown) else ""


def without_key(text: str, key: str) -> str:
    """Return the text with the key, and any longer part of it, removed."""
    if len(key) < MIN_ECHO_CHARS:
        return text
    kept, start = "", 0
    while start < len(text):
        size = 0
        while start + size < len(text) and text[start : start + size + 1] in key:
            size += 1
        if size >= MIN_ECHO_CHARS:
            kept, start = kept + KEY_MARK, start + size
        else:
            kept, start = kept + text[start], start + 1
    return kept


def _parse_error(body: bytes) -> object:
    """Return an error as data; its text where it isn't JSON."""
    text = body.decode("utf-8", "replace")
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def _request_refusal(call: CloudCall, reason: str, status: int) -> Failure:
    detail = _detail(reason, f" (HTTP {status}).")
    if call.schema and _FORM_WORDS.search(reason):
        return Failure(
            "WorkerError",
            f"{call.who} can't give an answer in a set form{detail}",
            "Nothing was charged. Choose another worker for that.",
            declined=True,
        )
    return Failure(
        "WorkerError",
        f"{call.who} refused the request{detail}",
        "Nothing was charged.",
        declined=True,
    )


def _setting_refusal(call: CloudCall, reason: str, option: str, value: str) -> Failure:
    instead = f"with {value}" if value else "without it"
    return Failure(
        "WorkerError",
        f"{call.who} refused the {OPTION_NAMES[option]}{_detail(reason)} It is asked {instead}.",
        "Nothing was charged.",
        declined=True,
        option=option,
        value=value,
        lasts=not is_about_value(option, reason),
    )


def _known_failure(
    call: CloudCall,
    error: object,
    reason: str,
    *,
    declined: bool,
    status: int = 0,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Failure | None:
    """Return the failure that an error means, of which `reason` is the sentence.

    None where the table doesn't have it, or too long after something was written.
    """
    reason = reason[:MAX_SAID_CHARS]
    host = (urlsplit(call.base_url).hostname or "").split(".")
    names = {call.provider, *(".".join(host[n:]) for n in range(len(host)))}
    kind = find_kind(names, status, error, reason)
    if kind is None or (kind.error == "ContextTooLong" and call.reader.wrote):
        return None
    is_billed = not names.isdisjoint(kind.billed)
    declined = declined and not is_billed
    if kind.error == "ContextTooLong":
        guess = sum(estimated_tokens(message["content"]) for message in call.messages) + call.cap
        needed, limit = context_sizes(error, reason, call.context, guess)
        return Failure("ContextTooLong", "", declined=declined, needed=needed, limit=limit)
    message, hint = kind.message, kind.hint
    if kind.error == "SecretMissing" and not call.needs_key:
        message, hint = "{who} wants a key{said}", "Name one with `api_key_env`."
    shown = _shown_text(reason, call.key)
    words = {
        "who": call.who,
        "said": _detail(shown, f" (HTTP {status})." if status else "."),
        "aside": f" ({shown.rstrip(_STOPS)})" if shown else "",
        "charge": "Nothing was charged. " if declined else _STAYS_CHARGED if is_billed else "",
        "wait": wait_text(wait_seconds(headers, error, reason)),
        "name": call.variable or call.provider,
        "model": f"{call.provider}/{call.model}" if call.through_library else call.model,
        "remedy": _model_remedy(call, shown) if kind.name == "model" else "",
    }
    message, hint = message.format_map(words), hint.format_map(words)
    return Failure(kind.error, message, hint, declined=declined)


def _model_remedy(call: CloudCall, reason: str) -> str:
    """Return what to do about a model that isn't offered (any more)."""
    if not call.through_library:
        return "Correct its `model` in the worker's entry (`baton config edit`)."
    from baton.workers.cloud.price_table import successor_of

    model = f"{call.provider}/{call.model}"
    if successor := successor_of(model, reason, time.strftime("%Y-%m-%d")):
        return (
            f"Its successor is {successor}: put that into the worker's entry (`baton config edit`)"
            f" or name it with `-m {successor}`."
        )
    return f"`baton budget prices {call.provider}` lists others."
