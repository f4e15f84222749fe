"""What a fresh Baton answers to everyday prompts, what it says beside it, and what of it is right.

    scripts/everyday_answers PROMPTS --out FILE                  asks what isn't there yet
    scripts/everyday_answers PROMPTS --out FILE --report         only the table, from that file
    scripts/everyday_answers PROMPTS --out FILE --outcomes FILE  and writes who was right (small)
    scripts/everyday_answers PROMPTS --out FILE --write PAGE.md  and writes a page to read

PROMPTS is scripts/training/router/everyday.jsonl or everyday_held_out.jsonl. Every prompt begins a
conversation of its own in a home without settings, keys or other workers: the starter model, the
tools and the router answer in their processes, as `baton ask --json` has them do, and what is kept
is the object that it prints. The processes stay alive in between, so that the router is as warm as
it is in the app. Answers are judged when they are read, so a changed rule needs no new answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "training" / "router"))
from everyday_rules import EverydayPrompt, is_right, read_prompts  # noqa: E402

from baton.bench import code_executor  # noqa: E402
from baton.cli.json_output import run_object  # noqa: E402
from baton.compose import compose  # noqa: E402
from baton.core.messages import Chunk, Prompt, Purpose, Request, Usage  # noqa: E402
from baton.core.permissions import PromptLimits  # noqa: E402
from baton.core.ports import Worker  # noqa: E402
from baton.core.run.orchestra import Orchestra  # noqa: E402
from baton.core.view import RunView  # noqa: E402
from baton.platform.paths import find_paths  # noqa: E402
from baton.platform.settings import load_settings  # noqa: E402
from baton.workers.tools import build_tools  # noqa: E402

SEED = 7
MAX_TOKENS = 256
"""The starter model needs a minute for more on a slow machine, and gets no better by it."""
MAX_SHOWN_LINES = 12
MAX_SHOWN_CHARS = 700

# Asking


class ConfidenceRecorder:
    """Notes the mean log-probability of the last answer that a worker wrote."""

    def __init__(self, worker: Worker) -> None:
        self._stream = worker.stream
        self.confidence: float | None = None

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer as the worker does."""
        async with aclosing(self._stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Usage) and request.purpose is Purpose.ANSWER:
                    self.confidence = chunk.confidence
                yield chunk


@asynccontextmanager
async def fresh_orchestra() -> AsyncIterator[Orchestra]:
    """Give the orchestra of a Baton that was just installed."""
    with tempfile.TemporaryDirectory() as home:
        paths = find_paths({"BATON_HOME": home})
        baton = compose(load_settings(paths.config_file, environ={}), paths)
        try:
            yield baton.orchestra
        finally:
            await baton.aclose()


async def ask_all(prompts: Sequence[EverydayPrompt], out: Path) -> None:
    """Ask each prompt that has no answer in the file yet, and append what came of it."""
    done = read_answers(out)
    waiting = [prompt for prompt in prompts if not is_answered(prompt, done)]
    with out.open("a", encoding="utf-8") as file:
        async with fresh_orchestra() as orchestra:
            starter = orchestra.worker("small")
            recorder = ConfidenceRecorder(starter)
            starter.stream = recorder.stream  # type: ignore[method-assign]
            for number, prompt in enumerate(waiting, start=1):
                recorder.confidence = None
                row = await ask(orchestra, prompt)
                row["confidence"] = recorder.confidence
                print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
                print(f"{number} of {len(waiting)}: {prompt.id}", file=sys.stderr)


