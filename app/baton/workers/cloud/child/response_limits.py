"""The bounds on everything that a provider sends: bytes, time, events, nesting, answers.

A request shows its cap, so an answer that goes beyond what its cap can fill is one without an end.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

MAX_HEADERS = 128
"""How many headers an answer may have; their bytes are bounded by httpcore (100 KiB)."""

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Of one line, and of one event."""

MAX_EVENTS = 10_000
MAX_EVENTS_PER_TOKEN = 8
MAX_BYTES = 1 << 20
MAX_BYTES_PER_TOKEN = 2048
MAX_CHARS = 4096
MAX_CHARS_PER_TOKEN = 64

MAX_ERROR_BYTES = 64 * 1024
ERROR_SECONDS = 10.0
"""How much of an error is read, and for how long."""

MAX_DEPTH = 64
"""How deeply JSON may be nested."""

MAX_RUNS_PER_TOKEN = 64
"""How many runs of one character a token can stand for.

The longest tokens of the tokenizers in use (128 characters in o200k_base) are a single run of
spaces, dashes or the like; the longest others have about 40 characters, but for a remnant of
training data in Claude's (test_response_limits.py tries whole vocabularies).
"""

MAX_WORDS_PER_TOKEN = 2
"""How many words a token can stand for, over a whole text.

Tokenizers cut a text at its spaces before they merge anything, so a word is a token at least. Those
that merge across spaces (SuperBPE, arXiv 2503.13423) save a third of the tokens, not a half.
"""

MAX_EAST_ASIAN_PER_TOKEN = 16
"""How many runs of Chinese characters, kana or hangul, or of their punctuation, one token can hold.

The longest such token of 29 vocabularies (OpenAI's, Claude's, Gemini's, DeepSeek's, Qwen's,
Mistral's, Llama's and those that llama.cpp ships) is a phrase of 16 Chinese characters; 16 is also
where SentencePiece ends a token by default. Real Chinese has 0.5 to 1.2 tokens for a character.
"""

MAX_SOUTH_EAST_ASIAN_PER_TOKEN = 20
"""How many runs of Thai, Lao, Tibetan, Burmese or Khmer characters one token can hold.

The longest is Thai, in o200k_base.
"""

_EAST_ASIAN = re.compile("[\u2e80-\u3098\u309b-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Without the parts (U+1100 to U+11FF, U+3099, U+309A) that a tokenizer may join beforehand."""

_SOUTH_EAST_ASIAN = re.compile("[\u0e00-\u109f\u1780-\u17ff]")

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""A string, or one without its end: no part of it is looked at twice."""

_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}


def is_endless(cap: int, *, seen: int, events: int, written: int) -> bool:
    """Whether so many bytes, events and characters are more than an answer's cap can fill."""
    return (
        seen > MAX_BYTES + MAX_BYTES_PER_TOKEN * cap
        or events > MAX_EVENTS + MAX_EVENTS_PER_TOKEN * cap
        or written > MAX_CHARS + MAX_CHARS_PER_TOKEN * cap
    )


def parse_json(text: str) -> Any:
    """Return JSON as data. Raises ValueError, also for what is nested too deeply."""
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    return json.loads(text)


class FewestTokens:
    """The number of tokens that a text can't have less of; the text may come in pieces.

    A run of one character may be one token, hence runs are counted, not characters. A word is what
    stands between white space and has a letter or digit. Scripts that don't part their words are
    bounded by the most characters that a token of any vocabulary holds.
    """

    def __init__(self) -> None:
        self._runs = 0
        self._east_asian = 0
        self._south_east_asian = 0
        self._words = 0
        self._last = ""
        self._is_in_counted_word = False

    def add(self, text: str) -> None:
        """Take the next piece."""
        for character in text:
            if character != self._last:
                self._runs += 1
                self._last = character
                if character >= "\u0e00":
                    self._east_asian += bool(_EAST_ASIAN.match(character))
                    self._south_east_asian += bool(_SOUTH_EAST_ASIAN.match(character))
                if character.isspace():
                    self._is_in_counted_word = False
                elif not self._is_in_counted_word and character.isalnum():
                    self._is_in_counted_word = True
                    self._words += 1

    @property
    def count(self) -> int:
        """The number for all pieces so far."""
        unparted = (
            self._east_asian * MAX_SOUTH_EAST_ASIAN_PER_TOKEN
            + self._south_east_asian * MAX_EAST_ASIAN_PER_TOKEN
        )
        return max(
            -(-self._runs // MAX_RUNS_PER_TOKEN),
            -(-self._words // MAX_WORDS_PER_TOKEN),
            -(-unparted // (MAX_EAST_ASIAN_PER_TOKEN * MAX_SOUTH_EAST_ASIAN_PER_TOKEN)),
        )


def fewest_tokens(text: str) -> int:
    """Return the number of tokens that a text can't have less of."""
    fewest = FewestTokens()
    fewest.add(text)
    return fewest.count


def _depth(text: str) -> int:
    signs = _STRING.sub("", text)
    return max(accumulate(_STEPS.get(sign, 0) for sign in signs), default=0)
