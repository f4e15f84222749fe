"""Plans episodes with the trained conductor, for judging.

    scripts/score_conductor --episodes IN.jsonl --out OUT.jsonl [--assign code|model]

An episode is {id, prompt, attachment_tokens, workers: [{id, kind: local|cloud|tool, price (US
dollars per million tokens), context_k, skills: {task kind: 0 to 5}}]}; an answer {id, plan:
[{worker, need: {kind, difficulty}, subtask, access}], seconds, valid_free}. The model writes the
parts and what they need. An exact search over the gym's outcome model chooses the workers, or,
with `--assign model`, the trained head of turn_head.py, which also says what is checked.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gym
from plan_check import check_plan

from baton.core.errors import PlanError
from baton.core.messages import estimated_tokens
from baton.core.plan_types import DIRECT_SUBTASK, Need
from baton.core.planning.plan_lines import PlanPart, is_repeating, parse_lines
from baton.core.planning.request_parts import (
    WrittenPlan,
    doubtful_parts,
    is_worth_following,
    with_implied_inputs,
)
from baton.core.reading.task_kind import text_need

if TYPE_CHECKING:
    from likely_kinds import KindReader
    from planner import Planner
    from turn_head import Head

Spreads = Sequence[tuple[float, ...]]

WHOLE = PlanPart("*", "", Need("chat", 3))
"""What is believed of a request where nothing can be read."""

_READS = ("summary", "extraction", "rewriting", "translation", "knowledge", "reasoning", "code")
"""The kinds of parts that are about an attachment where there is one."""


def answer(
    planner: Planner, reader: KindReader, row: Mapping[str, Any], head: Head | None
) -> dict[str, Any]:
    """Return an episode's plan; a head names the workers, without one an exact search does."""
    start = time.perf_counter()
    workers = tuple(
        gym.Worker(w["id"], w["kind"], float(w["price"]), float(w["context_k"]), w["skills"])
        for w in row["workers"]
    )
    has_tool = any(worker.is_tool for worker in workers)
    parts, spreads, valid = read_parts(planner, row["prompt"], has_tool)
    likely = iter(spreads)
    texts = [row["prompt"] if part.is_whole_request else part.text for part in parts]
    tasks = tuple(
        reader.task(_task(part, bool(row.get("attachment_tokens")), likely), text)
        for part, text in zip(parts, texts, strict=True)
    )
    episode = gym.Episode(
        tasks, workers, estimated_tokens(row["prompt"]), int(row.get("attachment_tokens") or 0)
    )
    steps = head.steps(episode, texts) if head else gym.best_plan(episode, gym.BELIEVED)[0]
    return {
        "id": row["id"],
        "plan": [_step_json(step, steps, parts, episode) for step in steps],
        "seconds": round(time.perf_counter() - start, 4),
        "valid_free": valid,
    }


def read_parts(
    planner: Planner, prompt: str, has_tool: bool
) -> tuple[Sequence[PlanPart], Spreads, bool]:
    """Return a request's parts in the user's words, how likely each difficulty of those that no
    tool was written for is, and whether the free text was a plan.
    """
    written = planner.plan(prompt)
    valid = True
    try:
        parts = (WHOLE,) if is_repeating(written.text) else parse_lines(written.text)
    except PlanError:
        valid = False
        try:
            written = planner.plan(prompt, grammar=True)
            parts = parse_lines(written.text)
        except PlanError:
            parts = (WHOLE,)
    likely = [
        () if part.tool else spread for part, spread in _parts_with_spreads(parts, written.spreads)
    ]
    read = as_steps(prompt, parts, has_tool, written.plan)
    for place, step in enumerate(read if has_tool and len(read) > 1 else ()):
        is_open = place >= len(parts) or bool(parts[place].tool and not step.tool)
        if is_open and not step.inputs and any(map(str.isdigit, step.text)):
            read[place] = _as_sum(planner, step.text) or step
    return read, [*likely, *([()] * (len(read) - len(likely)))], valid


def _as_sum(planner: Planner, words: str) -> PlanPart | None:
    """Return the sum that a part in doubt is by itself, as the product asks once more."""
    written = planner.plan(words)
    try:
        parts = parse_lines(written.text)
    except PlanError:
        return None
    (*others, part) = as_steps(words, parts, True, written.plan)
    return part if part.tool and not others and not is_repeating(written.text) else None


