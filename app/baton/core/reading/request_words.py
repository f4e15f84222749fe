"""What the words of a request say, in six languages, within microseconds.

Whether it may have parts, or something that can be computed: only such a request is shown to the
trained conductor; a plain question is answered at once. And whether a part of it asks something, or
is hardly more than one operation.
"""

from __future__ import annotations

import re

from baton.core.late_pattern import late_pattern

MAX_REQUEST_CHARS = 1500
"""The conductor was trained on requests of up to about 500 tokens."""

MAX_OWN_CHARS = 600
"""What a person asks for is short; the rest of a request is quoted."""

_QUOTED = late_pattern(r"```.*?(?:```|\Z)|\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»", re.DOTALL)

_CHOICES = late_pattern(r"^\s{0,9}\(?[A-D][).:]\s", re.MULTILINE)
"""A question with answers to choose from is one thing."""

_JOINING_WORDS = (
    "and|then|also|plus|after|afterwards|finally|next|both|"
    "und|dann|außerdem|sowie|danach|anschließend|auch|noch|dazu|"
    "et|puis|ensuite|aussi|enfin|"
    "y|e|luego|después|también|además|"
    "poi|anche|inoltre|infine|ed|dopo|"
    "depois|também|além|ainda"
)
_NUMBER_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|"
    "sixty|seventy|eighty|ninety|hundred|thousand|million|dozen|half|quarter|third|double|triple|"
    "zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|zwanzig|dreißig|vierzig|fünfzig|"
    "hundert|tausend|dutzend|halbe?s?n?|hälfte|viertel|doppelte?|"
    "deux|trois|quatre|cinq|sept|huit|neuf|dix|onze|douze|quinze|vingt|trente|quarante|cinquante|"
    "cent|mille|douzaine|moitié|demie?|quart|tiers|"
    "dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|quince|veinte|treinta|cuarenta|"
    "cincuenta|cien|ciento|mil|docena|mitad|medi[oa]|cuarto|tercio|"
    "due|tre|quattro|cinque|sei|sette|otto|nove|dieci|undici|dodici|quindici|venti|trenta|quaranta|"
    "cinquanta|cento|dozzina|metà|mezz[oa]|"
    "dois|duas|três|quatro|sete|oito|dez|doze|vinte|trinta|quarenta|cinquenta|cem|dúzia|metade|"
    "mei[oa]"
)
_COMPOUND_NUMBERS = (
    r"\w*(?:einhalb|und(?:zwan|drei|vier|fünf|sech|sieb|acht|neun)\w+ig|hundert)\w*|"
    r"(?:venti|trenta?|quaranta?|cinquanta?|sessanta?|settanta?|ottanta?|novanta?|cento)\w+"
)
"""Number words that are written as one: dreieinhalb, novantatré."""

_TIME_WORDS = (
    "time|o'clock|clock|date|day|today|tomorrow|yesterday|week|weekday|month|year|leap|easter|"
    "christmas|halloween|hours?|minutes?|"
    "uhr|spät|uhrzeit|datum|tage?n?|heute|morgen|gestern|woche|wochentag|monat|jahr|schaltjahr|"
    "ostern|weihnachten|silvester|"
    "heures?|date|jours?|aujourd|demain|hier|semaine|mois|année|bissextile|pâques|noël|"
    "horas?|fecha|días?|hoy|mañana|ayer|semana|mes|año|bisiesto|pascua|navidad|"
    "or[ae]|data|giorn[oi]|oggi|domani|ieri|settimana|mese|anno|bisestile|pasqua|natale|"
    "dias?|hoje|amanhã|ontem|mês|ano|bissexto|páscoa|natal"
)
_AMOUNT_WORDS = (
    "how many|how much|wie ?viele?|combien|cu[aá]nt[oa]s?|quant[oaie]s?|convert|umrechnen|"
    "convertir|converti|converter|percent|per cent|prozent|pour ?cent|por ciento|por cento|"
    "per cento|average|median|durchschnitt|moyenne|promedio|media|média|"
    "square|cubed?|root|wurzel|racine|raíz|radice|raiz|prime|primzahl|binary|roman"
)
_CUE = late_pattern(
    rf"\d|(?-i:\b[MDCLXVI]{{2,}}\b)|(?<!\w)(?:{_JOINING_WORDS}|{_NUMBER_WORDS}|{_COMPOUND_NUMBERS}|{_TIME_WORDS}|{_AMOUNT_WORDS})(?!\w)"
    r"|[?.!;:]\s+\S|\n\s*\S|\S,\s",
    re.IGNORECASE,
)