def is_answered(prompt: EverydayPrompt, answers: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether there is an answer to a prompt as it is worded now."""
    return prompt.id in answers and answers[prompt.id]["prompt"] == prompt.prompt


async def ask(orchestra: Orchestra, prompt: EverydayPrompt) -> dict[str, Any]:
    """Ask one prompt in a new conversation, and return what `--json` shows of it."""
    view, began = RunView(), time.monotonic()
    limits = PromptLimits(max_tokens=MAX_TOKENS, seed=SEED, attended=False)
    async with orchestra.run(Prompt(prompt.prompt), limits=limits) as run:
        async for event in run:
            view = view.apply(event)
    seconds = time.monotonic() - began
    shown = run_object(view)
    calls = [call for call in shown["calls"] if call["purpose"] == Purpose.ANSWER.value]
    return {
        "id": prompt.id,
        "prompt": prompt.prompt,
        "status": shown["status"],
        "answer": shown["answer"],
        "warnings": shown.get("warnings", []),
        "scores": shown["route"]["scores"] if shown["route"] else {},
        "workers": [call["worker"] for call in calls],
        "tokens": sum(call["tokens_out"] for call in calls),
        "seconds": round(seconds, 2),
    }


def read_answers(file: Path) -> dict[str, dict[str, Any]]:
    """Return what was answered before, by the prompts' ids."""
    if not file.is_file():
        return {}
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {row["id"]: row for row in rows}


# Judging


@dataclass(frozen=True)
class JudgedAnswer:
    """A prompt with its answer as it was recorded, and whether that is right."""

    prompt: EverydayPrompt
    row: Mapping[str, Any]
    is_right: bool

    @property
    def is_marked(self) -> bool:
        """Whether anything was said beside the answer."""
        return bool(self.row["warnings"])


async def judge_all(
    prompts: Sequence[EverydayPrompt], answers: Mapping[str, Mapping[str, Any]]
) -> list[JudgedAnswer]:
    """Return the prompts that are answered, judged by their rules."""
    python = build_tools()["python"]
    try:
        return [
            JudgedAnswer(prompt, row, await is_right(prompt, row["answer"], execute))
            for execute in [code_executor(python)]
            for prompt in prompts
            if is_answered(prompt, answers)
            for row in [answers[prompt.id]]
        ]
    finally:
        await python.aclose()


def outcome(judged: JudgedAnswer) -> dict[str, Any]:
    """Return what the router can learn from, without the text.

    `confidence` is the mean log-probability of the answer's tokens, None for a tool's. `quality` is
    the router's estimate before it, None where the router was too late; `chance` is the rule's.
    """
    row = judged.row
    return {
        "id": judged.prompt.id,
        "kind": judged.prompt.kind,
        "right": judged.is_right,
        "workers": row["workers"],
        "seconds": row["seconds"],
        "tokens": row["tokens"],
        "confidence": _rounded(row["confidence"]),
        "quality": _rounded(row["scores"].get("quality")),
        "chance": _rounded(row["scores"].get("chance")),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def report(judged: Sequence[JudgedAnswer]) -> Iterable[str]:
    """Yield a table by kind: who is right, and who is marked."""
    yield "| kind | prompts | right | marked | wrong, unmarked | right, marked |"
    yield "|---|---|---|---|---|---|"
    for kind in dict.fromkeys(answer.prompt.kind for answer in judged):
        yield _report_line(kind, [answer for answer in judged if answer.prompt.kind == kind])
    yield _report_line("all", judged)


def _report_line(name: str, judged: Sequence[JudgedAnswer]) -> str:
    right = [answer for answer in judged if answer.is_right]
    wrong = [answer for answer in judged if not answer.is_right]
    marked = sum(answer.is_marked for answer in judged)
    unmarked = _share(sum(not answer.is_marked for answer in wrong), len(wrong))
    blamed = _share(sum(answer.is_marked for answer in right), len(right))
    return f"| {name} | {len(judged)} | {len(right)} | {marked} | {unmarked} | {blamed} |"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "none"


# The page to read


def page(judged: Sequence[JudgedAnswer]) -> Iterable[str]:
    """Yield a page of Markdown with the prompts, the answers, and what stood beside them."""
    yield "# Everyday prompts and what Baton answers"
    yield ""
    yield (
        "What a new installation answers without a key, a network or another model: the starter "
        "model and the tools. Long answers are cut here. The verdict is that of the rule "
        "beside the prompt in `scripts/training/router/everyday_held_out.jsonl`. "
        "`scripts/everyday_answers` asks and judges again."
    )
    yield ""
    yield from report(judged)
    for kind in dict.fromkeys(answer.prompt.kind for answer in judged):
        yield ""
        yield f"## {kind.capitalize()}"
        for answer in judged:
            if answer.prompt.kind == kind:
                yield from _page_entry(answer)


def _page_entry(answer: JudgedAnswer) -> Iterable[str]:
    yield ""
    yield f"### {answer.prompt.id}: {'right' if answer.is_right else 'wrong'}"
    yield ""
    yield from _fenced_lines(answer.prompt.prompt)
    yield ""
    yield f"Answered by {', '.join(answer.row['workers']) or 'no worker'}:"
    yield ""
    yield from _fenced_lines(_cut_text(answer.row["answer"]) or "(no answer)")
    yield ""
    if not answer.row["warnings"]:
        yield "Nothing was said beside it."
    for warning in answer.row["warnings"]:
        yield f"Beside it: {warning['message']} {warning['hint']}".rstrip()


def _fenced_lines(text: str) -> Iterable[str]:
    fence = "````" if "```" in text else "```"
    yield f"{fence}text"
    yield from text.splitlines()
    yield fence


def _cut_text(text: str) -> str:
    lines = text.strip()[:MAX_SHOWN_CHARS].splitlines()[:MAX_SHOWN_LINES]
    shown = "\n".join(lines)
    return shown if shown == text.strip() else f"{shown} [...]"


def main() -> None:
    """Ask, judge, and write what was wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the answers, as JSON Lines")
    parser.add_argument("--report", action="store_true", help="ask nothing")
    parser.add_argument("--outcomes", type=Path, help="where who was right is written")
    parser.add_argument("--write", type=Path, help="where the page is written")
    options = parser.parse_args()
    prompts = read_prompts(options.prompts)
    if not options.report:
        asyncio.run(ask_all(prompts, options.out))
    judged = asyncio.run(judge_all(prompts, read_answers(options.out)))
    if options.outcomes:
        _write_lines(options.outcomes, (json.dumps(outcome(answer)) for answer in judged))
    if options.write:
        _write_lines(options.write, page(judged))
    print("\n".join(report(judged)))


def _write_lines(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
