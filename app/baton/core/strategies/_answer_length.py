"""Whether a prompt asks for something short, by which two answers can be compared."""

from __future__ import annotations

import re

from baton.core.ports import RoutingContext
from baton.core.strategies._draft_scoring import head_and_tail

_AMOUNT_QUESTION = re.compile(
    r"\bhow (?:many|much|long|far|old|tall|fast|big|often)\b|\b(?:calculate|compute)\b|"
    r"\bwhat is the (?:smallest|largest|greatest|least|total|value|sum|number|probability)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\bwhat\b|\bhow\b|\b(?:find|calculate|compute|determine|evaluate|express)\b", re.IGNORECASE
)
_AMOUNT = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|hundred|twice|half|double)\b",
    re.IGNORECASE,
)
_CHOICES = re.compile(r"^\s{0,9}\(?[A-D][).:]\s", re.MULTILINE)
_PROOF = re.compile(r"\b(?:prove|proof|show that|explain)\b", re.IGNORECASE)
_CODE = re.compile(
    r"```|\b(?:python|javascript|typescript|sql|regex|functions?|scripts?|code|implement)\b",
    re.IGNORECASE,
)
_WRITING_REQUEST = re.compile(
    r"\s{0,9}(?:please\s)?(?:write|draft|compose|translate|summari[sz]e|rewrite)\b", re.IGNORECASE
)
_TEXT_KINDS = ("writing", "rewriting", "summary", "translation", "extraction")
_END_CHARS = 300
"""What is wanted stands at the beginning or at the end."""


def wants_short_answer(situation: RoutingContext) -> bool:
    """Tell whether a prompt wants a number, a choice, or something else that is short."""
    prompt, kind = head_and_tail(situation.material.prompt), situation.route.need.kind
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