_OPENING = late_pattern(rf"^\W*(?:{_JOINING_WORDS})(?!\w)", re.IGNORECASE)
"""A joint that a request begins with joins it to what was said before."""


_REASONING_WORDS = late_pattern(
    r"(?<!\w)(?:prove(?! me)|proof|show that|riddles?|puzzle|trick question|"
    r"beweise?n?|zeige?,? dass|rätsel|scherzfrage|"
    r"démontrer?|démontrez|prouver?|prouvez|montrer? que|montrez que|devinette|énigme|"
    r"demuestra|demostrar|demuestre|adivinanza|acertijo|"
    r"dimostra(?:re)?|indovinello|"
    r"demonstr[ae]|mostr[ae] que|adivinha|charada|enigma)(?!\w)",
    re.IGNORECASE,
)
"""Numbers in such a request must not be computed."""


_FORMULA = late_pattern(r"\\[a-zA-Z]{3,}|\$(?=\S)[^$\n]{0,200}\S\$(?!\d)")
"""LaTeX: a request with it is a textbook's problem, and not marked."""


def wants_reasoning(request: str) -> bool:
    """Whether a request is for a proof, a riddle or a textbook's problem.

    A computed number is no answer to it.
    """
    own = _QUOTED.sub(" ", request)
    return any(pattern.search(own) for pattern in (_REASONING_WORDS, _FORMULA))


def may_have_parts(request: str) -> bool:
    """Whether the trained conductor should look at a request."""
    request = request.strip()
    if not request or len(request) > MAX_REQUEST_CHARS:
        return False
    own = _QUOTED.sub(" ", request)
    if len(own) > MAX_OWN_CHARS or len(_CHOICES.findall(own)) > 1:
        return False
    return _CUE.search(_OPENING.sub("", own)) is not None


_ASKING = late_pattern(
    r"\?|=|^\W*\d|(?<!\w)(?:what\w*|how|which|when\w*|who|convert|calculate|compute|work out|add|"
    r"subtract|multiply|divide|split|round|average|sum|tell me|give me|find|"
    r"was|wie|wieviel|welche[rnsm]?|wann|wo|rechne|berechne|addiere|teile|runde|summe|sag|nenne|gib|"
    r"combien|quel\w*|quand|calcule[rz]?|convertis|additionne|divise|arrondis|dis|donne|c'est quoi|"
    r"cu[aá]nt[oa]s?|qu[eé]|cu[aá]l|cu[aá]ndo|calcula|convierte|pasa|suma|divide|redondea|dime|dame|"
    r"quant[oaie]\w*|che|qual[ei]?|quando|converti|somma|dividi|arrotonda|dimmi|"
    r"qual|converte|some|divida|arredonde|diga|diz)(?!\w)",
    re.IGNORECASE,
)


def asks(text: str) -> bool:
    """Whether a part of a request asks for something, and doesn't only say how things are."""
    return _ASKING.search(text) is not None


_OPERATION = late_pattern(r"(?<=[\w)%])\s*(?:->|[-+*/^])|[a-z]+(?=\()")


def is_simple(request: str, expression: str) -> bool:
    """Whether a request is short and its expression hardly more than one operation."""
    return len(request.split()) <= MAX_SIMPLE_WORDS and len(_OPERATION.findall(expression)) <= 2


MAX_SIMPLE_WORDS = 14
