"""One call to a remote worker, as the gateway process knows it, and its request."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from baton.workers.cloud.child.answer_reader import AnswerReader
from baton.workers.cloud.child.response_limits import fewest_tokens
from baton.workers.cloud.child.stream_parsers import DIALECTS
from baton.workers.cloud.messages import TokenCount

MARGIN_TOKENS = 32
"""Tokens that an answer may have around its text."""

KEY_PLACEHOLDER = secrets.token_hex(24)
"""What stands for a call's key until its request is checked; no text of a person's equals it."""

KEY_HEADERS = {
    "azure": ("api-key", ""),
    "gemini": ("x-goog-api-key", ""),
    "vertex_ai": ("x-goog-api-key", ""),
}
"""The header of the key, and what stands before it, where litellm's configuration gives none."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What a call posts: `headers` hold KEY_PLACEHOLDER where its key goes."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(eq=False, slots=True)
class CloudCall:
    """What was asked for, and how far it is.

    `who` is the provider's name for people. `variable` names a worker's own key, `needs_key` is
    whether it has one at all. `cap` is the most tokens the answer may have, `bound` the most bytes
    of text the request may have, `context` the worker's, `connect` how many seconds a connection
    may take, `first` the first word with that, `stall` the next. `privacy`
    is the worker's label, `most` the highest prices in dollars per million tokens, for OpenRouter,
    which asks others whose prices differ. It ends before the first of `stop`, which servers are
    asked for. `schema` is the JSON Schema that the answer must keep to, "" where none can be asked
    for. `via` names the endpoints of Baton that the request came through, for the next one.
    `announce` reports to the front what will be sent; nothing is until `go` is set.
    `may_think_unseen` is whether the model may have written more than it shows.
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
    connect: float
    first: float
    temperature: float | None
    seed: int | None
    announce: Callable[[str, bytes], None]
    privacy: str = "cloud"
    most: dict[str, float] | None = None
    stall: float = 60.0
    schema: str = ""
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    via: str = ""
    dialect: str = "chat"
    key: str = ""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    reader: AnswerReader = field(default_factory=DIALECTS["chat"])
    may_think_unseen: bool = True

    @property
    def is_openais(self) -> bool:
        """Whether it goes to OpenAI, whose projects may store answers or have a dearer tier set."""
        return (urlsplit(self.base_url).hostname or "").endswith(".openai.com")

    @property
    def tier(self) -> str | None:
        """The service tier to ask for."""
        return "default" if self.is_openais else None

    @property
    def is_past_cap(self) -> bool:
        """Whether more came than the provider was allowed to write."""
        return self.reader.fewest > self.cap

    @property
    def finish(self) -> str:
        """Why the answer ended; it is cut where it passed its cap."""
        return self.reader.finish or "length"

    @property
    def usage(self) -> TokenCount | None:
        """The provider's last count, if it can be believed for what went both ways."""
        count = self.reader.usage if self.reader.at_end else None
        fewest = sum(fewest_tokens(said["content"]) for said in self.messages)
        return count if count is not None and count.tokens_in >= fewest else None

    @property
    def output_bound(self) -> int:
        """The most tokens that can be charged for the answer, without a count to believe.

        A token stands for a byte at least, but for those around the text. A model that may have
        thought unseen, one that wrote something else than text, and a provider whose count was
        implausible, may charge the whole cap. An answer past its cap has no such bound: it has the
        fewest tokens that can be charged.
        """
        reader = self.reader
        if self.is_past_cap:
            return reader.fewest
        is_counted = reader.count is not None or reader.is_count_broken
        if self.may_think_unseen or reader.has_unread or is_counted:
            return self.cap
        return min(self.cap, reader.size + MARGIN_TOKENS)

    def set_dialect(self, dialect: str) -> None:
        """Choose the dialect of its request and answer."""
        self.dialect = dialect
        self.reader = DIALECTS[dialect]()
