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

_RATE_LIMIT = re.compile(r'"\w+"\s*;\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,9})')


def trusted_certificates(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the well-known authorities, and those that the person added. Raises Failure."""
    context = httpx.create_ssl_context(trust_env=False)
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if file or folder:
        try:
            if file and not Path(file).is_file():
                raise FileNotFoundError("it is no file")  # a pipe may never be written to
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
    """Return the seconds after which a server wants to be asked again, None if it doesn't say."""
    named = {name.lower(): value.strip() for name, value in headers.items()}
    after = named.get("retry-after", "")
    if after.isdecimal() and after.isascii():
        return min(float(after[:9]), MAX_WAIT_SECONDS)
    with suppress(ValueError, TypeError, OverflowError):
        until = parsedate_to_datetime(after)
        until = until if until.tzinfo else until.replace(tzinfo=datetime.UTC)
        wait = until.timestamp() - (time.time() if now is None else now)
        return min(max(wait, 0.0), MAX_WAIT_SECONDS)
    if match := _RATE_LIMIT.search(named.get("ratelimit", "")):
        return min(float(match[1]), MAX_WAIT_SECONDS)
    return None


def wait_text(seconds: float | None) -> str:
    """Return a wait in words; "a minute" where it isn't known."""
    if seconds is None:
        return "a minute"
    whole = max(1, -int(-seconds // 1))
    if whole < 120:
        return f"{whole} second{'' if whole == 1 else 's'}"
    return f"{-(-whole // 60)} minutes" if whole < 7200 else f"{-(-whole // 3600)} hours"
