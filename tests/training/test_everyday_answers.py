"""The everyday prompts: their rules tell good answers from bad ones, and the bench keeps them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import everyday_answers as bench  # noqa: E402
from everyday_rules import EverydayPrompt, is_right, read_prompts  # noqa: E402

from baton.bench.strategy_bench import Execute, code_executor  # noqa: E402
from baton.core.plan_types import KINDS  # noqa: E402
from baton.workers.tools import build_tools  # noqa: E402

FOLDER = ROOT / "scripts" / "training" / "router"
PROMPTS = read_prompts(FOLDER / "everyday.jsonl")
HELD_OUT = read_prompts(FOLDER / "everyday_held_out.jsonl")

EMPTY_TALK = (
    "",
    "I am not sure what to say about any of this.",
    "I was made for many different tasks and for the questions of many different people.",
    "It is important to consider all the factors, which depend on the situation.",
)
"""What says nothing, whatever was asked."""


def ruled(prompt: str = "Which one?", **rule: Any) -> EverydayPrompt:
    return EverydayPrompt("x", "chat", "en", prompt, rule, "", "")


@asynccontextmanager
async def sandboxed() -> AsyncIterator[Execute]:
    python = build_tools()["python"]
    try:
        yield code_executor(python)
    finally:
        await python.aclose()


def judge(prompt: EverydayPrompt, answer: str) -> bool:
    async def judged() -> bool:
        async with sandboxed() as execute:
            return await is_right(prompt, answer, execute)

    return asyncio.run(judged())


def judged_answer(kind: str, *, right: bool, marked: bool) -> bench.JudgedAnswer:
    prompt = EverydayPrompt(f"{kind}-01", kind, "en", "Why?", {"words": [1, 9]}, "", "")
    warnings = [{"kind": "unlikely", "message": "Likely wrong.", "hint": "Add a model."}]
    row = {
        "id": prompt.id,
        "prompt": "Why?",
        "answer": "Because.",
        "warnings": warnings if marked else [],
        "scores": {"quality": 0.25},
        "workers": ["small"],
        "tokens": 3,
        "seconds": 1.5,
        "confidence": -0.51239,
    }
    return bench.JudgedAnswer(prompt, row, right)


def test_every_rule_passes_its_good_answer_and_fails_its_bad_one() -> None:
    async def failures() -> list[str]:
        found = []
        async with sandboxed() as execute:
            for prompt in (*PROMPTS, *HELD_OUT):
                if not await is_right(prompt, prompt.good, execute):
                    found.append(f"{prompt.id} refuses {prompt.good!r}")
                for answer in (prompt.bad, *EMPTY_TALK):
                    if await is_right(prompt, answer, execute):
                        found.append(f"{prompt.id} accepts {answer!r}")
        return found

    assert asyncio.run(failures()) == []


def test_the_prompts_cover_all_kinds_and_six_languages() -> None:
    assert Counter(prompt.kind for prompt in PROMPTS) == dict.fromkeys(KINDS, 25)
    held_out = Counter(prompt.kind for prompt in HELD_OUT)
    assert held_out == dict.fromkeys(KINDS, 7) | {"unanswerable": 16}
    languages = Counter(prompt.language for prompt in PROMPTS)
    assert languages == {"en": 240} | dict.fromkeys(("de", "fr", "es", "it", "pt"), 12)


def test_no_prompt_is_there_twice() -> None:
    both = (*PROMPTS, *HELD_OUT)
    assert len({prompt.id for prompt in both}) == len(both)
    assert len({" ".join(prompt.prompt.casefold().split()) for prompt in both}) == len(both)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The total is 1,062.50.", True),
        ("1.062,50 €", True),
        ("1 062,5", True),
        ("It is **1062.50** in all.", True),
        ("You pay 1062.50 for the\nwhole.\n\nThank you for asking!", True),
        ("10625", False),
        ("At first 1062.50 looks right, but it is 99.", False),
        ("1,250 less 15 is 1,235.", False),
        ("It is a lot.", False),
    ],
)
def test_a_number_is_the_one_that_is_stated(answer: str, expected: bool) -> None:
    assert judge(ruled(number=[1062.5, 0.001]), answer) is expected


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        ({"items": [2, 2]}, "- one\n- two", "- one and two"),
        ({"sentences": [1, 1]}, "One sentence.", "One sentence. Another one."),
        ({"lines": [2, 2]}, "```\none\ntwo\n```", "one two"),
        ({"full": "nile"}, "**Nile.**", "It is the Nile or the Rhine."),
        ({"has": ["cafe"]}, "Un café.", "Un decafe."),
        ({"order": ["one", "two"]}, "One, then two.", "Two, then one."),
        ({"json": {"a": "1$"}}, '```json\n{"a": 1}\n```', '{"a": 1, "b": 2}'),
        ({"json": ["x", "y"]}, '["x", "y"]', "x, y"),
        ({"language": "de"}, "Das ist nicht der Weg.", "This is not the way."),
        ({"unanswerable": "web"}, "Das kann ich leider nicht wissen.", "Es wird morgen regnen."),
        ({"python": "assert f(2) == 4"}, "def f(x): return 2 * x", "def f(x): return x"),
    ],
)
def test_a_rule_of_each_sort(rule: dict[str, Any], right: str, wrong: str) -> None:
    assert judge(ruled(**rule), right)
    assert not judge(ruled(**rule), wrong)


def test_an_answer_that_repeats_itself_or_the_prompt_is_wrong() -> None:
    asked = "Please write down which of the two rivers is the longer one."
    rule = ruled(asked, has=["river"])
    assert judge(rule, "The first river is longer.")
    assert not judge(rule, "The first river is longer. " * 3)
    assert not judge(rule, asked)
    assert not judge(rule, f"Sure! {asked} The river.")


def test_a_rule_with_a_mistake_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    row = {"id": "a", "kind": "chat", "language": "en", "prompt": "Hi", "good": "", "bad": ""}
    changes: tuple[dict[str, Any], ...] = (
        {"rule": {"contains": ["x"]}},
        {"rule": {}},
        {"rule": {"has": ["x"]}, "kind": "y"},
    )
    for change in changes:
        file.write_text(json.dumps(row | change))
        with pytest.raises(ValueError, match="a "):
            read_prompts(file)


def test_only_what_has_no_answer_yet_is_asked(tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    sums = [prompt for prompt in PROMPTS if prompt.id in ("calculation-02", "calculation-20")]
    asyncio.run(bench.ask_all(sums[:1], out))
    first = out.read_text()
    asyncio.run(bench.ask_all(sums, out))
    assert out.read_text().startswith(first)
    judged = asyncio.run(bench.judge_all(sums, bench.read_answers(out)))
    assert [answer.is_right for answer in judged] == [True, True]
    assert [answer.row["workers"] for answer in judged] == [["calculator"], ["calculator"]]
    changed = EverydayPrompt(**{**vars(sums[0]), "prompt": "1 + 1"})
    assert not bench.is_answered(changed, bench.read_answers(out))


def test_the_report_counts_wrong_ones_unmarked_and_right_ones_marked() -> None:
    judged = [
        judged_answer("math", right=False, marked=False),
        judged_answer("math", right=False, marked=True),
        judged_answer("math", right=True, marked=True),
        judged_answer("chat", right=True, marked=False),
    ]
    lines = list(bench.report(judged))
    assert lines[2:] == [
        "| math | 3 | 1 | 2 | 1 of 2 (50%) | 1 of 1 (100%) |",
        "| chat | 1 | 1 | 0 | none | 0 of 1 (0%) |",
        "| all | 4 | 2 | 2 | 1 of 2 (50%) | 1 of 2 (50%) |",
    ]


def test_the_page_shows_what_was_said_beside_an_answer() -> None:
    marked = judged_answer("math", right=False, marked=True)
    text = "\n".join(bench.page([marked, judged_answer("chat", right=True, marked=False)]))
    assert "### math-01: wrong" in text
    assert "Beside it: Likely wrong. Add a model." in text
    assert "Nothing was said beside it." in text
    assert bench.outcome(marked)["confidence"] == -0.5124
    assert bench.outcome(marked)["quality"] == 0.25
    assert bench.outcome(marked)["chance"] is None
