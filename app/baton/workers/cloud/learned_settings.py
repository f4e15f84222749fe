"""Settings that models refused, and what they are asked with in their place.

A refusal is believed once the request without that setting was answered, and kept in a file for
REMEMBERED_DAYS: a provider may take tomorrow what it refuses today.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from baton.platform.durable_files import read_ordinary, replace_file

REMEMBERED_DAYS = 30

OPTION_NAMES = {
    "cap": "name of the cap",
    "effort": "reasoning effort",
    "extra": "format of thoughts",
    "schema": "form of the answer",
    "seed": "seed",
    "stop": "stop texts",
    "system": "role of the system's text",
    "temperature": "temperature",
    "top_p": "top_p",
    "usage": "request for a count",
}
"""What the settings are called that can be learned."""

_MAX_FILE_BYTES = 1 << 20


class LearnedSetting(msgspec.Struct, frozen=True):
    """What is sent in a setting's place ("": nothing), and since when, in seconds of the epoch.

    `since` is 0 where it holds for one request, whose own value was refused.
    """

    value: str
    since: float


class LearnedSettings:
    """What was learned, by a model's name and address and the setting; without a `file`, for now.

    A file that can't be read or written is an empty one: the next refusal is learned again.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, dict[str, LearnedSetting]] | None = None
        self._tried: dict[str, dict[str, LearnedSetting]] = {}

    def text(self, model: str) -> str:
        """Return how a model is asked, to be put after "was asked", or ""."""
        return " and ".join(
            f"with {one.value} as its {OPTION_NAMES[option]}"
            if one.value
            else f"without its {OPTION_NAMES[option]}"
            for option, one in self.of(model).items()
        )

    def of(self, model: str) -> dict[str, LearnedSetting]:
        """Return what a model is asked with, refusals that are about to be tried included."""
        oldest = time.time() - REMEMBERED_DAYS * 86400
        known = {
            option: one
            for option, one in self._read().get(model, {}).items()
            if option in OPTION_NAMES and oldest < one.since <= time.time()
        }
        return known | self._tried.get(model, {})

    def try_instead(
        self,
        model: str,
        option: str,
        value: str,
        asked_with: Mapping[str, str],
        *,
        lasts: bool = True,
    ) -> bool:
        """Have the next request send that in a setting's place ("": nothing), or return False.

        `asked_with` is what was in place in the request that was refused. What was refused in place
        of something else is left out. What doesn't last isn't remembered after that request.
        """
        if option in asked_with:
            if not asked_with[option]:
                return False
            value = ""
        self._tried.setdefault(model, {})[option] = LearnedSetting(
            value, time.time() if lasts else 0.0
        )
        return True

    def confirm(self, model: str, asked_with: Mapping[str, str]) -> None:
        """Keep what was tried in a request that was answered."""
        tried = self._take_tried(model, asked_with)
        if lasting := {option: one for option, one in tried.items() if one.since}:
            known = self._read()
            known[model] = known.get(model, {}) | lasting
            if self._file is not None:
                with suppress(OSError):
                    replace_file(self._file, msgspec.json.encode(known))

    def give_up(self, model: str, asked_with: Mapping[str, str]) -> None:
        """Forget what was tried in a request that failed: it wasn't what was wrong."""
        self._take_tried(model, asked_with)

    def _take_tried(self, model: str, asked_with: Mapping[str, str]) -> dict[str, LearnedSetting]:
        """Take out what was tried and was in place in a request; other calls try others."""
        tried = self._tried.get(model, {})
        used = {
            option: tried.pop(option)
            for option, value in asked_with.items()
            if option in tried and tried[option].value == value
        }
        if not tried:
            self._tried.pop(model, None)
        return used

    def _read(self) -> dict[str, dict[str, LearnedSetting]]:
        if self._known is None:
            self._known = {}
            if self._file is not None:
                with suppress(OSError, msgspec.MsgspecError):
                    raw = read_ordinary(self._file, _MAX_FILE_BYTES)
                    self._known = msgspec.json.decode(
                        raw, type=dict[str, dict[str, LearnedSetting]]
                    )
        return self._known
