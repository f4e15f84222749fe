"""Messages between the gateway process and its parent."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from baton.ipc.messages import FinalReply, Message

# Requests


class SetUpGateway(Message, tag="setup"):
    """The first message: how the gateway may connect, and where keys are.

    An answer may take `total` seconds. `effort` is how much models may think.
    """

    keys_file: Path
    proxy: str = ""
    proxies: dict[str, str] = field(default_factory=dict)
    offline: bool = False
    total: float = 7200.0
    effort: str = "low"


class WarmGateway(Message, tag="warm"):
    """Do what takes long before a first call to these models, by provider and name."""

    models: list[tuple[str, str]]


class CallWorker(Message, tag="call"):
    """Ask a remote worker. Waits are in seconds.

    `who` is the provider's name for people. `variable` names a worker's own key, `needs_key` is
    whether it has one at all. `cap` is the most tokens the answer may have, `bound` the most bytes
    of text the request may have, `context` the worker's. A connection may take `connect`, the first
    word with that `first`, the next `stall`. `privacy` is the worker's label, `most` the highest
    prices in dollars per million tokens, for OpenRouter, which asks others whose prices differ. The
    answer ends before the first of `stop`, which servers are asked for. `schema` is the JSON Schema
    that it must keep to, "" where none can be asked for. `via` names the endpoints of Baton that
    the request came through, for the next one. `learned` are settings that the model refused
    before, and what is sent in their place ("": nothing).
    """

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
    stall: float = 60.0
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    schema: str = ""
    most: dict[str, float] | None = None
    privacy: str = "cloud"
    via: str = ""
    learned: dict[str, str] = field(default_factory=dict)


class FindKey(Message, tag="find_key"):
    """Look whether there is a key for a provider, or under a variable's name."""

    provider: str
    variable: str


class FindEngines(Message, tag="find_engines"):
    """Ask a host which models its engines have, at the ports where engines usually are."""

    host: str
    limit: float


class SendRequest(Message, tag="go"):
    """The announced request is logged and may be sent."""


REQUESTS = SetUpGateway | WarmGateway | CallWorker | FindKey | FindEngines | SendRequest

# Replies


class RequestAnnounced(Message, tag="request"):
    """What a call will send, exactly, once it may."""

    host: str
    body: bytes


class AnswerText(Message, tag="text"):
    """A piece of the answer; where it `starts_again`, what came before were thoughts."""

    text: str
    tokens: int
    starts_again: bool = False


class TokenCount(Struct, frozen=True):
    """Tokens as the provider counted them; see core.messages.Usage."""

    tokens_in: int
    tokens_out: int
    cached: int = 0
    cache_written: int = 0
    reported: int | None = None


class CallDone(FinalReply, tag="done"):
    """The answer's end; `bound` is the most tokens that can be charged without a count.

    `model` is the model's name by its own word, "" where it didn't say.
    `fewest` is the number of tokens that text and thoughts can't have less of.
    """

    finish: str
    usage: TokenCount | None
    bound: int
    model: str
    fewest: int


class KeyLookedUp(FinalReply, tag="key"):
    """Whether the key is there. It never goes over the pipes itself."""

    is_there: bool


class FoundModel(Struct, frozen=True):
    """A model of an engine on another host; see workers.local.ServerModel."""

    engine: str
    model: str
    base_url: str
    size: int
    cloud: bool
    slots: int


class EnginesFound(FinalReply, tag="engines"):
    """What the engines of a host have."""

    models: list[FoundModel]


REPLIES = RequestAnnounced | AnswerText | CallDone | KeyLookedUp | EnginesFound
