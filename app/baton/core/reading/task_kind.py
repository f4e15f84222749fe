"""What kind of task a request is, how difficult, and whether its answer is short, by its words."""

from __future__ import annotations

import re

from baton.core.late_pattern import late_pattern
from baton.core.messages import head_and_tail
from baton.core.plan_types import Need
from baton.core.ports import RoutingContext
from baton.core.reading.follow_up import request_text

_WORDS = {
    "translation": r"translat|übersetz|tradui[rstz]|traduc[ei]|tradu[zç]|tradurre|翻译|翻譯|翻訳",
    "summary": r"summary|summari[sz]|tl;?dr|key points|zusammenfass|fass\w* .{0,40}zusammen|"
    r"résum|resum|riassum|摘要|总结|要約",
    "extraction": r"extract|list (?:all|every) (?:the )?(?:names?|dates?|numbers?|emails?)|"
    r"find all|pull out|extrahier|extrai|extrae|estrai|提取|抽出",
    "rewriting": r"rewrite|rephrase|paraphrase|proofread|(?:fix|correct|check) (?:my|the|this) "
    r"(?:grammar|spelling|text|english)|make (?:it|this) (?:shorter|longer|more)|shorten|polish|"
    r"umschreib|formulier\w* .{0,40}um|korrigier|verbesser|reformul|corrige|reescrib|riscriv|改写",
    "code": r"```|\bdef \w+\(|\bclass \w+|#include|\bimport \w+|\bselect .{1,80} from|python|"
    r"javascript|typescript|\bjava\b|\brust\b|c\+\+|\bsql\b|\bregex|\bhtml\b|\bcss\b|\bbash\b|"
    r"(?:shell|bash) script|(?:write|implement|fix|refactor|debug)\w* .{0,30}(?:function|program|"
    r"script|class|code|bug|test|algorithm|parser|api)|unit tests?|"
    r"stack ?trace|compil|quellcode|código|代码",
    "planning": r"\bplan (?:a|an|my|the|for|out|three|\d)|itinerary|schedule|road ?map|step[- ]by"
    r"[- ]step plan|reiseplan|planifi|organi[sz]e (?:a|my)|agenda|计划",
    "math": r"prove|proof|integral|derivative|equation|solve for|theorem|probability|matrix|"
    r"polynomial|\\frac|\\sum|\$[^$\n]{1,80}\$|how many|how much|percent|beweis|gleichung|"
    r"wahrscheinlich|équation|ecuaci|equaz|方程|证明",
    "reasoning": r"\bwhy\b|reason|puzzle|riddle|logic|compare|pros and cons|trade-?offs|argu|"
    r"analy[sz]|evaluate|decide|should (?:i|we)|explain how|warum|wieso|vergleich|pourquoi|"
    r"por qu[eé]|perch[eé]|为什么|なぜ",
    "writing": r"write (?:a|an|me|the|some)|essay|poem|story|letter|e-?mail|blog|article|speech|"
    r"slogan|tagline|schreib|gedicht|geschichte|brief|écri[st]|poème|lettre|escrib|poema|carta|"
    r"scriv|写一|書いて",
    "knowledge": r"\bwho (?:is|was|wrote|invented)|\bwhat (?:is|are|was|does)|"
    r"\bwhen (?:did|was|is)|\bwhere|\bwhich|capital of|define|meaning of|explain|tell me about|"
    r"\bwer\b|\bwas (?:ist|sind)|\bwann\b|\bwo\b|qui est|qu'est|quel|"
    r"qu[eé] es|cu[aá]l|qui[eé]n|che cos|chi è|是什么|とは",
}
"""In the order in which they win where several are equally frequent."""

_KINDS = {kind: late_pattern(words, re.IGNORECASE) for kind, words in _WORDS.items()}

_HARD = late_pattern(
    r"prove|proof|rigorous|theorem|optimi[sz]|algorithm|complexity|concurren|distributed|"
    r"architect|in[- ]depth|detailed|comprehensive|thorough|edge cases|production|legal|contract|"
    r"diagnos|integral|differential|olympiad|derive|beweis|ausführlich|gründlich|démontr|"
    r"détaillé|detallad|demuestra|证明",
    re.IGNORECASE,
)
_EASY = late_pattern(
    r"^\s*(?:hi|hello|hey|thanks|thank you|ok(?:ay)?|yes|no|good (?:morning|evening)|hallo|"
    r"guten (?:tag|morgen)|danke|bonjour|merci|hola|gracias|ciao|grazie|你好|谢谢|こんにちは)\b",
    re.IGNORECASE,
)

_SHORT_CHARS = 60

_NUMBERS = late_pattern(r"\d+")

_ORDINARY_DIFFICULTY = {"math": 3, "code": 3, "reasoning": 3, "planning": 3, "chat": 1}


def text_need(text: str) -> Need:
    """Return what a text asks of a worker, by the rule."""
    kind = task_kind(text, False)
    return Need(kind, task_difficulty(text, len(text), kind))


def is_greeting(text: str) -> bool:
    """Whether a text is no more than a greeting, thanks, or yes or no."""
    return len(text) < _SHORT_CHARS and _EASY.match(text) is not None


def task_kind(text: str, with_files: bool) -> str:
    """Return the task kind whose words come first and most often."""
    if is_greeting(text):
        return "chat"
    best, most = "", 0.0
    for kind, words in _KINDS.items():
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


_AMOUNT_QUESTION = late_pattern(
    r"\bhow (?:many|much|long|far|old|tall|fast|big|often)\b|\b(?:calculate|compute)\b|"
    r"\bwhat is the (?:smallest|largest|greatest|least|total|value|sum|number|probability)\b",
    re.IGNORECASE,
)
_QUESTION = late_pattern(
    r"\bwhat\b|\bhow\b|\b(?:find|calculate|compute|determine|evaluate|express)\b", re.IGNORECASE
)
_AMOUNT = late_pattern(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|hundred|twice|half|double)\b",
    re.IGNORECASE,
)
_CHOICES = late_pattern(r"^\s{0,9}\(?[A-D][).:]\s", re.MULTILINE)
_PROOF = late_pattern(r"\b(?:prove|proof|show that|explain)\b", re.IGNORECASE)
_CODE = late_pattern(
    r"```|\b(?:python|javascript|typescript|sql|regex|functions?|scripts?|code|implement)\b",
    re.IGNORECASE,
)
_WRITING_REQUEST = late_pattern(
    r"\s{0,9}(?:please\s)?(?:write|draft|compose|translate|summari[sz]e|rewrite)\b", re.IGNORECASE
)
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
