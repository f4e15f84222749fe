"""What the words of a request say, in six languages, within microseconds.

Whether it may have parts, or something that can be computed: only such a request is shown to the
trained conductor; a plain question is answered at once. And whether it names the operation that an
expression computes: a small model that isn't sure of an expression is mostly right where the words
say the same ("2 to the power of 12": `2 ^ 12`), and mostly wrong where they don't ("40 chairs, 8 in
a row": `40 * 8`).
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


# Names of operations


_OPERATION_WORDS = {
    "+%": r"add\w*|plus|increas\w*|surcharge|"
    r"dazu|drauf\w*|zuzüglich|erhöh\w*|ajout\w*|augment\w*|majoré\w*|"
    r"añad\w*|suma\w*|aument\w*|aggiung\w*|acrescent\w*",
    "-%": r"off|discount\w*|reduc\w*|cheaper|minus|"
    r"\w*rabatt|reduziert\w*|billiger|Nachlass|abzüglich|remise|réduction|rabais|soldé\w*|"
    r"descuento|rebaj\w*|scont\w*|ribass\w*|desconto",
    "%*": r"(?:%|per ?cent|Prozent|pour ?cent|por ciento|por cento|per cento) *"
    r"(?:of|von|vom|de|du|des|del|di|do|da|d')",
    "+": r"plus|add\w*|sum|addier\w*|Summe|suma\w*|somm\w*|addition\w*|más|più|mais|soma\w*",
    "-": r"minus|less|subtract\w*|take away|weniger|abzüglich|moins|soustra\w*|"
    r"menos|meno|sottra\w*|subtra\w*",
    "*": r"times|multipl\w*|product|mal|multiplizier\w*|Produkt|fois|produit|"
    r"veces|producto|volte|moltiplic\w*|prodotto|vezes|produto|"
    r"rectang\w*|Rechteck\w*|rettangol\w*|retângul\w*",
    "/": r"divid\w*|divi[sd]\w*|geteilt|dividier\w*|split",
    "^": r"power|squared?|cubed?|to the|hoch|Quadrat|quadriert|Potenz|puissance|carré|cube|"
    r"elevad[oa]|cuadrado|cubo|potencia|quadrato|potenza|quadrado|potência|elevato",
    "quot": r"divid\w*|divis\w*|whole|ganze|entièr\w*|enter[ao]s?|inter[aeio]\w*|inteir[ao]s?",
    "mod": r"remainder|left over|modulo|mod|Rest|reste|resto|sobra\w*",
    "sqrt": r"(?:square )?root|\w*wurzel|racine|raíz|raiz|radice",
    "cbrt": r"cub(?:e|ic) root|Kubikwurzel|racine cubique|ra[ií]z cúbica|radice cubica",
    "avg": r"average|mean|\w*durchschnitt\w*|Mittel\w*|moyenne|promedio|media|média",
    "median": r"median\w?|médiane|mediana",
    "max": r"largest|biggest|greatest|highest|maxim\w*|größte\w*|höchste\w*|plus grande?|"
    r"mayor|maggiore|maior",
    "min": r"smallest|lowest|minim\w*|kleinste\w*|niedrigste\w*|plus petite?|menor|minore",
    "gcd": r"gcd|greatest common|ggT|größte\w* gemeinsame\w*|pgcd|mcd|máximo común|"
    r"massimo comune|máximo divisor|mdc",
    "lcm": r"lcm|least common|kgV|kleinste\w* gemeinsame\w*|ppcm|mcm|mínimo común|"
    r"minimo comune|mínimo múltiplo|mmc",
    "fact": r"factorial|Fakultät|factorielle|factorial|fattoriale|fatorial|\d\s?!",
    "isprime": r"prime|Primzahl|prim|premier|primo",
    "round": r"round\w*|nearest|rund\w*|gerundet|arrondi\w*|redonde\w*|arrotond\w*|arredond\w*",
}
"""What an operation is called; `+%` adds a percentage, `-%` takes one off, `%*` is a part of it."""

_OPERATION_PATTERNS = {
    operation: late_pattern(rf"(?<![^\W\d_])(?:{words})(?![^\W\d_])", re.IGNORECASE)
    for operation, words in _OPERATION_WORDS.items()
}
_CONVERSION = late_pattern(r"[\d.]+ (\S+)(?: \* \([\d.]+ (\S+)\))? -> (\S+)")
_OPERATION = late_pattern(r"[-+]\s*[\d.]+%|[\d.]+%\s*\*|\*\s*[\d.]+%|[-+*/^]|[a-z]+(?=\()")


def names_operations(request: str, tool: str, expression: str) -> bool:
    """Whether a request names all that an expression does with its numbers.

    A quantity that is converted to another unit, or two that are multiplied to give one, needs no
    word: units that don't fit have no value.
    """
    if tool == "units":
        match = _CONVERSION.fullmatch(expression)
        return match is not None and match[3] not in (match[1], match[2])
    if tool != "calculator":
        return False
    operations = {_operation(found) for found in _OPERATION.findall(expression)}
    return bool(operations) and all(
        name in _OPERATION_PATTERNS
        and (_OPERATION_PATTERNS[name].search(request) or _has_sign(name, request))
        for name in operations
    )


def _has_sign(operation: str, request: str) -> bool:
    """Whether a request has an operation's sign between two numbers."""
    signs = _SIGNS.get(operation)
    return signs is not None and re.search(rf"\d\s*(?:{signs})\s*\d", request) is not None


_SIGNS = {
    "+": r"\+",
    "-": "[-\u2212]",
    "*": r"\*|[x\u00d7\u00b7]",
    "/": "[/:\u00f7]",
    "^": r"\^|\*\*",
}


def _operation(written: str) -> str:
    """Return the name of an operation as it is written: `+ 20%` is another one than `+`."""
    if "%" not in written:
        return written
    return f"{written[0]}%" if written[0] in "+-" else "%*"
