"""One use of one worker elsewhere, as the gateway knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from baton.children.dialects import DIALECTS, Reader


@dataclass(eq=False, slots=True)
class Call:
    """What was asked for, and how far it is.

    `who` is the provider's name for people. `variable` names a worker's own key, `needs_key` is
    whether it has one at all. `cap` is the most tokens the answer may have, `bound` the most bytes
    of text the request may have, `context` the worker's, `first` how many seconds it may take to
    the first word (a model may think that long in silence). `privacy` is the worker's label, `most`
    the highest prices in dollars per million tokens, for OpenRouter, which asks others whose prices
    differ. `schema` is the JSON Schema that the answer shall keep to, "" where none can be asked
    for. `announce` reports to the front what will be sent; nothing is until `go` is set.
    `ended_well` is whether all of the answer came.
    """

    id: int
    who: str
    provider: str
    model: str
    base_url: str
    variable: str
    needs_key: bool
    through_library: bool
    messages: list[dict[str, str]]
    cap: int
    bound: int
    context: int
    first: float
    temperature: float | None
    seed: int | None
    announce: Callable[[str, bytes], None]
    privacy: str = "cloud"
    most: dict[str, float] | None = None
    schema: str = ""
    dialect: str = "chat"
    key: str = ""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    reader: Reader = field(default_factory=DIALECTS["chat"])
    ended_well: bool = False

    @property
    def tier(self) -> str | None:
        """The service tier to ask for, where OpenAI's project might have a dearer one set."""
        host = urlsplit(self.base_url).hostname or ""
        return "default" if host.endswith(".openai.com") else None

    def speak(self, dialect: str) -> None:
        """Choose the dialect in which it will be answered."""
        self.dialect = dialect
        self.reader = DIALECTS[dialect]()
