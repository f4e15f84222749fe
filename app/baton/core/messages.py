"""The types of requests, answers and conversations."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from enum import StrEnum
from itertools import zip_longest

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.money import FREE, Price
from baton.core.sanitiser import one_line

DEFAULT_CONTEXT = 8192
"""The context of a local model in tokens, unless the settings choose another."""


class Role(StrEnum):
    """Who speaks, in the field's standard terms."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Purpose(StrEnum):
    """Why a worker was called."""

    ANSWER = "answer"
    PLAN = "plan"
    STEP = "step"
    VERIFY = "verify"
    TITLE = "title"


@frozen_dataclass
class Message:
    """One message as a worker sees it.

    With `is_instruction` it is Baton's own, as those of the system are: no words of the user.
    """

    role: Role
    text: str
    is_instruction: bool = False


@frozen_dataclass
class AnswerFormat:
    """The form of a text, twice: as GBNF for llama.cpp and as JSON Schema (its JSON) for others.

    A local worker can't write anything else; without a `grammar` it makes one of the schema. A
    remote one is asked for it, where its provider supports that; its answer must still be
    validated.
    """

    grammar: str
    schema: str


@frozen_dataclass
class Request:
    """One use of one worker. `max_tokens` None means as many as the worker's card allows.

    `label` is the strictest of everything in the messages: without one they stay on this machine.
    `call` is the id under which the ledger knows this use, once money is held for it. `shape` is
    what the text must look like; it ends before the first of `stop` that it would hold.
    `expected_tokens` is the 99th percentile of its length, None where nothing is known of it.
    `client` is the id of the access token that it came with ("": the user's own): what a worker
    read for one client is never reused for another. `sampling` has more of how words are chosen,
    by names of `Sampling`: only a local worker can keep to it.
    """

    messages: tuple[Message, ...]
    purpose: Purpose = Purpose.ANSWER
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    label: Label = Label.LOCAL
    call: str = ""
    shape: AnswerFormat | None = None
    expected_tokens: int | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    client: str = ""
    sampling: Mapping[str, float] = field(default_factory=dict)


# What a worker yields, in order: any Loading, Reading and RequestSent, then any Thinking, then Text
# and Writing, then Usage. Before Retrying and the next RequestSent there is no Text.


@frozen_dataclass
class Queued:
    """Other runs hold the money that the call needs: it waits for them, and comes first of all."""


@frozen_dataclass
class Loading:
    """The worker is being loaded; `fraction` from 0 to 1."""

    fraction: float


@frozen_dataclass
class Reading:
    """The worker has read `done` of the `total` prompt tokens that it didn't know yet."""

    done: int
    total: int


@frozen_dataclass
class Thinking:
    """The worker writes thoughts, which aren't part of its answer: so many tokens since the last.

    Comes now and then, with how fast it writes them.
    """

    tokens: int
    tokens_per_second: float


@frozen_dataclass
class Writing:
    """How fast the worker writes; comes between pieces of text, not with each."""

    tokens_per_second: float


@frozen_dataclass
class Retrying:
    """The worker failed before its first word and is tried again in `delay` seconds.

    One with several addresses is tried at another one. Without a `reason` nothing failed: its text
    begins again, since what came so far were thoughts.
    """

    reason: str
    delay: float


@frozen_dataclass
class RequestSent:
    """The request leaves this machine now, if this is taken: so many bytes to that host.

    Yielded after the egress log has them and before the first of them is sent.
    """

    destination: str
    size: int


@frozen_dataclass
class Declined:
    """The provider refused the request in a way that costs nothing; an error follows, or Retrying.

    With `unsent` no connection came about to the `destination`, so not a byte of what was announced
    left.
    """

    unsent: bool = False
    destination: str = ""


@frozen_dataclass
class Text:
    """A piece of the answer, standing for `tokens` tokens."""

    text: str
    tokens: int = 1


