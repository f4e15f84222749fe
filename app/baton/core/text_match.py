"""Recognises a text that comes back, also with other spaces, case and signs, among other texts.

What counts was measured on 1,000 ordinary chats (docs/serve.md, "Private stays private").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label, strictest
from baton.core.messages import Message, Role

MIN_ALONE_CHARS = 32
"""So many letters and digits make a text that two people hardly say by chance; a shorter one is
recognised as prompt and answer only. With 96 instead, 8 % of private chats that come back as a
transcript are missed, not 1 %, and 1.6 % of others become private by mistake, not 2.3 %."""

OPENING_CHARS = 32
ANSWER_CHARS = 16
"""So many letters and digits of its answer, after the same prompt, are the same answer: of one that
was stopped, programs have another part than Baton."""

_SLICE_CHARS = 1 << 16
"""A longer text is worked on in slices: one call of `re` keeps all other threads waiting."""

_TAGS = re.compile(r"</?tool_(?:call|response)>")
_SIGNS = re.compile(r"[\W_]+")
_ESCAPES = re.compile(r"\\+[nrt]")

MAX_PLACES = 100


@frozen_dataclass
class SaidTexts:
    """What a request brings: fingerprints of its prompts and answers, and all that it says.

    `plain` is the plain text of everything in it, also of what is neither of the two. See
    `fingerprint`.
    """

    prompts: frozenset[str]
    answers: frozenset[str]
    plain: str

    def find(self, openings: Iterable[str]) -> dict[str, list[int]]:
        """Return those openings that stand anywhere in what is said, and where; in linear time."""
        wanted, text = set(openings), self.plain
        found: dict[str, list[int]] = {}
        for at in range(len(text) - OPENING_CHARS + 1 if wanted else 0):
            if (piece := text[at : at + OPENING_CHARS]) in wanted:
                found.setdefault(piece, []).append(at)
        return found

    def holds(self, text: str, places: Sequence[int]) -> bool:
        """Whether a text stands at one of these places, where its opening does."""
        plain = plain_text(text)
        if len(places) > MAX_PLACES:
            return plain in self.plain
        return any(self.plain.startswith(plain, at) for at in places)


class Saying(NamedTuple):
    """Who said a text (or a prompt with its answer), and how far it may travel since.

    `text` is its fingerprint, or those of both; `client` the id of an access token ("": the user).
    """

    text: str
    client: str
    label: Label


def said_texts(messages: Iterable[Message]) -> SaidTexts:
    """Return what some messages bring, for `SaidTexts`."""
    texts = [(message.role, message.text) for message in messages]
    prompts, answers = (
        frozenset(fingerprint(text, role) for role, text in texts if role is wanted)
        for wanted in (Role.USER, Role.ASSISTANT)
    )
    whole = "\n".join(text for _, text in texts)
    if "\\" in whole:  # as in the JSON of a tool's result
        whole += "\n" + "".join(_ESCAPES.sub(" ", part) for part in _slices(whole))
    return SaidTexts(prompts, answers, plain_text(whole))


def label_by_sayings(sayings: Iterable[Saying], client: str) -> Label:
    """Return how far a request of a client may travel that brings these back.

    What it said itself, openly or not, counts instead of what others said; the strictest counts.
    """
    by_text: dict[str, list[Saying]] = {}
    for saying in sayings:
        by_text.setdefault(saying.text, []).append(saying)
    return strictest(
        saying.label
        for same in by_text.values()
        for saying in ([one for one in same if one.client == client] or same)
    )


def plain_text(text: str) -> str:
    """Return a text's letters and digits, in one case and one form; other signs if it has none."""
    return "".join(map(_plain_slice, _slices(text))) or "".join(text.split())


def fingerprint(text: str, role: Role) -> str:
    """Return 32 hexadecimal digits that stand for a prompt's or an answer's plain text."""
    import hashlib

    is_answer = role is Role.ASSISTANT
    plain = plain_text(text[:_SLICE_CHARS])[:ANSWER_CHARS] if is_answer else plain_text(text)
    return hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=16).hexdigest()


def opening(text: str) -> str | None:
    """Return the beginning of a text's plain text, None for one that is too short by itself."""
    plain = plain_text(text)
    return plain[:OPENING_CHARS] if len(plain) >= MIN_ALONE_CHARS else None


def _slices(text: str) -> Iterator[str]:
    for at in range(0, len(text), _SLICE_CHARS):
        yield text[at : at + _SLICE_CHARS]


def _plain_slice(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
    return _SIGNS.sub("", _TAGS.sub("", text).casefold())
