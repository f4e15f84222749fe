"""The scorer: a child process that holds the trained router and answers in milliseconds.

`python -m baton.ipc.child_entry scorer` speaks frames on stdin and stdout. Frames to it:

    load      folder, learned (the person's own file, or null), threads
    estimate  id, text, candidates
    judge     id, text, candidates, drafts, estimate (or null)
    likeness  id, texts
    turns     id, text, position, workers
    rated     rated: labels for the next `learn`, some at a time
    learn     id, target
    cancel    id: that answer is no longer needed

Frames from it: beat each second; loaded with what runs where; done with an id and a value; stopped
with the id of what was cancelled before its turn; failed with the name of the error that the front
raises, and the id of what it answers, if any. It holds no secret, connects nowhere, writes nothing
but the file named by `learn`, and ends at once when its front does.
"""

from __future__ import annotations

import os
import queue
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.core.routing_types import Candidate, Draft, Estimate, RatedAnswer
from baton.ipc import frames
from baton.ipc.parent_channel import Failure, Front, keep_quiet_and_private, take_pipes

if TYPE_CHECKING:
    from baton.routing.child.router_model import RouterModel

_ACCELERATORS = ("CUDAExecutionProvider", "CoreMLExecutionProvider", "DmlExecutionProvider")
_CPU_PROVIDER = "CPUExecutionProvider"

_SAMPLE_TEXT = "Which of these numbers is prime, and why are the others not? 51, 57, 59, 63. " * 3
"""About 64 tokens: what is measured with."""

_SAMPLE_COUNT = 5


