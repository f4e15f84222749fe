"""One call to a remote worker, as the gateway process knows it, its settings and its request."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from baton.workers.cloud.child.answer_reader import AnswerReader
from baton.workers.cloud.child.response_limits import fewest_tokens
from baton.workers.cloud.child.stream_parsers import DIALECTS
from baton.workers.cloud.messages import CallWorker, TokenCount

MARGIN_TOKENS = 32
"""Tokens that an answer may have around its text."""

KEY_PLACEHOLDER = secrets.token_hex(24)
"""What stands for a call's key until its request is checked; no text of the user equals it."""

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


class CloudCall(CallWorker, kw_only=True, eq=False):
    """A call that was asked for, and how far it is.

    `announce` reports to the front what will be sent; nothing is until `go` is set.
    `may_think_unseen` is whether the model may have written more than it shows.
    """

    announce: Callable[[str, bytes], None]
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
    def must_not_store(self) -> bool:
        """Whether it must ask that nothing is stored: Responses are, but Perplexity knows no such
        field and refuses what it doesn't know."""
        is_stored = self.dialect == "responses" and self.provider != "perplexity"
        return is_stored or self.is_openais

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
        fewest = sum(fewest_tokens(message["content"]) for message in self.messages)
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


class RequestSettings(Struct, frozen=True):
    """The settings of one request. `thinking` are the body's fields that ask for it.

    `cap_field` is "" where the writer knows it; `extra` are further fields of the body, `said` of
    messages, by whose they are.
    """

    thinking: dict[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    seed_field: str = "seed"
    stop: tuple[str, ...] = ()
    schema: str = ""
    cap_field: str = ""
    system: str = "system"
    wants_usage: bool = True
    extra: dict[str, Any] = field(default_factory=dict)
    said: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def sampling(self) -> dict[str, float]:
        """The fields of Chat Completions and Responses that say how words are drawn."""
        fields = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def response_format(self) -> dict[str, Any]:
        """The field of Chat Completions that holds the schema."""
        return {"type": "json_schema", "json_schema": self.named_schema}

    @property
    def named_schema(self) -> dict[str, Any]:
        """The schema as OpenAI's dialects have it."""
        return {"name": "answer", "schema": json.loads(self.schema), "strict": True}

    def messages(self, call: CloudCall) -> list[dict[str, str]]:
        """Return a call's messages, the system's with the role that the model takes.

        As the user's it stands before the first prompt: templates that know no system's role want
        user and assistant to alternate.
        """
        roles = {"system": self.system}
        result: list[dict[str, str]] = []
        for original in call.messages:
            role = roles.get(original["role"], original["role"])
            message = {**original, **self.said.get(original["role"], {}), "role": role}
            if result and self.system == role == "user" == result[-1]["role"]:
                message["content"] = f"{result.pop()['content']}\n\n{message['content']}"
            result.append(message)
        return result
