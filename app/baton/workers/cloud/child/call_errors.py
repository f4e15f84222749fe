"""Failures of a call, in sentences for people, and whether they can have cost anything.

`declined` is set only where the provider refused the request outright, or never got it.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx

from baton.core.messages import estimated_tokens
from baton.core.sanitiser import one_line
from baton.ipc.child_http import retry_after, wait_text
from baton.ipc.parent_channel import Failure
from baton.workers.cloud.child.answer_reader import error_sentence, is_own_error
from baton.workers.cloud.child.option_refusals import refused_option
from baton.workers.cloud.child.response_limits import ERROR_SECONDS, MAX_ERROR_BYTES, parse_json
from baton.workers.cloud.learned_settings import OPTION_NAMES

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

_TOO_LONG = re.compile(
    r"context[ _]length|context window|maximum context|prompt is too long|input is too long"
    r"|exceed_context_size|exceeds the maximum number of tokens|too many (input )?tokens",
    re.IGNORECASE,
)
_VIOLATION = re.compile(r"usage guidelines|safety_check", re.IGNORECASE)
"""Words of xAI, with 403, about a prompt for which it charges its fee for violations."""

_FORM_WORDS = re.compile(
    r"response_?(format|json_?schema)|output_format|text\.format|json_?schema|structured output"
    r"|schema|grammar",
    re.IGNORECASE,
)
"""Words of a refusal of the schema that an answer should have."""

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d{3,}")


_UNCLEAR_STATUSES = (408, 499, 504, 524)
"""After these the model may have been at work: a proxy or the server stopped waiting for it."""


async def response_failure(call: CloudCall, response: httpx.Response, sent: bytes) -> Failure:
    """Return the failure that an answer other than 200 to a body that was sent means."""
    body, is_whole = await _read_error_body(response)
    status = response.status_code
    error = _parse_error(body)
    said = _shown_text(error_sentence(error), call.key)
    own = is_whole and is_own_error(call.dialect, error)
    is_refusal = 400 <= status < 500 or (500 <= status < 600 and own)
    declined = is_refusal and status not in _UNCLEAR_STATUSES
    if status == 403 and call.provider == "xai" and _VIOLATION.search(said):
        return Failure(
            "WorkerError",
            f"{call.who} refused the text, for which it may charge a fee{_detail(said)}",
            "All that was held stays charged; `baton budget release` lists it.",
        )
    if status in (401, 403):
        return _key_refusal(call, said, declined)
    if status == 429:
        return _rate_limit_failure(call, said, wait_text(retry_after(response.headers)), declined)
    if declined and status < 500 and _TOO_LONG.search(said + body.decode("utf-8", "replace")):
        needed, limit = _token_counts(call, said)
        return Failure("ContextTooLong", "", declined=True, needed=needed, limit=limit)
    if declined and status in (400, 422):
        refused = refused_option(error, error_sentence(error), json.loads(sent))
        if refused is not None:
            return _setting_refusal(call, said, *refused)
    if declined and status < 500:
        return _request_refusal(call, said, status)
    if 300 <= status < 400:
        return Failure(
            "WorkerError",
            f"{call.who} has moved (HTTP {status}). Nothing was sent to its new address.",
            "Check the address.",
        )
    charged = "Nothing was charged. " if declined else ""
    return Failure(
        "WorkerUnavailable",
        f"{call.who} failed (HTTP {status}){_detail(said)}",
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
    said: str = response.headers.get("content-encoding", "")
    return any(name.strip().lower() not in ("", "identity") for name in said.split(","))


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
    """An answer goes on beyond everything that its cap allows."""
    return Failure(
        "WorkerError",
        f"{call.who} doesn't come to an end. What it had written is kept.",
        "Choose another worker.",
    )


def unfinished_failure(call: CloudCall) -> Failure:
    """The answer stopped without the provider's own end."""
    kept = " What it had written is kept." if call.reader.wrote else ""
    if call.reader.error:
        said = _shown_text(call.reader.error, call.key)
        declined = call.reader.is_refusal
        return Failure(
            "WorkerUnavailable",
            f"{call.who} failed{_detail(said)}{kept}",
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


def _detail(said: str, unsaid: str = ".") -> str:
    """Return what ends a sentence: what was said, with a stop; `unsaid` where nothing was."""
    stop = "" if said.endswith((".", "!", "?", "…")) else "."
    return f": {said}{stop}" if said else unsaid


def _shown_text(said: str, key: str) -> str:
    """Return the beginning of what was said, on one line and without the key."""
    return one_line(without_key(said[:MAX_SAID_CHARS], key), MAX_SHOWN_CHARS)


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
    """Return an error as data; None where it is none."""
    try:
        return parse_json(body.decode())
    except (ValueError, RecursionError):
        return None


def _request_refusal(call: CloudCall, said: str, status: int) -> Failure:
    detail = _detail(said, f" (HTTP {status}).")
    if call.schema and _FORM_WORDS.search(said):
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


def _setting_refusal(call: CloudCall, said: str, option: str, value: str) -> Failure:
    instead = f"with {value}" if value else "without it"
    return Failure(
        "WorkerError",
        f"{call.who} refused the {OPTION_NAMES[option]}{_detail(said)} It is asked {instead}.",
        "Nothing was charged.",
        declined=True,
        option=option,
        value=value,
    )


def _key_refusal(call: CloudCall, said: str, declined: bool) -> Failure:
    detail = _detail(said)
    if not call.needs_key:
        message, hint = f"{call.who} wants a key{detail}", "Name one with `api_key_env`."
    else:
        name = call.variable or call.provider
        message = f"{call.who} refused the key{detail}"
        hint = f"Enter another with `baton keys set {name}`."
    return Failure("SecretMissing", message, hint, declined=declined)


def _rate_limit_failure(call: CloudCall, said: str, wait: str, declined: bool) -> Failure:
    detail = f" ({said.rstrip('.')})" if said else ""
    return Failure(
        "WorkerUnavailable",
        f"{call.who} takes no more requests for now{detail}.",
        f"Try again in {wait}, or choose another worker.",
        declined=declined,
    )


def _token_counts(call: CloudCall, said: str) -> tuple[int, int]:
    """Return the tokens that were needed and the limit, as the provider names them if it does."""
    numbers = sorted({int(n.replace(",", "")) for n in _NUMBER.findall(said)})
    if len(numbers) >= 2:
        return numbers[-1], numbers[-2]
    guess = sum(estimated_tokens(message["content"]) for message in call.messages) + call.cap
    limit = numbers[0] if numbers else call.context
    return max(guess, limit + 1), limit
