"""Whether a request names the operation that an expression computes, in six languages.

A small model that isn't sure of an expression is mostly right where the words say the same ("2 to
the power of 12": `2 ^ 12`), and mostly wrong where they don't ("40 chairs, 8 in a row": `40 * 8`).
"""

from __future__ import annotations

import re

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
    operation: re.compile(rf"(?<![^\W\d_])(?:{words})(?![^\W\d_])", re.IGNORECASE)
    for operation, words in _OPERATION_WORDS.items()
}
_CONVERSION = re.compile(r"[\d.]+ (\S+)(?: \* \([\d.]+ (\S+)\))? -> (\S+)")
_OPERATION = re.compile(r"[-+]\s*[\d.]+%|[\d.]+%\s*\*|\*\s*[\d.]+%|[-+*/^]|[a-z]+(?=\()")


def names_operations(request: str, tool: str, expression: str) -> bool:
    """Tell whether a request names all that an expression does with its numbers.

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
    """Tell whether a request has an operation's sign between two numbers."""
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
