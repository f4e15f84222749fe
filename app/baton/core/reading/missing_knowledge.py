"""What no worker here can know: what happens now, what stands on the web, this machine, people.

A language model answers such a question all the same, from what it read when it was trained. The
patterns are in the six languages in which Baton reads requests; a prompt that brings a text of its
own is taken to be about that text.
"""

from __future__ import annotations

import re
from enum import StrEnum

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.lazy_loading import lazy_pattern
from baton.core.messages import HEAD_CHARS
from baton.core.plan_types import Material
from baton.core.reading.follow_up import request_text
from baton.core.reading.request_words import alternatives, lexicon


class Lack(StrEnum):
    """What an answer would need."""

    NOW = "needs_current_data"
    LINK = "needs_link"
    MACHINE = "needs_this_machine"
    PERSON = "needs_personal_data"
    ACTION = "needs_action"


@frozen_dataclass
class LackText:
    """What is said of a lack, and what helps."""

    message: str
    hint: str


LACK_TEXTS = {
    Lack.NOW: LackText(
        "No worker here can look up what is happening now, so this may be made up.",
        "Attach a text that says it: `-f FILE`.",
    ),
    Lack.LINK: LackText(
        "No worker here can open links, so what is said of this one may be made up.",
        "Save the page and attach it: `-f FILE`.",
    ),
    Lack.MACHINE: LackText(
        "No worker here can look at this machine or its files, so this may be made up.",
        "Attach the file, or pipe a command's output into `baton ask`.",
    ),
    Lack.PERSON: LackText(
        "No worker here knows this about you, so this may be made up.",
        "Say it in the prompt, or attach a text that says it: `-f FILE`.",
    ),
    Lack.ACTION: LackText(
        "No worker here can do this: it can only write about it.",
        "Do it yourself, or ask for the text or the command that does it.",
    ),
}

MAX_QUESTION_CHARS = 400
"""A longer prompt brings the text that it is about."""

_LINK = lazy_pattern(r"\b(?:https?://|www\.)\S+", re.IGNORECASE)


def _lack_pattern(entry: str) -> re.Pattern[str]:
    return lazy_pattern(lambda: lexicon("lacks")[entry], re.IGNORECASE | re.VERBOSE)


_TEXT_WORK = lazy_pattern(
    lambda: (
        r"^\W*(?:(?:please|bitte|can you|could you|kannst du|pouvez-vous|puedes|puoi|pode)[, ]\s*)*"
        rf"(?:{alternatives(lexicon('lacks')['text_work'])})"
    ),
    re.IGNORECASE,
)
_ABOUT_LINK = lazy_pattern(lambda: alternatives(lexicon("lacks")["about_link"]), re.IGNORECASE)
_MAKES_LINK = lazy_pattern(lambda: alternatives(lexicon("lacks")["makes_link"]), re.IGNORECASE)
_NOW = _lack_pattern("now")
_MACHINE = _lack_pattern("machine")
_PERSON = _lack_pattern("person")
_ACTION = _lack_pattern("action")


def missing_knowledge(material: Material) -> Lack | None:
    """Return what the newest prompt needs that no worker here has, or None."""
    turn, text = material.turns[-1], request_text(material)
    if turn.files or len(text) > HEAD_CHARS:
        return None
    without_links = _LINK.sub(" ", text)
    if len(without_links) > MAX_QUESTION_CHARS:
        return None
    if without_links != text:
        return Lack.LINK if _is_about_link(without_links) else None
    if _ACTION.search(text):
        return Lack.ACTION
    if _TEXT_WORK.search(text) or any(earlier.files for earlier in material.turns):
        return None
    if _NOW.search(text):
        return Lack.NOW
    if _MACHINE.search(text):
        return Lack.MACHINE
    is_new = len(material.turns) == 1  # else it may have been said
    return Lack.PERSON if is_new and _PERSON.search(text) else None


def _is_about_link(text: str) -> bool:
    """Whether a text without its links asks for what stands there."""
    if _MAKES_LINK.search(text):
        return False
    return not text.strip(" \t\n.,:;?!") or _ABOUT_LINK.search(text) is not None
