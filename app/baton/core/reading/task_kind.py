"""What kind of task a request is, how difficult, and whether its answer is short, by its words."""

from __future__ import annotations

import re
from functools import cache

from baton.core.lazy_loading import lazy_pattern
from baton.core.messages import head_and_tail
from baton.core.plan_types import Need
from baton.core.ports import RoutingContext
from baton.core.reading.follow_up import request_text
from baton.core.reading.request_words import alternatives, lexicon

_HARD = lazy_pattern(lambda: alternatives(lexicon("kinds")["difficulty"]["hard"]), re.IGNORECASE)
_GREETING = lazy_pattern(
    lambda: rf"^\s*(?:{alternatives(lexicon('kinds')['difficulty']['greeting'])})\b",
    re.IGNORECASE,
)

_SHORT_CHARS = 60

_NUMBERS = lazy_pattern(r"\d+")

_ORDINARY_DIFFICULTY = {"math": 3, "code": 3, "reasoning": 3, "planning": 3, "chat": 1}


def text_need(text: str) -> Need:
    """Return what a text asks of a worker, by the rule."""
    kind = task_kind(text, False)
    return Need(kind, task_difficulty(text, len(text), kind))


def is_greeting(text: str) -> bool:
    """Whether a text is no more than a greeting, thanks, or yes or no."""
    return len(text) < _SHORT_CHARS and _GREETING.match(text) is not None


@cache
def _kind_patterns() -> dict[str, re.Pattern[str]]:
    """Return the words of each kind, in the order in which they win where equally frequent."""
    kinds = lexicon("kinds")["kinds"]
    return {kind: re.compile(alternatives(kinds[kind]), re.IGNORECASE) for kind in kinds}


def task_kind(text: str, with_files: bool) -> str:
    """Return the task kind whose words come first and most often."""
    if is_greeting(text):
        return "chat"
    best, most = "", 0.0
    for kind, words in _kind_patterns().items():
        found = [match.start() for match in words.finditer(text)]
        # What is asked for usually stands at the beginning, before the text that it is about.
        score = min(3, len(found)) + (2.0 if found and found[0] < 40 else 0.0)
        if score > most:
            best, most = kind, score
    if best == "math" and not any(c.isdigit() for c in text) and most <= 1:
        return "knowledge"
    if not best and "?" in text:
        return "math" if len(_NUMBERS.findall(text)) > 1 else "knowledge"
    return best or ("extraction" if with_files else "chat")


def task_difficulty(text: str, length: int, kind: str) -> int:
    """Return how difficult a task of a kind looks, 1 to 5, by its words and its whole length."""
    hard = len({match.lower() for match in _HARD.findall(text)})
    value = ordinary_difficulty(kind) + min(2, hard) + (length > 1200)
    short = len(text) < _SHORT_CHARS and not hard
    return max(1, min(5, value - (short and kind not in ("math", "code"))))


def ordinary_difficulty(kind: str) -> int:
    """Return how difficult an ordinary task of a kind is, from 1 to 5."""
    return _ORDINARY_DIFFICULTY.get(kind, 2)


# Whether the answer is short


def _short_answer_pattern(entry: str, frame: str = "{}") -> re.Pattern[str]:
    return lazy_pattern(
        lambda: frame.replace("{}", alternatives(lexicon("kinds")["short_answers"][entry])),
        re.IGNORECASE,
    )


_AMOUNT_QUESTION = _short_answer_pattern("amount_question")
_QUESTION = _short_answer_pattern("question")
_AMOUNT = _short_answer_pattern("amount")
_CHOICES = lazy_pattern(r"^\s{0,9}\(?[A-D][).:]\s", re.MULTILINE)
_PROOF = _short_answer_pattern("proof", r"\b(?:{})\b")
_CODE = _short_answer_pattern("code")
_WRITING_REQUEST = _short_answer_pattern("writing", r"\s{0,9}(?:please\s)?(?:{})\b")
_TEXT_KINDS = ("writing", "rewriting", "summary", "translation", "extraction")
_END_CHARS = 300
"""What is asked stands at the beginning or at the end."""


def is_short_answer_wanted(routing: RoutingContext) -> bool:
    """Whether a prompt wants a number, a choice, or something else that is short."""
    prompt, kind = head_and_tail(request_text(routing.material)), routing.route.need.kind
    if len(_CHOICES.findall(prompt)) > 1:
        return True
    ends = f"{prompt[:_END_CHARS]}\n{prompt[-_END_CHARS:]}"
    if (
        _PROOF.search(ends)
        or _WRITING_REQUEST.match(prompt)
        or (kind == "code" and _CODE.search(prompt))
    ):
        return False
    if kind in ("math", "calculation") or _AMOUNT_QUESTION.search(ends):
        return True
    asked = _AMOUNT.search(prompt) is not None and _QUESTION.search(ends) is not None
    return asked and (kind not in _TEXT_KINDS or prompt.rstrip().endswith("?"))