class Finish(StrEnum):
    """Why an answer ended: of itself, at its cap, or otherwise than it should."""

    STOP = "stop"
    LENGTH = "length"
    FILTER = "filter"  # the provider's content filter ended it
    TOOL = "tool"  # with the call of a tool, and none was offered
    EMPTY = "empty"  # of itself, without a word
    THOUGHTS = "thoughts"  # at its cap, without a word: all of it went into thoughts
    REPETITION = "repetition"  # it repeated itself and was stopped


VIA_HEADER = "baton-via"
"""The header with the ids of `ENDPOINTS_PASSED`, with commas between them."""

ENDPOINTS_PASSED: ContextVar[tuple[str, ...]] = ContextVar("ENDPOINTS_PASSED", default=())
"""The homes (Paths.id) whose endpoints the current request came through, the last one last.

Workers at addresses that the user configured are shown them: an endpoint that finds its own home
among them refuses, so that no request goes in circles.
"""


@frozen_dataclass
class Usage:
    """The genuine end of an answer, as the worker counted it.

    Tokens: `tokens_in` is the whole prompt, `cached` the part of it reused from the turn before,
    `cache_written` the part of it that a provider charges for keeping, `context` the size of the
    worker's context. `reported` is a cost in nano-dollars that the provider itself named.
    `confidence` is the mean log-probability of the tokens that were written, where that is known,
    `least` and `first` are those of the unlikeliest and the first, and `lines`, of a plan, the mean
    of each line's. Without `is_confirmed` the worker gave no plausible count, and these are the
    most it can be. `stop` is that of the request's stop texts before which it ended ("": another
    end, or it isn't known). `other_model` is the name under which the worker answered, where that
    is another model than it was asked for. `left_out` says which settings were
    left out since the model refused them before.
    """

    tokens_in: int
    tokens_out: int
    finish: Finish
    cached: int = 0
    context: int = 0
    cache_written: int = 0
    reported: int | None = None
    confidence: float | None = None
    least: float | None = None
    first: float | None = None
    is_confirmed: bool = True
    lines: tuple[float, ...] = ()
    stop: str = ""
    other_model: str = ""
    left_out: str = ""


Chunk = (
    Queued
    | Loading
    | Reading
    | Retrying
    | RequestSent
    | Declined
    | Thinking
    | Text
    | Writing
    | Usage
)


@frozen_dataclass
class Card:
    """What is known of a worker: enough to choose it, and to describe it to the user.

    `context` and `max_output` are in tokens, `size` in bytes (0 where unknown). `note` is an honest
    sentence for people, `caution` one on what is wrong with its model; `hardware` says where it
    runs once that is known ("CPU only", "24/32 layers on GPU"); `system` is its system prompt where
    a conversation has none of its own. `price` None is an unknown price, which is never zero.
    `provider` and `model` are what the user would look for on a bill. `privacy` says which texts it
    may see. `remote` is whether what it is sent leaves this machine, as far as is known: a program
    here that forwards is remote. Of another program here `is_confirmed` is whether the user said
    that it computes on this machine. `slots` is how many requests it takes at once. `skills` says
    how difficult a task of each kind may be, from 1 to 5, as the user set it, `published` as was
    published of its model; kinds that are in neither are judged by its size. `thinking` is how many
    tokens a remote worker may think besides what it writes, until its own calls say how many (0: it
    doesn't think). `address` is where its bytes go, and through which proxy, as in the egress log
    ("" where none leave); of several addresses it names them. `works_offline` is whether some of
    them are on this machine although others aren't.
    """

    id: str
    kind: str
    name: str
    privacy: Label = Label.LOCAL
    context: int = 0
    max_output: int = 4096
    size: int = 0
    parameters: int = 0
    licence: str = ""
    note: str = ""
    caution: str = ""
    hardware: str = ""
    system: str = "You are a helpful assistant."
    price: Price | None = FREE
    provider: str = ""
    model: str = ""
    remote: bool = False
    is_confirmed: bool = True
    slots: int = 1
    skills: Mapping[str, float] = field(default_factory=dict, hash=False)
    published: Mapping[str, float] = field(default_factory=dict, hash=False)
    thinking: int = 0
    address: str = ""
    works_offline: bool = False

    @property
    def needs_network(self) -> bool:
        """Whether it can't be used offline."""
        return self.remote and not self.works_offline

    @property
    def is_tool(self) -> bool:
        """Whether it computes instead of writing: it can't be talked to."""
        return self.kind == "tool"

    @property
    def uses_gateway(self) -> bool:
        """Whether it is reached through the gateway, and so is in the ledger and the egress log.

        That is how it is called; where it computes and whether it costs say `place` and `is_local`.
        """
        return self.kind in ("cloud", "server") or self.remote or self.privacy is not Label.LOCAL

    @property
    def is_free(self) -> bool:
        """Whether it is known to cost nothing."""
        return self.price is not None and self.price.is_free

    @property
    def is_local(self) -> bool:
        """Whether it computes on this machine and costs nothing, so that it is used unasked.

        It may do so in a process of Baton's or in another program, as Ollama's models do.
        """
        return self.place is Label.LOCAL and self.is_confirmed and self.is_free

    @property
    def place(self) -> Label:
        """Where it computes: on this machine, in the home network, or in the cloud."""
        if self.privacy is Label.CLOUD:
            return Label.CLOUD
        return Label.LAN if self.remote else Label.LOCAL


