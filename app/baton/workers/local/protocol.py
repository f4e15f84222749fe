"""What a runner says, read with care: a child is as trustworthy as its model file."""

from __future__ import annotations

from baton.core.errors import (
    BatonError,
    ContextTooLong,
    ModelFileError,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.messages import Chunk, Finish, Loading, Reading, Text, Thinking, Usage, Writing
from baton.core.sanitiser import one_line
from baton.ipc.frames import Frame
from baton.ipc.process import Died


class Unfit(ModelFileError):
    """An adapter that can't be put on the model."""


def chunk_of(frame: Frame) -> Chunk:
    """Read what a child says while it answers. Raises Died if that makes no sense."""
    match frame:
        case {"type": "text", "text": str(text), "tokens": int(tokens)}:
            return Text(text, tokens)
        case {"type": "speed", "tokens_per_second": float(speed)}:
            return Writing(speed)
        case {"type": "thinking", "tokens": int(tokens), "tokens_per_second": float(speed)}:
            return Thinking(tokens, speed)
        case {"type": "reading", "done": int(done), "total": int(total)}:
            return Reading(done, total)
        case {"type": "loading", "fraction": float(fraction)}:
            return Loading(min(max(fraction, 0.0), 1.0))
        case {
            "type": "done",
            "tokens_in": int(tokens_in),
            "tokens_out": int(tokens_out),
            "finish": "stop" | "length" as finish,
            "cached": int(cached),
            "context": int(context),
            "confidence": float() | None as confidence,
            "lines": [*lines],
        } if all(isinstance(line, float) for line in lines):
            counted = (tokens_in, tokens_out, Finish(finish), cached, context)
            return Usage(*counted, confidence=confidence, lines=tuple(lines))
    raise Died("It sent an invalid reply.")


def error_of(frame: Frame) -> BatonError:
    """Turn a child's failure into the error it stands for."""
    match frame:
        case {"error": "ContextTooLong", "needed": int(needed), "limit": int(limit)}:
            return ContextTooLong(needed, limit)
        case {"error": str(name), "message": str(message), "hint": str(hint)}:
            kinds: dict[str, type[BatonError]] = {
                "ModelFileError": ModelFileError,
                "WorkerUnavailable": WorkerUnavailable,
                "Unfit": Unfit,
            }
            return kinds.get(name, WorkerError)(one_line(message, 500), one_line(hint, 500))
    return WorkerError("The model failed without saying why.", "Try again.")
