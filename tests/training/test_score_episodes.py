"""scripts/score_conductor, as judges call it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import score_episodes

from baton.core.planning.plan_lines import parse_lines
from baton.core.planning.request_parts import WrittenPlan

ROOT = Path(__file__).resolve().parents[2]
ROSTER = [
    {"id": "a1", "kind": "local", "price": 0, "context_k": 8, "skills": {"writing": 1}},
    {"id": "b2", "kind": "cloud", "price": 2.0, "context_k": 128, "skills": {"writing": 4}},
    {"id": "calc", "kind": "tool", "price": 0, "context_k": 0, "skills": {"calculation": 5}},
]

pytestmark = [pytest.mark.sampled(0.34), pytest.mark.local_model]


def score(episodes: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "scripts/score_conductor"), "--episodes", str(episodes)]
    return subprocess.run(
        [*command, "--out", str(out), *more],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_THREAD_LIMIT": "1"},  # other tests run beside it
    )


def test_episodes_are_planned(tmp_path: Path) -> None:
    prompts = [
        "What is 17*23?",
        "Write a short poem about autumn, then tell me how much 48 / 6 is",
        "Explain what a black hole is",
    ]
    rows = [
        {"id": str(n), "prompt": prompt, "attachment_tokens": 0, "workers": ROSTER}
        for n, prompt in enumerate(prompts)
    ]
    episodes, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    episodes.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = score(episodes, out)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [answer["id"] for answer in answers] == ["0", "1", "2"]
    (only,) = answers[0]["plan"]
    assert (only["worker"], only["need"]["kind"]) == ("calc", "calculation")
    assert "17" in only["subtask"]
    assert "23" in only["subtask"]
    ids = {worker["id"] for worker in ROSTER}
    for answer in answers:
        assert answer["valid_free"] in (True, False)
        assert answer["seconds"] > 0
        for number, step in enumerate(answer["plan"], start=1):
            assert step["worker"] in ids
            assert 1 <= step["need"]["difficulty"] <= 5
            assert step["subtask"].strip()
            assert all(int(seen) < number for seen in step["access"] if seen.isdecimal())


def test_what_can_not_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "in.jsonl"
    broken.write_text("{", encoding="utf-8")
    done = score(broken, tmp_path / "out.jsonl")
    assert done.returncode == 1
    assert "can't be read as JSON lines" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sampled(0.34)
def test_the_head_names_workers_without_a_search(tmp_path: Path) -> None:
    prompts = ["Write a short poem about autumn, then tell me how much 48 / 6 is", "Hello!"]
    rows = [
        {"id": str(n), "prompt": prompt, "attachment_tokens": 0, "workers": ROSTER}
        for n, prompt in enumerate(prompts)
    ]
    episodes, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    episodes.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = score(episodes, out, "--assign", "model")
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line)["plan"] for line in out.read_text("utf-8").splitlines())
    assert [step["worker"] for step in first[:2]] == ["b2", "calc"]
    assert second[0]["worker"] in ("a1", "b2")
    for step in (*first[2:], *second[1:]):
        assert step["subtask"].startswith("Check")


def test_a_whole_request_of_several_sentences_stays_one_step() -> None:
    prompt = "Who does what in this text? Water the plants twice a week. Keep them out of the sun."
    parts = parse_lines("extraction2: *")
    written = WrittenPlan("extraction2: *", 0.0, (0.0,))
    assert score_episodes.as_steps(prompt, parts, has_tool=True, written=written) == list(parts)


def test_a_sum_in_doubt_is_a_models_and_a_sure_one_stays() -> None:
    prompt = "What is 17*23? And 40 chairs, 8 in a row, how many rows?"
    parts = parse_lines("calc: 17*23\ncalc: 40 * 8")
    written = WrittenPlan("", -0.1, (0.0, -0.2))
    read = score_episodes.as_steps(prompt, parts, has_tool=True, written=written)
    assert [step.tool for step in read] == ["calculator", ""]
