"""The scorer: a child process that holds the trained router and answers in milliseconds.

The child `scorer` speaks the messages of `routing.messages` on stdin and
stdout. It holds no secret, connects nowhere, writes nothing, and ends at once when its parent does.
"""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.routing_types import Candidate
from baton.ipc.messages import Failed, FinalReply, Message, Stopped
from baton.ipc.parent_channel import Failure, ParentChannel, connect_parent
from baton.routing.messages import (
    REQUESTS,
    CompareTexts,
    EmbedText,
    EstimateQuality,
    EstimateReply,
    JudgeDrafts,
    JudgementReply,
    LoadRouter,
    RouterLoaded,
    ScoreTurns,
    TableReply,
    VectorReply,
)

if TYPE_CHECKING:
    from baton.routing.child.router_model import RouterModel

_ACCELERATORS = ("CUDAExecutionProvider", "CoreMLExecutionProvider", "DmlExecutionProvider")
_CPU_PROVIDER = "CPUExecutionProvider"

_SAMPLE_TEXT = "Which of these numbers is prime, and why are the others not? 51, 57, 59, 63. " * 3
"""About 64 tokens: what is measured with."""

_SAMPLE_COUNT = 5


class Scorer:
    """Holds one trained router, and answers one question after the other."""

    def __init__(self, parent: ParentChannel) -> None:
        self._parent = parent
        self._model: RouterModel | None = None

    def serve(self) -> None:
        """Answer until the parent is gone."""
        while True:
            self._answer(self._parent.receive())

    def _answer(self, request: Message) -> None:
        if self._parent.is_cancelled(request.id):
            self._parent.send(Stopped(id=request.id))
            return
        try:
            match request:
                case LoadRouter():
                    self._load(request)
                case _:
                    reply = self._reply(request)
                    reply.id = request.id
                    self._parent.send(reply)
        except Failure as failure:
            self._parent.send(failure.reply(request.id))
        except Exception as error:
            traceback.print_exc(limit=-3)
            message = f"The router failed on this ({type(error).__name__})."
            self._parent.send(Failed("WorkerError", message, id=request.id))

    def _load(self, request: LoadRouter) -> None:
        available = _available_accelerators()
        from baton.routing.child.router_model import RouterFileError, RouterModel

        folder = request.folder
        try:
            model = RouterModel.load(folder)
        except RouterFileError as error:
            raise Failure(
                "ModelFileError",
                f"The router's own files can't be used: {_explain_load_error(error, folder)}.",
                "Get it again: `git checkout models/router` in a checkout, else reinstall Baton.",
            ) from error
        self._model, provider = _pick_fastest(
            model, available, lambda name: RouterModel.load(folder, name)
        )
        gc.enable()
        self._parent.send(RouterLoaded(provider.removesuffix("ExecutionProvider")))

    def _reply(self, request: Message) -> FinalReply:
        model = self._model
        if model is None:
            raise Failure("WorkerUnavailable", "The router isn't loaded.")
        match request:
            case EstimateQuality():
                return EstimateReply(model.estimate(request.text, request.candidates))
            case JudgeDrafts(text=text, candidates=candidates):
                found = model.judge(text, candidates, request.drafts, request.estimate)
                return JudgementReply(found)
            case CompareTexts(texts=texts):
                return TableReply([list(row) for row in model.likeness(texts)])
            case EmbedText(text=text):
                return VectorReply(model.embed(text))
            case ScoreTurns(text=text, position=position, workers=workers):
                return TableReply([list(row) for row in model.score_turns(text, position, workers)])
        raise AssertionError(f"nothing answers {type(request).__name__}")


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


def _import_early() -> None:
    with suppress(Exception):
        import_module("onnxruntime")
        import_module("baton.routing.child.router_model")


def main() -> None:
    """Run until the parent is gone."""
    with connect_parent(REQUESTS) as parent:
        gc.disable()  # imports leave nothing to free, and it is a tenth of their time
        # While the parent prepares its order; an error here is met again by what needs them.
        threading.Thread(target=_import_early, daemon=True).start()
        Scorer(parent).serve()


if __name__ == "__main__":
    main()
