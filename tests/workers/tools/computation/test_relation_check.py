"""What a request says of its numbers shows in what is computed, or nothing is computed."""

from __future__ import annotations

import pytest

from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.computation.relation_check import find_lost_relation

WRONG = [
    (
        "calc",
        "500 - 120 + 80",
        "I have 500 euros, spend 120 on books and 80 on food. What is left?",
    ),
    ("calc", "3200 - 1150 + 420", "I earn 3200, pay 1150 rent and 420 for food. What is left?"),
    ("calc", "500 - 120 + 80", "Ich habe 500 Euro, gebe 120 für Bücher und 80 für Essen aus."),
    ("calc", "500 - 120 + 80", "J'ai 500 euros, je dépense 120 et 80. Combien reste-t-il ?"),
    ("calc", "100 - 20 + 10", "100 - 20 and 10"),
    ("calc", "9 + 45", "9 am plus 45 minutes"),
    ("calc", "45 * 90%", "45 is 90% of what?"),
    ("calc", "50 - 20%", "20% of what is 50?"),
    ("calc", "3 * 2 / 2", "what is 2 1/2 times 3?"),
    ("calc", "10 + 6", "half of 10 plus 6"),
    ("calc", "2 + 2", "what is half of 2 + 2?"),
    ("calc", "12 + 8", "a quarter of 12 plus 8"),
    ("calc", "9 + 3", "what is a third of 9 + 3?"),
    ("calc", "7 * 5", "a dozen eggs at 7 each and 5 more"),
    ("calc", "30 + 4", "Das Doppelte von 30 plus 4"),
    ("calc", "dec(0b10000000000)", "10000000000!"),
    ("calc", "1010 + 110", "add 1010 and 110 in binary"),
    ("clock", "days(today, christmas)", "how many business days until christmas?"),
    ("clock", "days(today, christmas)", "wie viele Arbeitstage sind es bis Weihnachten?"),
    ("clock", "days(2026-12-01, 2026-12-31)", "how many sundays in December 2026"),
    ("clock", "months(today, 03-31)", "one month before 31 March"),
    ("clock", "2027-01-31 + 1 bd", "one month after 31 January 2027"),
    ("clock", "week(2027-03-03)", "a week after 3 March 2027"),
    ("calc", "80 - 15%", "el 15% de 80"),
    ("calc", "45 * 8", "45 chairs, 8 in a row: how many rows?"),
    ("calc", "2.1 - 2.0", "differences between HDMI 2.0 and 2.1"),
    ("calc", "max(40, 50)", "40 or 50"),
    ("calc", "350 * 12", "Quantos euros são 350 dólares ao câmbio de hoje?"),
    ("calc", "(30 / 2) + 10", "Divide 30 by 1/2 and add 10."),
    ("calc", "cbrt(81)", "Fai il cubo non di 81, ma della sua radice quadrata"),
    ("calc", "sum(41, 38, 52)", "41, 38 und 52 Pakete. Wie groß ist die Spannweite?"),
    ("calc", "avg(6, 8, 10)", "Desvio padrão amostral de 6, 8, 10"),
    ("calc", "avg(2, 4, 9)", "mean and standard deviation of 2, 4, 9"),
    ("calc", "90 / (1 + 20%)", "How much VAT is included in £90 at 20%?"),
    ("calc", "85 / (1 + 20%)", "Quel est le prix TTC de 85 € HT avec une TVA à 20 % ?"),
    ("calc", "305 - 22%", "Scorpora l'IVA al 22% da 305 €: quanto resta di imponibile?"),
    ("calc", "10 * 132", "Que valor, somado a 10% dele mesmo, dá 132?"),
    ("calc", "600 * 3.75", "Cambia 600 soles a dólares a 3.75 soles por dólar"),
    ("calc", "6 / 4 * 8", "4 painters need 6 days, how many days do 8 painters need?"),
    ("calc", "sum(1, 100)", "sum of the numbers from 1 to 100"),
    ("calc", "4 * 10", "cylinder radius 4 height 10, volume?"),
    ("clock", "next(sat)", "when's the saturday after next?"),
    ("clock", "days(2004-02-29, today)", "How many times has 29 February come round since 2004?"),
    ("clock", "2027-01-11 + 30 bd", "30 Arbeitstage ab 11. Januar 2027, der Starttag zählt mit"),
    ("clock", "zone(09:00, berlin)", "whats 9am EST in berlin"),
    ("clock", "now(Moscou)", "Il est 23h50 à Lisbonne : quelle heure est-il à Moscou ?"),
    ("clock", "06:20 + 5 h", "el jarabe es cada 5 horas, el primero a las 6:20"),
    ("units", "20 C -> F", "Un cambio de 20 grados Celsius, ¿a cuántos Fahrenheit equivale?"),
    ("units", "20 l / (330 ml)", "how many 330 ml cans can I fill from a 20 litre keg"),
    ("units", "2 y -> d", "how many days are 2 years"),
]
RIGHT = [
    ("calc", "500 - 120 - 80", "500 minus 120 minus 80, what is left?"),
    ("calc", "45 / 90%", "45 is 90% of what?"),
    ("calc", "(2 + 1/2) * 3", "what is 2 1/2 times 3?"),
    ("calc", "2.5 * 3", "what is 2 1/2 times 3?"),
    ("calc", "10 / 2 + 6", "half of 10 plus 6"),
    ("calc", "50% * 390", "cuánto es la mitad de 390"),
    ("calc", "12 * 7", "a dozen eggs at 7 each"),
    ("calc", "0b1010 + 0b110", "add 1010 and 110 in binary"),
    ("calc", "hex(255)", "255 in hex"),
    ("clock", "today + 10 bd", "payment due in 10 working days. what date is that"),
    ("clock", "months(today, christmas)", "how many months before Christmas"),
    ("clock", "weekday(christmas)", "What weekday is Christmas this year?"),
    ("calc", "456 / 3", "1/3 of 456"),
    ("calc", "round(sqrt(1764), 1)", "racine carrée de 1764, arrondie à 1 décimale"),
    ("calc", "107 / (1 + 7%)", "$107 including 7% sales tax. What was the price before tax?"),
    ("calc", "75 * 1.10", "75 euro al cambio di 1.10 dollari per euro"),
    ("calc", "isprime(91)", "91 est premier ou pas"),
    ("units", "floor(20 l / (330 ml))", "how many 330 ml cans can I fill from a 20 litre keg"),
]


@pytest.mark.parametrize(("tool", "expression", "request_text"), WRONG)
def test_a_lost_relation_is_noticed(tool: str, expression: str, request_text: str) -> None:
    assert _lost(tool, expression, request_text)


@pytest.mark.parametrize(("tool", "expression", "request_text"), RIGHT)
def test_a_right_expression_is_let_through(tool: str, expression: str, request_text: str) -> None:
    assert _lost(tool, expression, request_text) == ""


def _lost(tool: str, expression: str, request_text: str, language: str = "") -> str:
    marked = mark(request_text, language)
    return find_lost_relation(tool, expression, marked.text, marked.language)
