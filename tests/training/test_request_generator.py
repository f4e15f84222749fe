"""What the conductor is trained on: hand-written wordings, filled and marked as at work."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path

import pytest
import request_generator
import templates
from request_generator import COMPOUND, HAND, HEADS, NONE, NOON, TEXT, TOOL, Generator
from slots import NUMBER_WORDS, fill_slot

from baton.core.planning.plan_lines import parse_lines
from baton.workers.tools.computation import evaluate
from baton.workers.tools.computation.marked_text import mark

HELD_OUT = Path(request_generator.__file__).parent / "held_out"


def rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (HELD_OUT / name).read_text("utf-8").splitlines()]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("language", templates.written_languages())
def test_nearly_all_wordings_can_be_drawn_and_their_plans_executed(language: str) -> None:
    generator = Generator(17)
    for kind in (TOOL, NONE, TEXT, COMPOUND, HAND):
        drawn = [generator.draw(kind, language) for _ in range(60)]
        examples = [example for example in drawn if example is not None]
        assert len(examples) >= 50
        for example in examples:
            parts = parse_lines(example.target)
            assert mark(example.prompt, language).text or example.prompt
            if kind == TOOL:
                assert parts[0].tool
                evaluate(HEADS[parts[0].tool], parts[0].text, now=NOON)
            if kind in (NONE, TEXT):
                assert parts[0].is_whole_request
            if kind == COMPOUND:
                assert len(parts) > 1


def test_the_same_seed_draws_the_same() -> None:
    first, second = (list(islice(iter(Generator(3)), 40)) for _ in range(2))
    assert first == second
    assert first != list(islice(iter(Generator(4)), 40))


def test_what_is_kept_back_is_drawn_only_for_judging() -> None:
    language = templates.written_languages()[0]
    tools = templates.texts(language).tools
    kept = [template for template in tools if template.is_held_out]
    assert 0.08 < len(kept) / len(tools) < 0.25
    operations = {template.operation for template in kept}
    drawn = [Generator(5, held_out=True).draw(TOOL, language) for _ in range(30)]
    assert {example.operation for example in drawn if example} <= operations


@pytest.mark.parametrize("language", NUMBER_WORDS)
def test_the_marks_read_every_number_word(language: str) -> None:
    words = NUMBER_WORDS[language].split()
    numbers = [*range(2, 21), *range(30, 100, 10)]
    assert len(words) == len(numbers)
    for word, number in zip(words, numbers, strict=True):
        assert mark(f"{word} km", language).text == f"{number} km"


@pytest.mark.parametrize("language", NUMBER_WORDS)
@pytest.mark.parametrize("kind", ["int", "big", "dec", "date", "day", "month", "time", "q.mass"])
def test_the_marks_read_what_the_slots_write(kind: str, language: str) -> None:
    rng = random.Random(1)
    read = 0
    for _ in range(100):
        filled = fill_slot(kind, language, rng)
        assert filled is not None
        read += mark(f"x {filled[0]} y", language).text == f"x {filled[1]} y"
    assert read >= 85


def test_the_prompts_kept_for_judging_have_the_values_they_name() -> None:
    checked = 0
    for file in sorted(HELD_OUT.glob("computable.*.jsonl")):
        for row in rows(file.name):
            tool, _, expression = str(row["expression"]).partition(": ")
            found = evaluate(tool, expression, now=NOON).value
            if isinstance(row["value"], int | float) and not isinstance(row["value"], bool):
                try:
                    number = float(found.parts[0][0] if hasattr(found, "parts") else found)
                except TypeError:
                    continue
                assert number == pytest.approx(row["value"], rel=1e-4), row
                checked += 1
    assert checked > 250
