"""What a cloud model accepts besides text, by the family that its name belongs to.

The table is `families.toml`, beside the price list: each entry has a source and a date.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

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
