"""Recognises a text that comes back, also with other spaces, case and signs, among other texts.

What counts was measured on 1,000 ordinary chats (docs/serve.md, "Private stays private").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label, strictest
from baton.core.messages import Message, Role

if TYPE_CHECKING:
    import hashlib

MIN_ALONE_CHARS = 32
"""So many letters and digits make a text that two people hardly say by chance; a shorter one is
recognised as prompt and answer only. With 96 instead, 8 % of private chats that come back as a
transcript are missed, not 1 %, and 1.6 % of others become private by mistake, not 2.3 %."""

OPENING_CHARS = 32
ANSWER_CHARS = 16
"""So many letters and digits of its answer, after the same prompt, are the same answer: of one that
was stopped, programs have another part than Baton."""

MAX_ANSWERS_PER_PROMPT = 4
"""So many answers are looked up for a prompt in one request, the nearest after it: a program that
tries a thousand in one request learns no more from it than by trying these."""

MAX_COMPARED_CHARS, _CHARS_PER_COMPARISON = 1 << 28, 1_000
"""A request that needs more of it compared with private texts (0.5 s) is taken to hold one; each
comparison by itself takes as long as so many characters."""

_MAX_PROMPTS_TOGETHER, _MAX_SHORT_CHARS = 8, 1_000
"""So many short prompts in a row, and so long ones, are recognised behind any other prompts."""

_SLICE_CHARS = 1 << 16
"""A longer text is worked on in slices: one call of `re` keeps all other threads waiting."""

_TAGS = re.compile(r"</?tool_(?:call|response)>")
_SIGNS = re.compile(r"[\W_]+")
_ESCAPES = re.compile(r"(?<!\\)\\++(?:u([0-9a-f]{4})|[bfnrt])", re.IGNORECASE)
_ENTITIES = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", re.IGNORECASE)
_BEFORE_ESCAPE = re.compile(r"(?:\\|u[Dd][89ABab][0-9A-Fa-f]{2})\Z")  # the first half of a pair
_MAX_ESCAPE_CHARS = 40


class LongText(NamedTuple):
    """What a text is recognised by that is long enough alone.

    It is how its plain text begins, how many characters that has, and the fingerprint of it all.
    """

    opening: str
    length: int
    whole: str


@frozen_dataclass
class SaidTexts:
    """What a request brings: fingerprints of its prompts and their answers, and all that it says.

    `pairs` are those of prompts followed by those of answers, `prompts` those of prompts alone.
    `plain` is the plain text of everything in it, also of what is neither of the two.
    """

    prompts: frozenset[str]
    answers: frozenset[str]
    pairs: frozenset[str]
    plain: str

    def find(self, openings: Iterable[str]) -> dict[str, list[int]]:
        """Return those openings that stand anywhere in what is said, and where; in linear time."""
        wanted, text = set(openings), self.plain
        found: dict[str, list[int]] = {}
        for at in range(len(text) - OPENING_CHARS + 1 if wanted else 0):
            if (piece := text[at : at + OPENING_CHARS]) in wanted:
                found.setdefault(piece, []).append(at)
        return found

    def matches(
        self, texts: Collection[LongText], places: Mapping[str, Sequence[int]]
    ) -> frozenset[str]:
        """Return the fingerprints of those texts that stand where their openings do.

        These are all of them where too much would have to be compared.
        """
        by_opening: dict[str, dict[int, set[str]]] = {}
        for text in texts:
            by_opening.setdefault(text.opening, {}).setdefault(text.length, set()).add(text.whole)
        found, left = set[str](), MAX_COMPARED_CHARS
        for opening, by_length in by_opening.items():
            lengths = sorted(by_length)
            for at in places[opening]:
                digest, end = _digest(""), at
                for length in lengths:
                    if at + length > len(self.plain):
                        break
                    left -= at + length - end + _CHARS_PER_COMPARISON
                    if left < 0:
                        return frozenset(text.whole for text in texts)
                    digest.update(self.plain[end : at + length].encode("utf-8", "replace"))
                    end = at + length
                    if (whole := digest.copy().hexdigest()) in by_length[length]:
                        found.add(whole)
        return frozenset(found)


class Saying(NamedTuple):
    """Who said a text (or a prompt with its answer), and how far it may travel since.

    `text` is its fingerprint, or those of both; `client` the id of an access token ("": the user).
    """

    text: str
    client: str
    label: Label


def said_texts(*conversations: Iterable[Message]) -> SaidTexts:
    """Return what some conversations bring, for `SaidTexts`."""
    prompts, answers, whole = set[str](), set[str](), list[str]()
    nearest: dict[str, list[tuple[int, int, str]]] = {}
    for messages in conversations:
        asked: list[tuple[str, int]] = []
        answered: list[str] = []
        waiting: list[str] = []
        for message in messages:
            whole.append(message.text)
            if message.role is Role.ASSISTANT:
                answered.append(fingerprint(message.text, message.role))
                waiting.clear()
            elif message.role is Role.USER:
                waiting.append(message.text)
                asked += [(mark, len(answered)) for mark in _prompt_marks(waiting)]
        for mark, first in asked:
            after = answered[first : first + MAX_ANSWERS_PER_PROMPT]
            near = nearest.setdefault(mark, [])
            near += [(distance, -first, answer) for distance, answer in enumerate(after)]
        prompts.update(mark for mark, _ in asked)
        answers.update(answered)
    pairs = frozenset(
        mark + answer
        for mark, near in nearest.items()
        for answer in list(dict.fromkeys(one[-1] for one in sorted(near)))[:MAX_ANSWERS_PER_PROMPT]
    )
    forms = _forms("\n".join(whole))
    return SaidTexts(frozenset(prompts), frozenset(answers), pairs, plain_text("\n".join(forms)))


def _prompt_marks(waiting: Sequence[str]) -> Iterator[str]:
    """Yield the fingerprints of the last of some prompts in a row, and of it with those before it.

    Baton puts prompts in a row together. What is long enough is recognised within others anyway.
    """
    yield fingerprint(waiting[-1], Role.USER)
    together = waiting[-1]
    for text in reversed(waiting[-_MAX_PROMPTS_TOGETHER:-1]):
        if len(together) > _MAX_SHORT_CHARS or len(text) > _MAX_SHORT_CHARS:
            break
        together = f"{text}\n\n{together}"
        if len(plain_text(together)) >= MIN_ALONE_CHARS:
            break
        yield fingerprint(together, Role.USER)


def _forms(text: str) -> list[str]:
    """Return a text as it is, and without the escapes of JSON, then of HTML, where it has any."""
    forms = [text]
    if "\\" in text:  # as in a tool's result
        text = "".join(map(_without_escapes, _slices(text)))
        forms.append(text)
    if "&" in text:
        import html

        text = "".join(
            _ENTITIES.sub(lambda found: html.unescape(found[0]), part) for part in _slices(text)
        )
        forms.append(text)
    return forms


def _without_escapes(text: str) -> str:
    text = _ESCAPES.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    is_answer = role is Role.ASSISTANT
    plain = plain_text(text[:_SLICE_CHARS])[:ANSWER_CHARS] if is_answer else plain_text(text)
    return _digest(plain).hexdigest()


def long_text(text: str) -> LongText | None:
    """Return what a text is recognised by alone, None for one that is too short for that."""
    plain = plain_text(text)
    if len(plain) < MIN_ALONE_CHARS:
        return None
    return LongText(plain[:OPENING_CHARS], len(plain), _digest(plain).hexdigest())


def _digest(plain: str) -> hashlib.blake2b:
    import hashlib

    return hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=16)


def _slices(text: str) -> Iterator[str]:
    """Cut a text, not within what may be an escape."""
    at = 0
    while at < len(text):
        end = at + _SLICE_CHARS
        if end < len(text):
            near = end - _MAX_ESCAPE_CHARS
            escape = max(text.rfind("\\", near, end), text.rfind("&", near, end))
            while escape > near and (before := _BEFORE_ESCAPE.search(text, near, escape)):
                escape = before.start()
            end = escape if escape > near else end
        yield text[at:end]
        at = end


def _plain_slice(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
    return _SIGNS.sub("", _TAGS.sub("", text).casefold())