def as_steps(
    prompt: str, parts: Sequence[PlanPart], has_tool: bool, written: WrittenPlan
) -> list[PlanPart]:
    """Return a plan's parts as subtasks, then what it omits.

    A tool computes what the product would have it compute; the rest is a model's, in the user's
    words. A whole request is one step, however many sentences it has, and so are tasks of which
    the model wasn't sure.
    """
    if parts[0].is_whole_request:
        return list(parts)
    follows = len(parts) == 1 or is_worth_following(prompt, parts, written)
    if not follows and not any(part.tool for part in parts):
        return [replace(max(parts, key=lambda part: part.need.difficulty), text="*", inputs=())]
    found = check_plan(prompt, parts)
    has_tool = has_tool and is_worth_following(prompt, parts, written)
    doubtful = doubtful_parts(prompt, parts, written)
    read = []
    for place, (part, check) in enumerate(zip(parts, found, strict=False)):
        is_sure = place not in doubtful and not check.problem
        is_computed = bool(part.tool) and has_tool and is_sure
        read.append(
            PlanPart(
                check.text if is_computed or not part.tool else check.words,
                part.tool if is_computed else "",
                Need("calculation", _difficulty(part.text)) if part.tool else part.need,
                part.inputs,
            )
        )
    omitted = [PlanPart(one.text, need=text_need(one.text)) for one in found[len(parts) :]]
    return list(with_implied_inputs([*read, *omitted], found))


def _difficulty(expression: str) -> int:
    """Return how difficult an expression is for a model that has to work it out."""
    digits = sum(character.isdigit() for character in expression)
    return min(5, 1 + digits // 3)


def _parts_with_spreads(
    parts: Sequence[PlanPart], spreads: Spreads
) -> Iterator[tuple[PlanPart, tuple[float, ...]]]:
    likely = iter(spreads)
    for part in parts:
        yield part, () if part.tool else next(likely, ())


def _task(part: PlanPart, attached: bool, likely: Iterator[tuple[float, ...]]) -> gym.Task:
    reads = attached and part.need.kind in _READS and not part.inputs
    return gym.Task(
        part.need.kind,
        part.need.difficulty,
        part.inputs,
        reads,
        bool(part.tool),
        () if part.tool else calibrated_difficulty(next(likely, ()), part.need.difficulty),
    )


def calibrated_difficulty(spread: tuple[float, ...], difficulty: int) -> tuple[float, ...]:
    """Return how likely each difficulty is: the model is surer of them than it is right.

    Where it gave no `spread`, it said one difficulty.
    """
    spread = spread or tuple(float(difficulty == number) for number in range(1, 6))
    tempered = [chance**0.5 for chance in spread]
    total = sum(tempered)
    return tuple(
        0.6 * chance / total + 0.4 * usual
        for chance, usual in zip(tempered, USUAL_DIFFICULTIES, strict=True)
    )


USUAL_DIFFICULTIES = (0.2, 0.35, 0.28, 0.13, 0.04)
"""How often each difficulty occurs in the training texts, about."""


def _step_json(
    step: gym.Step, steps: Sequence[gym.Step], parts: Sequence[PlanPart], episode: gym.Episode
) -> dict[str, Any]:
    done = steps[step.checks - 1].parts if step.checks else step.parts
    part = parts[done[0] - 1]
    kinds = [parts[number - 1].need for number in done]
    need = max(kinds, key=lambda need: need.difficulty)
    inputs = [str(number) for number in step.inputs]
    if len(episode.tasks) == len(done) and not step.checks:
        # One step for all of it: the request itself, unless it is an expression.
        subtask = part.text if len(done) == 1 and part.tool else DIRECT_SUBTASK
        access = ["prompt"]
    else:
        subtask, access = part.text, inputs
    if step.checks:
        subtask, access = f"Check result {step.checks}: {part.text}", inputs
    if any(episode.tasks[number - 1].reads_attachment for number in done):
        access = [*access, "file:attachment"]
    return {
        "worker": step.worker,
        "need": {"kind": need.kind, "difficulty": need.difficulty},
        "subtask": subtask,
        "access": access,
    }


def main() -> None:
    """Read the arguments, plan, and write the answers."""
    from likely_kinds import KindReader
    from planner import Planner  # loads llama.cpp, which training doesn't have
    from turn_head import Head

    from baton.workers.local import conductor_adapter, starter

    parser = argparse.ArgumentParser(
        prog="score_conductor",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--episodes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--assign", choices=("code", "model"), default="code")
    parser.add_argument("--adapter", type=Path, default=conductor_adapter())
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.adapter is None:
        sys.exit("There is no trained conductor here: models/conductor/adapter.gguf is missing.")
    head = Head() if args.assign == "model" else None
    planner = Planner(starter().path, args.adapter, threads=args.threads)
    reader = KindReader()
    try:
        rows = [json.loads(line) for line in args.episodes.read_text("utf-8").splitlines() if line]
    except (OSError, ValueError) as error:
        sys.exit(f"{args.episodes} can't be read as JSON lines: {error}")
    with args.out.open("w", encoding="utf-8") as out:
        for row in rows:
            print(json.dumps(answer(planner, reader, row, head), ensure_ascii=False), file=out)


if __name__ == "__main__":
    main()
