"""A real, short generation: the proof that a worker works."""

from __future__ import annotations

from dataclasses import dataclass

from baton.compose import compose
from baton.domain.chat import Prompt
from baton.domain.errors import BY_NAME, BatonError
from baton.domain.view import RunView
from baton.engine.policy import Limits
from baton.settings import Paths, Settings

TOKENS = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """What a worker wrote, on what, and how quickly (`seconds` in all, `loading` of them)."""

    text: str
    tokens: int
    seconds: float
    loading: float
    hardware: str


async def try_out(settings: Settings, paths: Paths, worker: str | None) -> Trial:
    """Let a worker write a few tokens, of which nothing is kept. Raises what the worker raised."""
    baton = compose(settings, paths, history=False)
    try:
        prompt, limits = Prompt("Say hello."), Limits(max_tokens=TOKENS, alone=True)
        view = RunView()
        async with baton.orchestra.play(prompt, limits=limits, worker=worker) as run:
            async for event in run:
                view = view.apply(event)
        hardware = baton.orchestra.worker(worker).card.hardware
    finally:
        await baton.aclose()
    if (failed := view.failure) is not None:
        raise BY_NAME.get(failed.error, BatonError)(failed.message, failed.hint)
    call = view.calls[-1]
    return Trial(view.answer, call.tokens_out, call.seconds, call.loading, hardware)
