"""How the kit's cloud can misbehave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """How one POST goes wrong."""

    UNAUTHORISED = "401"
    FORBIDDEN = "403"
    NOT_FOUND = "404"
    RATE_LIMITED = "429"
    TOO_LONG = "400 too long"
    NO_FORM = "400 over the answer's form"
    NO_SETTING = "400 over a setting"
    SERVER_ERROR = "500"
    OVERLOADED = "529"
    BARE_ERROR = "500 with a page"
    CUT_ERROR = "500 cut in its error"
    ERROR_FIRST = "error before the first token"
    ECHO_KEY = "401 echoes the key"
    REDIRECT = "307 to another address"
    HTML = "200 with a page"
    EMPTY = "200 with nothing"
    HUGE_HEADER = "huge header"
    SLOW_START = "slow first byte"
    STALL = "stall in mid-stream"
    ERROR_IN_STREAM = "error in mid-stream"
    ECHO_IN_STREAM = "error in mid-stream echoes the key"
    CUT_AT_ONCE = "cut before the answer's head"
    CUT_BEFORE_FIRST = "cut before the first token"
    CUT_MIDWAY = "cut in mid-stream"
    RESET_MIDWAY = "reset in mid-stream"
    CUT_POLITELY = "a proper end of HTTP in mid-stream"
    CUT_BEFORE_LAST = "cut before the last token"
    CUT_BEFORE_END = "cut after the last token"
    CUT_BEFORE_MARKER = "cut before the end marker"
    MALFORMED = "malformed event"
    NO_USAGE = "no usage"
    NEGATIVE_USAGE = "negative usage"
    TEXT_USAGE = "usage in words"
    HUGE_USAGE = "huge usage"
    LOW_USAGE = "usage of a tenth"
    ABOVE_CAP = "usage above the cap"
    ENDLESS = "endless stream"
    FILTERED = "ended by a content filter"
    CALLS_TOOL = "ended in the call of a tool"
    SPLIT_BYTES = "every byte a chunk"
    NOT_STREAMED = "a whole answer to a request for a stream"
    GZIP = "gzip"


REFUSED: Mapping[Fault, int] = {
    Fault.UNAUTHORISED: 401,
    Fault.FORBIDDEN: 403,
    Fault.NOT_FOUND: 404,
    Fault.RATE_LIMITED: 429,
    Fault.TOO_LONG: 400,
    Fault.NO_FORM: 400,
    Fault.NO_SETTING: 400,
    Fault.SERVER_ERROR: 500,
    Fault.OVERLOADED: 529,
    Fault.BARE_ERROR: 500,
    Fault.CUT_ERROR: 500,
    Fault.ECHO_KEY: 401,
}
"""Faults that are answered by an error alone."""

UNCLEAR = frozenset({Fault.BARE_ERROR, Fault.CUT_ERROR})
"""Those of them that aren't a whole error of the provider's own: it may have been at work."""

FREE = frozenset(REFUSED) - UNCLEAR | {Fault.ERROR_FIRST}
"""Faults that cost nothing."""

UNCOUNTED = frozenset(
    {Fault.NO_USAGE, Fault.NEGATIVE_USAGE, Fault.TEXT_USAGE, Fault.HUGE_USAGE, Fault.LOW_USAGE}
)
"""Faults after which the answer is whole, but without a count to believe."""

ENDINGS: Mapping[Fault, str] = {Fault.FILTERED: "filter", Fault.CALLS_TOOL: "tool"}
"""Faults that end an answer otherwise than it should."""

HARMLESS = frozenset({Fault.SPLIT_BYTES, Fault.NOT_STREAMED, *ENDINGS})
"""Faults after which the answer is whole and its usage right."""

USAGE_FAULTS: Mapping[Fault, Callable[[int], Any]] = {
    Fault.NEGATIVE_USAGE: lambda n: -n - 1,
    Fault.TEXT_USAGE: lambda n: f"about {n}",
    Fault.HUGE_USAGE: lambda n: 10**30 + n,
    Fault.LOW_USAGE: lambda n: n // 10,
}
