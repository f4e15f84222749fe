"""Follow-ups: prompts such as "yes", "continue" or "and the other?", which mean what stood before.

Six languages. A prompt is a follow-up if it is short and either consists of words that name no
topic, one of which asks for more, or begins with words that carry the last topic over ("and in
Paris?"). Thanks and greetings ask for nothing, so they aren't.
"""

from __future__ import annotations

import re
from functools import cache

from baton.core.lazy_loading import lazy_pattern
from baton.core.messages import Role
from baton.core.plan_types import Material
from baton.core.prompt_wrapping import bare_question
from baton.core.reading.request_words import lexicon

MAX_CHARS = 60
MAX_WORDS = 9
"""A longer prompt says itself what it wants."""

MAX_TOPIC_WORDS = 3
"""How many words of its own may follow "and" or "what about"."""

_WORD = lazy_pattern(r"[^\W_]+")
_NUMBER = lazy_pattern(r"\d+(?:[.,]\d+)*")

_TOPIC_KEPT = lazy_pattern(
    r"\s*[¿¡]?\s*(?:(?:but |ok(?:ay)?,? )?(?:and|or|what about|how about|what if|what of)|"
    r"(?:aber )?(?:und|oder)|was ist mit|wie ist es mit|"
    r"(?:mais )?(?:et|ou)|qu'en est-il de|(?:pero |y )?qué (?:tal|pasa con)|y|e|o|ed|"
    r"(?:mas |ma )?e (?:se|con|per)?)\s",
    re.IGNORECASE,
)
"""Beginnings that carry the last topic over."""

_SMALL_TALK = lazy_pattern(
    r"\W*(?:hey,? |hi,? )?(?:how are you|what(?: else)? can you do|c[óo]mo est[áa]s?)\b",
    re.IGNORECASE,
)


def is_follow_up(text: str) -> bool:
    """Whether a prompt says only together with the one before it what is wanted."""
    words = [word.casefold() for word in _WORD.findall(text)] if len(text) <= MAX_CHARS else []
    if not 0 < len(words) <= MAX_WORDS or _SMALL_TALK.match(text):
        return False
    if len(words) == 1 and len(words[0]) == 1:  # which one: 2, b
        return True
    known = _words()
    thanks = not known["thanks"].isdisjoint(words)
    own = [word for word in words if len(word) > 1 and not any(word in of for of in known.values())]
    if _TOPIC_KEPT.match(text) is not None:
        is_whole = len(_NUMBER.findall(text)) > 1  # "and 13 times 13?"
        return len(own) <= MAX_TOPIC_WORDS and not thanks and not is_whole
    asks = known["asks"] if thanks else known["asks"] | known["agrees"]
    return not own and not asks.isdisjoint(words)


@cache
def _words() -> dict[str, frozenset[str]]:
    return {name: frozenset(words.split()) for name, words in lexicon("follow_ups").items()}


def request_text(material: Material) -> str:
    """Return the question, or the one that it follows if it is a follow-up ("yes", "continue").

    Where all prompts are follow-ups, that is the first one.
    """
    earlier = [bare_question(turn.text) for turn in material.turns[:-1] if turn.role is Role.USER]
    prompts = [*earlier, material.question]
    later = (text for text in reversed(prompts[1:]) if not is_follow_up(text))
    return next(later, prompts[0])
