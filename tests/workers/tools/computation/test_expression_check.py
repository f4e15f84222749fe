"""An expression is computed only if it holds the request's literals, all and no others."""

from __future__ import annotations

import pytest

from baton.workers.tools.computation.expression_check import (
    correct_expression,
    find_problem,
    find_unused_numbers,
)
from baton.workers.tools.computation.marked_text import mark


@pytest.mark.parametrize(
    ("request_", "line", "foreign"),
    [
        ("What is 17 times 23?", "calc: 17 * 23", ""),
        ("What is 17 times 23?", "calc: 17 * 29", "29"),
        ("half of 38", "calc: 38 / 2", ""),
        ("what does 312.00 plus 10% come to", "calc: 312 + 10%", ""),
        ("1011 in decimal", "calc: dec(0b1011)", ""),
        ("1011 in decimal", "calc: dec(0b1001)", "0b1001"),
        ("42 km in miles", "units: 42 km -> mi", ""),
        ("42 km in miles", "units: 42 km -> kg", "kg"),
        ("240 km at 80 km/h, how long?", "units: 240 km / (80 km/h) -> h", ""),
        ("how many days until May 3", "clock: days(today, 05-03)", ""),
        ("how many days until May 3", "clock: days(today, 05-04)", "05-04"),
        (
            "days between March 1 and April 12, 2025",
            "clock: days(2025-03-01, 2025-04-12)",
            "",
        ),
        ("from 9:15 to 17:40", "clock: span(09:15, 17:45)", "17:45"),
        ("distancia entre Lima y Madrid", "clock: diff(Lima, Madrid)", "a time difference"),
        (
            "Quantas horas de voo de Lima a Madrid?",
            "clock: diff(Lima, Madrid)",
            "a time difference",
        ),
        ("How many hours is Lima behind Madrid?", "clock: diff(Lima, Madrid)", ""),
        ("Zeitverschiebung Lima Madrid", "clock: diff(Lima, Madrid)", ""),
        ("how many full years from 1987-05-05 to today", "clock: days(1987-05-05, today)", "y"),
        ("how many full years from 1987-05-05 to today", "clock: age(1987-05-05, today)", ""),
        ("how many days until new year", "clock: days(today, newyear)", ""),
        ("time left until new year", "clock: days(today, newyear)", ""),
        ("combien d'années depuis le 5 mai 1987 ?", "clock: days(1987-05-05, today)", "y"),
        ("Wie viele Wochen bis Weihnachten?", "clock: days(today, christmas)", "w"),
        ("how many days until new years eve", "clock: days(today, newyear)", "newyear"),
        ("how many days until new years eve", "clock: days(today, newyearseve)", ""),
        ("at 08:15 I leave, when am I there?", "clock: 08:15 - 8 h", "8 h"),
        ("at 08:15 I leave, it takes 8 h", "clock: 08:15 + 8 h", ""),
        ("in 2027 a week has how many hours", "units: 1 w -> h", ""),
        ("largest perfect square factor of 1512", "calc: factors(1512)", "prime factors"),
        ("What is the sum of the factors of 24?", "calc: sum(factors(24))", "prime factors"),
        ("prime factors of 360", "calc: factors(360)", ""),
        ("please factor 360", "calc: factors(360)", ""),
        ("factorise 360", "calc: factors(360)", ""),
        ("fatore 126 em primos", "calc: factors(126)", ""),
        ("Faktorisiere 84", "calc: factors(84)", ""),
        ("a tip of 18% on 64", "calc: (64 + 18%) / 64", "a second 64"),
        ("64 + 64", "calc: 64 + 64", ""),
        ("pi times 5 squared", "calc: pi * 5^2", ""),
        ("the solstice is on June 21 in the", "clock: week(06-21)", "the number of a week"),
        ("in which week is June 21", "clock: week(06-21)", ""),
        ("Welche KW ist am 21. Juni?", "clock: week(06-21)", ""),
        ("calcula 75 por 16", "calc: 75% * 16", "75%"),
        ("calcula el 75% de 16", "calc: 75% * 16", ""),
        ("160 euros, -35%, how much", "calc: 160 - 35%", ""),
        ("quantos meses faltam até o natal", "clock: months(today, christmas)", ""),
        (
            "My invoice is 2,340.00 net. What is it with 20% VAT?",
            "calc: 2340.00 / (1 + 20%)",
            "an amount without tax",
        ),
        ("119 Euro netto, 19% MwSt dazu", "calc: 119 / (1 + 19%)", "an amount without tax"),
        ("My invoice is 2,340.00 net. What is it with 20% VAT?", "calc: 2340 + 20%", ""),
        ("119 euros with 19% VAT: what is that net?", "calc: 119 / (1 + 19%)", ""),
        (
            "The angles of a triangle are 35 and 75 degrees. How big is the third?",
            "calc: 35 * 75 / 2",
            "a product of angles",
        ),
        ("A triangle has base 35 and height 75", "calc: 35 * 75 / 2", ""),
        (
            "En una clase hay 12 chicos y 18 chicas. ¿Qué porcentaje son chicas?",
            "calc: pct(12; 18)",
            "a share of another part",
        ),
        ("What percentage is 12 of 18?", "calc: pct(12; 18)", ""),
        (
            "Si aujourd'hui c'est mardi, quel jour dans dix jours ?",
            "clock: weekday(today + 10 d)",
            "today",
        ),
        ("Quel jour serons-nous dans dix jours ?", "clock: weekday(today + 10 d)", ""),
    ],
)
def test_what_the_request_does_not_hold_is_found(request_: str, line: str, foreign: str) -> None:
    tool, _, expression = line.partition(": ")
    assert find_problem(tool, expression, mark(request_)) == foreign


@pytest.mark.parametrize(
    ("request_", "expression", "right"),
    [
        ("days until new years eve", "days(today, newyear)", "days(today, newyearseve)"),
        ("Tage bis Heiligabend?", "days(today, christmas)", "days(today, christmaseve)"),
        ("days until Friday", "days(today, christmas)", "days(today, christmas)"),
        ("days from easter to christmas", "days(easter, newyear)", "days(easter, newyear)"),
        ("how many days does February have in 2028", "daysin(2028)", "daysin(2028-02)"),
        ("how many days does 2028 have", "daysin(2028)", "daysin(2028)"),
        ("may I ask how many days 2028 has", "daysin(2028)", "daysin(2028)"),
    ],
)
def test_a_name_copied_wrongly_is_corrected_where_only_one_can_be_meant(
    request_: str, expression: str, right: str
) -> None:
    assert correct_expression("clock", expression, mark(request_)) == right


@pytest.mark.parametrize(
    ("request_", "expressions", "texts", "left"),
    [
        ("17 times 23 times 2", ["17 * 23"], [], "2"),
        ("17 times 17", ["17 * 17"], [], ""),
        ("17 times 17", ["17"], [], "17"),
        ("17*23 and name 3 rivers", ["17 * 23"], ["name 3 rivers"], ""),
        ("1/3 of 456", ["456 / 3"], [], ""),
        ("log base 10 of 1000", ["log(1000)"], [], ""),
        ("1) 17 * 23 2) name 3 rivers", ["17 * 23"], ["name 3 rivers"], ""),
        ("days between March 1 and April 12, 2025", ["days(2025-03-01, 2025-04-12)"], [], ""),
    ],
)
def test_what_no_part_holds_is_found(
    request_: str, expressions: list[str], texts: list[str], left: str
) -> None:
    found = find_unused_numbers(expressions, texts, mark(request_).text)
    assert next(found, "") == left