MENTION_SIGNS = "@\uff20"
"""Before a path in a prompt one of them names a file: a text without them names none."""


EMPTY_PAGE, NO_MEANING = "[Page {} has no text.]", "\ufffd"
"""What stands in a PDF's text for a page of pictures, and for a glyph without a meaning."""


@frozen_dataclass
class Attachment:
    """A file's text that goes along with a prompt. `size` is the file's, in bytes."""

    name: str
    text: str
    size: int
    label: Label = Label.CLOUD


def with_unique_names(files: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """Return files so that no two share a name: steps of a plan see files by their names."""
    named: dict[str, Attachment] = {}
    for file in files:
        name, count = file.name, 1
        while name in named:
            count += 1
            name = f"{file.name} ({count})"
        named[name] = replace(file, name=name)
    return tuple(named.values())


@frozen_dataclass
class Prompt:
    """What the user asked. A `system` text replaces the worker's own for this conversation."""

    text: str
    files: tuple[Attachment, ...] = ()
    system: str | None = None


class TurnStatus(StrEnum):
    """How a turn stands. Everything but `done` is shown to the user."""

    STREAMING = "streaming"
    DONE = "done"
    CUT = "cut"  # reached its length cap
    CANCELLED = "cancelled"
    FAILED = "failed"
    LOST = "lost"  # Baton was killed while it was being written


@frozen_dataclass
class Turn:
    """One node of a conversation's tree: what was typed, or one answer to it.

    `parent` is the turn before it (None for a first prompt), so an edited prompt and a regenerated
    answer are siblings of what they replace. `created` is in seconds since the epoch, UTC.
    """

    id: str
    conversation: str
    parent: str | None
    role: Role
    text: str
    status: TurnStatus
    label: Label
    created: float
    worker: str = ""
    run: str | None = None
    files: tuple[Attachment, ...] = field(default=())


def text_with_files(text: str, files: Sequence[Attachment]) -> str:
    """Return the text a worker reads for a prompt with files: each file named and fenced first."""
    if not files:
        return text
    blocks = [f"File {one_line(file.name)}:\n{fenced(file.text)}" for file in files]
    return "\n\n".join([*blocks, text]) if text else "\n\n".join(blocks)


def fenced(text: str) -> str:
    """Put a text between fences that it can't close itself."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"


def estimated_tokens(text: str) -> int:
    """Guess how many tokens a text has, without a tokenizer: for sizes before sending.

    Four bytes are about one token, but most tokenizers give each digit a token of its own: a table
    of numbers has three times as many as prose of its length.
    """
    digits = sum(map(text.count, "0123456789"))
    return (len(text.encode("utf-8", "replace")) + 3 * digits + 3) // 4


HEAD_CHARS, TAIL_CHARS = 4000, 1000
"""Characters that are looked at: what matters stands at the beginning or at the end of a text."""


def head_and_tail(text: str) -> str:
    """Return the part of a text that estimates and rules read, so that no text takes them long."""
    return (
        text
        if len(text) <= HEAD_CHARS + TAIL_CHARS
        else f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    )


def is_too_long(card: Card, texts: Sequence[str], prompt: str) -> bool:
    """Whether texts are likely more than a worker can hold beside a question and its answer."""
    if not card.context:
        return False
    room = card.context - min(1024, card.context // 4) - estimated_tokens(prompt)
    return sum(map(estimated_tokens, texts)) > max(0, room)


def max_input_tokens(messages: Sequence[Message], shape: AnswerFormat | None = None) -> int:
    """Return a number of tokens that these messages can't exceed at any provider.

    The margin is for what templates put around each message, and for what some providers put before
    the first: xAI counts some 680 tokens of its own with each prompt for Grok 4. A schema counts
    twice: litellm puts into words for Anthropic what that doesn't understand of it.
    """
    text_tokens = sum(max_text_tokens(message.text) for message in messages)
    schema_tokens = 2 * max_text_tokens(shape.schema) if shape is not None else 0
    return text_tokens + schema_tokens + 32 * len(messages) + 1024


def max_text_tokens(text: str) -> int:
    """Return a number of tokens that a text can't exceed.

    No tokenizer makes more tokens than there are bytes of UTF-8. But some (Anthropic's) write the
    text in another form first, in which one character may become many.
    """
    if text.isascii():
        return len(text)
    forms = (text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFKC")))
    return max(len(form.encode("utf-8", "replace")) for form in forms)


def count_turns_to_drop(turns: Sequence[Turn], tokens: int) -> int:
    """Return how many of the oldest turns to leave out so that about `tokens` tokens remain.

    Prompts and their answers leave together, and the newest prompt always stays.
    """
    sizes = [estimated_tokens(text_with_files(turn.text, turn.files)) for turn in turns]
    starts = [i for i, turn in enumerate(turns) if turn.role is Role.USER]
    for start in starts[1:-1]:
        if sum(sizes[start:]) <= tokens:
            return start
    return starts[-1] if starts else 0


def conversation_messages(
    system: str, turns: Sequence[Turn], *, ended: bool = False
) -> tuple[Message, ...]:
    """Return what a worker is shown of a conversation, oldest first.

    A prompt whose answer never got a word leaves together with it, so that roles alternate, as
    chat templates demand; with `ended`, a last prompt without an answer does too.
    """
    shown: list[Message] = [Message(Role.SYSTEM, system)] if system else []
    for turn, after in zip_longest(turns, turns[1:]):
        unanswered = ended if after is None else after.role is Role.ASSISTANT and not after.text
        if turn.role is Role.USER and not unanswered:
            shown.append(Message(Role.USER, text_with_files(turn.text, turn.files)))
        elif turn.role is Role.ASSISTANT and turn.text:
            shown.append(Message(Role.ASSISTANT, turn.text))
    return tuple(shown)


MAX_TITLE_CHARS = 48


def conversation_title(text: str) -> str:
    """Name a conversation by the first words of its first prompt, cut at a word's end."""
    line = " ".join(text.split())
    if len(line) <= MAX_TITLE_CHARS:
        return line or "Untitled"
    return line[: MAX_TITLE_CHARS - 1].rsplit(" ", 1)[0].rstrip(",;:.") + "…"
