"""What each child process that speaks HTTP needs: certificates, and how long a server says to wait.

Only `*/child/` imports this module, since it imports httpx.
"""

from __future__ import annotations

import datetime
import re
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from baton.ipc.parent_channel import Failure

MAX_WAIT_SECONDS = 86_400.0
"""A server that asks for a longer wait is taken at this."""

_FIRST_EPOCH_SECOND = 1_000_000_000
"""Longer waits are times: seconds, or a thousand times as much in milliseconds, since 1970."""

_NUMBER = "[0-9]+(?:[.][0-9]+)?"
_UNITS = {"ms|milliseconds?": 0.001, "s|sec|seconds?": 1, "m|min|minutes?": 60, "h|hours?": 3600,
          "d|days?": 86_400}  # fmt: skip
DURATION = rf"(?:{_NUMBER}\s*(?:{'|'.join(_UNITS)})(?![a-z])[\s,]*)+"
"""A wait in parts, such as "1m30.5s" or "20 seconds": a regular expression, without case."""

_RATE_LIMIT = re.compile(r'"\w+"\s*;\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,9})')


def trusted_certificates(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the well-known authorities, and those that the user added. Raises Failure."""
    context = httpx.create_ssl_context(trust_env=False)
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if file or folder:
        try:
            if file and not Path(file).is_file():
                raise FileNotFoundError("it isn't a file")  # a pipe may never be written to
            context.load_verify_locations(file or None, folder or None)
        except OSError as error:
            raise Failure(
                "ConfigError",
                "The certificates that SSL_CERT_FILE or SSL_CERT_DIR names can't be read."
                " Nothing was sent.",
                "Correct the variable, or remove it.",
            ) from error
    return context


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds after which a server wants to be asked again, None if it doesn't say.

    Without a word on that it is when the limit that was used up is renewed.
    """
    named = {name.lower(): value.strip() for name, value in headers.items()}
    now = time.time() if now is None else now
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (wait := duration_seconds(named.get(name, ""), unit, now)) is not None:
            return wait
    if match := _RATE_LIMIT.search(named.get("ratelimit", "")):
        return min(float(match[1]), MAX_WAIT_SECONDS)
    resets = [
        duration_seconds(value, now=now)
        for name, value in named.items()
        if "ratelimit" in name and "reset" in name
        if named.get(name.replace("reset", "remaining"), "0") == "0"
    ]
    return max((wait for wait in resets if wait is not None), default=None)


def duration_seconds(text: str, unit: float = 1.0, now: float | None = None) -> float | None:
    """Return the seconds that a wait in a header or an error stands for, None if it is none.

    It is a number of units (in seconds), parts such as "1m30.5s" and "20 seconds", or the time of
    its end: a date, or seconds or milliseconds since 1970.
    """
    text, now = text.strip(), time.time() if now is None else now
    wait: float | None = None
    if re.fullmatch(_NUMBER, text):
        number = float(text)
        wait = number * unit
        if number > _FIRST_EPOCH_SECOND:
            wait = number / (1000 if number > _FIRST_EPOCH_SECOND * 1000 else 1) - now
    elif re.fullmatch(DURATION, text, re.IGNORECASE):
        wait = 0.0
        for names, seconds in _UNITS.items():
            found = re.findall(rf"({_NUMBER})\s*(?:{names})(?![a-z])", text, re.IGNORECASE)
            wait += sum(float(number) for number in found) * seconds
    for parse in (parsedate_to_datetime, datetime.datetime.fromisoformat):
        with suppress(ValueError, TypeError, OverflowError):
            until = parse(text)
            until = until if until.tzinfo else until.replace(tzinfo=datetime.UTC)
            wait = until.timestamp() - now if wait is None else wait
    return None if wait is None else min(max(wait, 0.0), MAX_WAIT_SECONDS)


def wait_text(seconds: float | None) -> str:
    """Return a wait in words; "a minute" where it isn't known."""
    if seconds is None:
        return "a minute"
    whole = max(1, -int(-seconds // 1))
    if whole < 120:
        return f"{whole} second{'' if whole == 1 else 's'}"
    return f"{-(-whole // 60)} minutes" if whole < 7200 else f"{-(-whole // 3600)} hours"
