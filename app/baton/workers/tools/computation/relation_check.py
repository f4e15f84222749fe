"""Checks that what a request says of its numbers shows in the expression that is computed.

The small conductor copies numbers well and reads the words between them less well: a half gets
lost, a second thing that is spent is added, "of what" is multiplied. Each rule is a word of the six
languages and what an expression must hold, or must not hold, where a request has it. What fails is
left to a worker, whose answer is marked.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from baton.core.late_pattern import late_pattern


class _Rule(NamedTuple):
    """What an expression `needs` or `forbids` where the request `says` something, but not `unless`.

    What it needs must be there besides the request's own numbers. `name` is what is lost.
    """

    name: str
    says: re.Pattern[str]
    needs: re.Pattern[str] | None = None
    forbids: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None


_SPENT = (
    r"(?<!\w)(?:minus|less|subtract\w*|spen[dt]\w*|pa(?:y|ys|id)|g[ai]ves? away|use[sd]?|los[et]|"
    r"eats?|"
    r"weniger|abz[iü]\w*|ausge\w*|gebe|gibt?|be?zahl\w*|moins|dépens\w*|pa(?:ie|ye)\w*|donn\w*|"
    r"menos|"
    r"gast\w*|pag[aou]\w*|meno|spend\w*|left|remain\w*|bleib\w*|übrig|reste\w*|queda\w*|"
    r"rest[ao]\w*|"
    r"sobra\w*|rim[aá]n\w*)(?!\w)"
)
_GAIN = (
    r"(?:\+|(?<!\w)(?:plus|add\w*|gain\w*|earn\w*|receiv\w*|gets?|got|find\w*|found|refund\w*|"
    r"return\w*|"
    r"buys?|bought|bekomm\w*|dazu|verdien\w*|find\w*|erh[aä]lt\w*|reçoi\w*|gagn\w*|ajout\w*|"
    r"trouv\w*|gan\w*|"
    r"recib\w*|suma\w*|más|guadagn\w*|ricev\w*|aggiung\w*|più|ganh\w*|receb\w*|mais|"
    r"encontr\w*)(?!\w))"
)
_BINARY = late_pattern(r"(?i)(?<!\w)(?:bin[aä]\w*|base[- ]?(?:2|two)|dual\w*)(?!\w)|0b[01]")
_BASE = late_pattern(
    r"(?i)(?<!\w)(?:bin[aä]\w*|hex\w*|o[ck]t\w*|base\w*|dual\w*|esa\w*|ottal\w*)(?!\w)|"
    r"0[bxo][\da-f]"
)
_WORKING = late_pattern(
    r"(?i)(?<!\w)(?:business|working|work[- ]?days?|weekdays|arbeitstage?n?|werktage?n?|"
    r"ouvr(?:és?|ables?)|"
    r"hábiles?|laborables?|lavorativ[io]|útei?s|úti[ls])(?!\w)"
)
_DAY_NAMES = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days|(?:mon|diens|donners|frei|sams|sonn)tage|"
    r"mittwoche|"
    r"lundis|mardis|mercredis|jeudis|vendredis|samedis|dimanches|lunes|martes|miércoles|jueves|"
    r"viernes|"
    r"sábados|domingos|lunedì|martedì|mercoledì|giovedì|venerdì|sabati|domeniche|(?:segundas|"
    r"terças|"
    r"quartas|quintas|sextas)(?:-feiras)?"
)
_COUNT = r"(?<!\w)(?:an?|one|[1-9]\d*|ein(?:en|em|er)?|une?|un[oa]|um) "
_BESIDE = (
    r" (?:before|after|from|vor|nach|avant|après|antes|después|despues|prima|dopo|depois)(?!\w)"
)

_CALCULATOR = (
    _Rule(
        "a half",
        late_pattern(
            r"(?i)(?<!\w)(?:half|halves|halved?|hälfte|halb\w*|halbier\w*|moitié|demie?s?|mitad|"
            r"medio|metà|"
            r"mezz[oai]|metade|mei[oa])(?!\w)"
        ),
        late_pattern(r"(?<![\d.])(?:2|6|30|50)(?![\d.])|\.5"),
    ),
    _Rule(
        "a third",
        late_pattern(
            r"(?i)(?<!\w)(?:thirds?|drittel\w*|tiers|tercios?|tercera parte|terz[oi]|terços?|"
            r"terça parte)(?!\w)"
        ),
        late_pattern(r"(?<![\d.])(?:3|33)(?!\d)"),
    ),
    _Rule(
        "a quarter",
        late_pattern(
            r"(?i)(?<!\w)(?:quarters?|viertel\w*|quarts?|cuartos?|cuarta parte|quart[oi]|"
            r"quarta parte)(?!\w)"
        ),
        late_pattern(r"(?<![\d.])(?:4|15|45|25 ?%|75 ?%)(?![\d.])|\.[27]5"),
    ),
    _Rule(
        "twice as much",
        late_pattern(
            r"(?i)(?<!\w)(?:twice|doubled?|doppelt\w*|zweimal|verdopp\w*|deux fois|doble|"
            r"dos veces|doppio|"
            r"due volte|dobro|duas vezes)(?!\w)"
        ),
        late_pattern(r"(?<![\d.])(?:2|200 ?%)(?![\d.])"),
    ),
    _Rule(
        "a dozen",
        late_pattern(
            r"(?i)(?<!\w)(?:dozens?|dutzend\w*|douzaines?|docenas?|dozzin[ae]|dúzias?)(?!\w)"
        ),
        late_pattern(r"(?<![\d.])(?:6|12|18|24|30|36|48|60)(?![\d.])"),
    ),
    _Rule(
        "what it is a share of",
        late_pattern(
            r"(?i)(?:%|(?<!\w)(?:percent|per cent|prozent|pour cent|por ciento|per cento|"
            r"por cento))\s*"
            r"(?:of|von|de|di)\s+(?:what|which|was|welche\w*|quoi|quel\w*|qué|que|cu[aá]l|che|"
            r"quale|qual)(?!\w)"
            r"|(?<!\w)(?:of|von) (?:what|which|welche\w*) (?:number|zahl|amount|betrag)"
        ),
        late_pattern(r"/"),
    ),
    _Rule(
        "all that is taken away",
        late_pattern(rf"(?i){_SPENT}"),
        forbids=late_pattern(r"-[^()]*\+"),
        unless=late_pattern(rf"(?i){_SPENT}.*{_GAIN}"),
    ),
    _Rule(
        "both that are taken away",
        late_pattern(r"(?i)[-\u2212]\s*\d[\d.]*\s+(?:and|und|et|y|e)\s+\d"),
        forbids=late_pattern(r"-[^()]*\+"),
    ),
    _Rule(
        "a time of day",
        late_pattern(
            r"(?i)\d\s?(?:a\.m\.|p\.m\.|pm|am)(?!\w)(?!\s+(?:tag|abend|morgen|mittag|wochenende|"
            r"ende|stück))"
        ),
        forbids=late_pattern(r""),
    ),
    _Rule("a number in binary", _BINARY, late_pattern(r"0b|bin\(")),
    _Rule("a number in decimal", late_pattern(r""), forbids=late_pattern(r"0[bxo]"), unless=_BASE),
)
_CLOCK = (
    _Rule("working days", _WORKING, late_pattern(r"(?<!\w)bd(?!\w)")),
    _Rule("all days", late_pattern(r""), forbids=late_pattern(r"(?<!\w)bd(?!\w)"), unless=_WORKING),
    _Rule(
        "one day of the week",
        late_pattern(
            rf"(?i)(?:how many|wie ?viele|combien de|cu[aá]ntos|"
            rf"quant[aeio]s?) (?:{_DAY_NAMES})(?!\w)"
        ),
        forbids=late_pattern(r"^days\("),
    ),
    _Rule(
        "a month beside a day",
        late_pattern(rf"(?i){_COUNT}(?:months?|monate?|mois|mes(?:es)?|mes[ei]|m[eê]s){_BESIDE}"),
        forbids=late_pattern(r"^months\("),
    ),
    _Rule(
        "a week beside a day",
        late_pattern(rf"(?i){_COUNT}(?:weeks?|wochen?|semaines?|semanas?|settiman[ae]){_BESIDE}"),
        forbids=late_pattern(r"^week\("),
    ),
)
_RULES = {"calc": _CALCULATOR, "clock": _CLOCK}
_NUMBER = late_pattern(r"(?<![\w.])\d+(?:\.\d+)?")
_MIXED = late_pattern(r"(?<![\d./])(\d+) (\d+)/(\d+)(?![\d/])")


def find_lost_relation(tool: str, expression: str, request: str) -> str:
    """Return what a request says that doesn't show in an expression, "" for nothing known."""
    besides = expression
    for literal in _NUMBER.findall(request):
        besides = re.sub(rf"(?<![\d.]){re.escape(literal)}(?![\d.])", " ", besides, count=1)
    for rule in _RULES.get(tool, ()):
        if not rule.says.search(request) or (rule.unless and rule.unless.search(request)):
            continue
        is_lost = rule.needs is not None and not rule.needs.search(besides)
        if is_lost or (rule.forbids is not None and rule.forbids.search(expression)):
            return rule.name
    if tool == "calc":
        for whole, part, parts in _MIXED.findall(request):
            decimal = re.escape(f"{int(whole) + int(part) / max(1, int(parts)):g}")
            if not re.search(rf"{whole} ?\+ ?\(?{part} ?/ ?{parts}|{decimal}", expression):
                return f"{whole} {part}/{parts}"
    return ""
