"""Messages between the gateway process and its parent."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from baton.ipc.messages import FinalReply, Message

# Requests


class SetUpGateway(Message, tag="setup"):
    """The first message: how the gateway connects, and where keys are. Times are in seconds."""

    keys_file: Path
    proxy: str
    proxies: dict[str, str]
    offline: bool
    total: float
    effort: str


class WarmGateway(Message, tag="warm"):
    """Do what takes long before a first call to these models, by provider and name."""

    models: list[tuple[str, str]]


class CallWorker(Message, tag="call"):
    """Ask a remote worker; see cloud_call.CloudCall."""

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
    stall: float
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: tuple[str, ...]
    schema: str
    most: dict[str, float] | None
    privacy: str
    via: str


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