class RequestQueue:
    """What the front asks for, in its order; what it has taken back meanwhile is known."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[frames.Frame] = queue.SimpleQueue()
        self._cancelled: set[int] = set()

    def put(self, frame: frames.Frame) -> None:
        """Take a frame; a cancellation is noted at once."""
        if frame["type"] == "cancel":
            self._cancelled.add(frame["id"])
        else:
            self._work.put(frame)

    def get(self) -> frames.Frame:
        """Return the next frame that asks for something."""
        return self._work.get()

    def take_cancellation(self, number: int) -> bool:
        """Whether that answer was cancelled; a cancellation is reported once."""
        if number not in self._cancelled:
            return False
        self._cancelled.discard(number)
        return True


class Scorer:
    """Holds one trained router, and answers one question after the other."""

    def __init__(self, front: Front, inbox: RequestQueue) -> None:
        self._front = front
        self._requests = inbox
        self._model: RouterModel | None = None
        self._rated: list[RatedAnswer] = []

    def serve(self) -> None:
        """Answer until the front is gone."""
        while True:
            self._answer(self._requests.get())

    def _answer(self, frame: frames.Frame) -> None:
        number = frame.get("id", 0)
        if self._requests.take_cancellation(number):
            self._front.send("stopped", id=number)
            return
        try:
            match frame["type"]:
                case "load":
                    self._load(frame)
                case "rated":
                    self._rated += [_decode_rated(one) for one in frame["rated"]]
                case kind:
                    value = _HANDLERS[kind](self, frame)
                    self._front.send("done", id=number, value=value)
        except Failure as failure:
            self._front.send("failed", id=number, **failure.fields)
        except Exception as error:
            traceback.print_exc(limit=-3)
            message = f"The router failed on this ({type(error).__name__})."
            self._front.send("failed", id=number, error="WorkerError", message=message, hint="")

    def _load(self, frame: frames.Frame) -> None:
        available = _available_accelerators()
        folder, threads = Path(frame["folder"]), frame["threads"]
        learned = Path(frame["learned"]) if frame["learned"] else None
        if learned is not None and not learned.exists():
            learned = None
        model, note = _load_model(folder, learned, threads)

        def load(provider: str) -> RouterModel:
            from baton.routing.child.router_model import RouterModel

            return RouterModel.load(
                folder, None if note else learned, threads, [provider, _CPU_PROVIDER]
            )

        self._model, provider = _pick_fastest(model, available, load)
        self._front.send(
            "loaded",
            provider=provider.removesuffix("ExecutionProvider"),
            learned=learned is not None and not note,
            note=note,
        )

    @property
    def _loaded_model(self) -> RouterModel:
        if self._model is None:
            raise Failure("WorkerUnavailable", "The router isn't loaded.")
        return self._model

    def _estimate(self, frame: frames.Frame) -> dict[str, Any]:
        return asdict(self._loaded_model.estimate(frame["text"], _decode_candidates(frame)))

    def _judge(self, frame: frames.Frame) -> dict[str, Any]:
        drafts = [Draft(**draft) for draft in frame["drafts"]]
        estimate = Estimate(**frame["estimate"]) if frame["estimate"] else None
        judgement = self._loaded_model.judge(
            frame["text"], _decode_candidates(frame), drafts, estimate
        )
        return asdict(judgement)

    def _likeness(self, frame: frames.Frame) -> Sequence[Sequence[float]]:
        return self._loaded_model.likeness(frame["texts"])

    def _turns(self, frame: frames.Frame) -> Sequence[Sequence[float]]:
        return self._loaded_model.score_turns(frame["text"], frame["position"], frame["workers"])

    def _learn(self, frame: frames.Frame) -> dict[str, Any]:
        rated, self._rated = self._rated, []
        return asdict(self._loaded_model.learn(rated, Path(frame["target"])))


_HANDLERS: dict[str, Callable[[Scorer, frames.Frame], object]] = {
    "estimate": Scorer._estimate,
    "judge": Scorer._judge,
    "likeness": Scorer._likeness,
    "turns": Scorer._turns,
    "learn": Scorer._learn,
}


def _decode_candidates(frame: frames.Frame) -> list[Candidate]:
    return [Candidate(**candidate) for candidate in frame["candidates"]]


def _decode_rated(fields: frames.Frame) -> RatedAnswer:
    return RatedAnswer(**{**fields, "worker": Candidate(**fields["worker"])})


def _available_accelerators() -> list[str]:
    """Import what the router runs on; return what here could be faster than the processor."""
    try:
        import onnxruntime

        import baton.routing.child.router_model  # noqa: F401 (numpy and tokenizers, in the same try)
    except Exception as error:  # a library that can't be loaded says so in many ways
        raise Failure(
            "WorkerUnavailable",
            f"What the router runs on can't be loaded: {error}.",
            "Run `scripts/baton` once with a network, or reinstall Baton.",
        ) from error
    onnxruntime.disable_telemetry_events()
    there = onnxruntime.get_available_providers()
    return [name for name in _ACCELERATORS if name in there]


def _load_model(folder: Path, learned: Path | None, threads: int) -> tuple[RouterModel, str]:
    """Load the shipped router with what was learned; without it, and a sentence, if that fails."""
    from baton.routing.child.router_model import RouterFileError, RouterModel

    note = ""
    if learned is not None:
        try:
            return RouterModel.load(folder, learned, threads, [_CPU_PROVIDER]), ""
        except Exception:  # broken in any way: the shipped one is there
            traceback.print_exc(limit=-1)
            note = f"What was learned from your answers can't be used: {learned} is broken, or of "
            note += "another version of Baton. `baton learn` replaces it."
    try:
        return RouterModel.load(folder, None, threads, [_CPU_PROVIDER]), note
    except RouterFileError as error:
        raise Failure(
            "ModelFileError",
            f"The router's own files can't be used: {_explain_load_error(error, folder)}.",
            "Get it again: `git checkout models/router` in a checkout, else reinstall Baton.",
        ) from error


def _explain_load_error(error: Exception, folder: Path) -> str:
    """Say what is wrong with the router's files; not in numpy's words, which advise to trust it."""
    cause = error.__cause__
    if cause is None:
        return str(error).rstrip(".")
    if isinstance(cause, OSError) and cause.filename and cause.strerror:
        return f"{cause.filename}: {cause.strerror}"
    return f"one in {folder} is broken"


def _pick_fastest(
    model: RouterModel, there: Sequence[str], load: Callable[[str], RouterModel]
) -> tuple[RouterModel, str]:
    """Return the model on what runs it fastest here, and what that is.

    A small encoder is often no faster on a GPU, so it is tried.
    """
    if not there:
        return model, _CPU_PROVIDER
    best = (_median_seconds(model), model, _CPU_PROVIDER)
    for provider in there:
        try:
            other = load(provider)
            best = min(best, (_median_seconds(other), other, provider), key=lambda one: one[0])
        except Exception:  # its driver isn't there, or it can't run this
            traceback.print_exc(limit=-1)
    return best[1:]


def _median_seconds(model: RouterModel) -> float:
    """Return how many seconds a question takes once it is warm: the median of a few."""
    candidates = [Candidate("here", "qwen2.5-7b", 7.0), Candidate("there", "gpt-4o", outside=True)]
    times = []
    for _ in range(_SAMPLE_COUNT):
        began = time.perf_counter()
        model.estimate(_SAMPLE_TEXT, candidates)
        times.append(time.perf_counter() - began)
    return sorted(times)[_SAMPLE_COUNT // 2]


def main() -> None:
    """Run until the front is gone."""
    keep_quiet_and_private()
    status = 1
    inbox = RequestQueue()
    try:
        Scorer(Front(*take_pipes(), inbox.put), inbox).serve()
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)  # past onnxruntime's own clean-up, which may wait for a GPU


if __name__ == "__main__":
    main()
