"""Which settings a model takes: by the table of families, and as its provider refused them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from baton.platform.durable_files import read_ordinary, replace_file

FAMILIES_FILE = Path(__file__).with_name("families.toml")

LEVELS = ("none", "minimal", "low", "medium", "high")
"""How much a model may think, the least first."""

_ALSO_OPENAIS = ("azure/", "bedrock_mantle/openai.")
"""What names of OpenAI's models at other providers begin with."""

_USUAL_FORM = {"reasoning_effort": "VALUE"}

Sampling = Literal["both", "one", "unthinking", "none"]


class ModelFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the table, or all that match a model in one; `families.toml` says what each is.

    `effort` maps levels to what is sent for them. `must_reason`: only to models that are known to
    reason. Without `greedy_top_p` a temperature of 0 takes no top_p.
    """

    models: tuple[str, ...] = ()
    effort: str | dict[str, str | int | bool | dict[str, Any]] = ""
    form: dict[str, Any] = {}
    least: int = 0
    must_reason: bool = False
    sampling: Sampling = "both"
    hottest: float = 2.0
    greedy_top_p: bool = True
    cap: str = ""
    system: str = "system"
    schema: bool = True
    dialect: str = "chat"
    seed: str = "seed"
    usage: bool = True
    thinks: bool = False
    said: dict[str, dict[str, Any]] = {}
    extra: dict[str, Any] = {}
    source: str = ""
    date: str = ""

    @property
    def levels(self) -> dict[str, Any]:
        """What is sent at each level that it takes, the least first."""
        if isinstance(self.effort, str):
            return {level: level for level in self.effort.split()}
        return self.effort

    def level(self, wanted: str) -> str:
        """Return the most thinking that isn't above what is wanted, else the least; "" for none."""
        most = LEVELS.index(wanted)
        fitting = [level for level in self.levels if LEVELS.index(level) <= most]
        return fitting[-1] if fitting else next(iter(self.levels), "")

    def ask_for(self, level: str, cap: int) -> tuple[str, dict[str, Any]]:
        """Return the level that is asked for, and the fields of a body that ask for it.

        A budget leaves half of the answer's cap to the answer; where that is less than the smallest
        one, the least thinking is asked for instead.
        """
        value = self.levels.get(level, "")
        if isinstance(value, int) and not isinstance(value, bool):
            value = min(value, cap // 2)
            if value < self.least and (least := self.level("none")) != level:
                return self.ask_for(least, cap)
            value = max(value, self.least)
        if isinstance(value, dict):
            return level, value
        return level, {} if value == "" else self.fill(value)

    def fill(self, value: Any) -> dict[str, Any]:
        """Return the fields of a body that send this for the effort."""
        filled: dict[str, Any] = _filled(self.form or _USUAL_FORM, value)
        return filled


def openais_name(model: str) -> str:
    """Return OpenAI's name of one of its models that another provider has, or the model's own."""
    prefix = next((found for found in _ALSO_OPENAIS if model.startswith(found)), "")
    return f"openai/{model.removeprefix(prefix)}" if prefix else model


@cache
def family_of(model: str) -> ModelFamily:
    """Return what is known of a model ("openai/gpt-5-mini"): all entries that match, in one."""
    names = {model, openais_name(model)}
    found: dict[str, Any] = {}
    for entry in _entries():
        if any(fnmatchcase(name, pattern) for pattern in entry["models"] for name in names):
            found |= entry
    return msgspec.convert(found, ModelFamily)


@cache
def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = msgspec.toml.decode(FAMILIES_FILE.read_bytes())["families"]
    return entries


def _filled(form: Any, value: Any) -> Any:
    """Return a form with what is sent in its place."""
    if isinstance(form, dict):
        return {name: _filled(part, value) for name, part in form.items()}
    return value if form == "VALUE" else form


# Learned from refusals


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
