"""When a server wants to be asked again."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pytest

from baton.ipc.child_http import duration_seconds, retry_after, wait_text


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120),
        ({"retry-after": " 0 "}, 0),
        ({"Retry-After": "9" * 30}, 86_400),
        ({"Retry-After": "Sat, 21 Nov 2026 21:01:00 GMT"}, 60),
        ({"Retry-After": "Sat, 21 Nov 2026 22:01:00 +0100"}, 60),
        ({"Retry-After": "Sat, 21 Nov 2026 20:59:00 GMT"}, 0),
        ({"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, 86_400),
        ({"RateLimit": '"resolvers";r=0;t=12'}, 12),
        ({"RateLimit": '"resolvers";r=7;t=12'}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "١٢"}, None),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "1m30s"}, 90),
        ({"Retry-After": "1795294860"}, 60),
        ({"Retry-After": "9" * 5000}, 86_400),
        ({"retry-after-ms": "7660", "Retry-After": "8"}, 7.66),
        ({"retry-after-ms": "soon", "Retry-After": "8"}, 8),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2m59.56s"}, 179.56),
        ({"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "2m59.56s"}, None),
        ({"x-ratelimit-reset-tokens": "2m59.56s"}, 179.56),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "30"}, 30),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "12",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "60ms",
            },
            12,
        ),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795294860000"}, 60),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-21T21:01:00Z",
            },
            60,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
        ({}, None),
    ],
)
def test_when_to_come_back(headers: Mapping[str, str], seconds: float | None) -> None:
    now = datetime.datetime(2026, 11, 21, 21, tzinfo=datetime.UTC)
    assert retry_after(headers, now.timestamp()) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("34.07s", 34.07),
        ("1m47.5854s", 107.5854),
        ("1h 2m 3s", 3723),
        ("20 seconds", 20),
        ("2 hours", 7200),
        ("3 days", 86_400),
        ("120ms", 0.12),
        ("5 milliseconds", 0.005),
        ("1 minute, 5 seconds", 65),
        ("7", 7),
        ("s", None),
        ("5 monkeys", None),
        ("", None),
    ],
)
def test_a_wait_in_parts(text: str, seconds: float | None) -> None:
    assert duration_seconds(text, now=0.0) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "a minute"), (0, "1 second"), (1.5, "2 seconds"), (119, "119 seconds"),
     (120, "2 minutes"), (7199, "120 minutes"), (7200, "2 hours"), (7201, "3 hours")],
)  # fmt: skip
def test_a_wait_wait_text(seconds: float | None, words: str) -> None:
    assert wait_text(seconds) == words
