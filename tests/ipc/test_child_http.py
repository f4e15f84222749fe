"""When a server wants to be asked again."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pytest

from baton.ipc.child_http import retry_after, wait_text


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
        ({}, None),
    ],
)
def test_when_to_come_back(headers: Mapping[str, str], seconds: float | None) -> None:
    now = datetime.datetime(2026, 11, 21, 21, tzinfo=datetime.UTC)
    assert retry_after(headers, now.timestamp()) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "a minute"), (0, "1 second"), (1.5, "2 seconds"), (119, "119 seconds"),
     (120, "2 minutes"), (7199, "120 minutes"), (7200, "2 hours"), (7201, "3 hours")],
)  # fmt: skip
def test_a_wait_wait_text(seconds: float | None, words: str) -> None:
    assert wait_text(seconds) == words
