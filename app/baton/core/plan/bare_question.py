"""The few words around a bare sum or conversion, and the bare questions for the time and the date.

The engine reads them to see what a tool can answer alone, the tools' process to answer it.
"""

from __future__ import annotations

import re

_LEADS = {
    "en": r"what(?:'s|\s+is|\s+are)|how much is|calculate|compute|evaluate|work out|convert",
    "de": r"was (?:ist|sind|ergibt|macht)|wie ?viel (?:ist|sind|ergibt)|berechne|rechne",
    "fr": r"combien (?:font|fait)|calcule[rz]?|converti[rs]",
    "es": r"(?:cuanto|cuánto) (?:es|son)|calcula|convierte",
    "it": r"quanto (?:fa|è)|calcola|converti",
    "pt": r"quanto [eé]|converta",
}
_ANY_LEAD = "|".join(f"(?P<{language}>{words})" for language, words in _LEADS.items())
_LEAD = rf"(?:{_ANY_LEAD})\s*:?\s"
_TAIL = " \t=?.\uff1f\u3002"

_NOW = (
    r"what(?:'s| is) the (?:current )?time(?: (?:right )?now)?|what time is it(?: (?:right )?now)?|"
    r"wie (?:spät|viel uhr) ist es(?: jetzt)?|quelle heure est[- ]il|qu[eé] hora es|"
    r"que horas s[aã]o|che (?:ore|ora) (?:sono|è)|今何時(?:ですか)?|现在几点(?:了)?"
)
_TODAY = (
    r"what(?:'s| is) (?:the (?:current )?date(?: (?:right )?now| today)?|today'?s date|"
    r"(?:the )?(?:day|date) today)|what (?:date|day|year|month) is it(?: today| now)?|"
    r"welche[rs]? (?:tag|datum) (?:ist|haben wir) heute|"
    r"quel jour (?:sommes[- ]nous|est[- ]on)(?: aujourd'hui)?|qu[eé] d[ií]a es(?: hoy)?|"
    r"que dia é hoje|che giorno è(?: oggi)?|今日は何日(?:ですか)?|今天几号"
)


def without_lead(text: str) -> tuple[str, str]:
    """Return a question without "what is" before it and "= ?" behind it, and the lead's language.

    The language is "" where nothing stood before it.
    """
    plain = _bare_text(text)
    if (lead := re.match(_LEAD, plain, re.IGNORECASE)) is None:
        return plain, ""
    return plain[lead.end() :].strip("` "), lead.lastgroup or ""


def clock_expression(text: str) -> str:
    """Return `now()` or `today()` for a bare question for the time or the date, else ""."""
    plain = _bare_text(text).rstrip(" !")
    for expression, questions in (("now()", _NOW), ("today()", _TODAY)):
        if re.fullmatch(questions, plain, re.IGNORECASE):
            return expression
    return ""


def _bare_text(text: str) -> str:
    return " ".join(text.split()).replace("\u2019", "'").lstrip("\u00bf").strip("` ").rstrip(_TAIL)
