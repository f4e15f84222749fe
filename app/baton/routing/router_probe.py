"""What the doctor asks of the router: whether it answers, on what it runs, and how fast."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from baton.core.routing_types import Candidate
from baton.routing.learned_router import LearnedRouter
from baton.routing.router_files import shipped
from baton.routing.scorer_process import Limits

_PROMPT = "Which of these numbers are prime, and why are the others not: 51, 57, 59, 63, 71? " * 2
"""Some 64 tokens."""

_WORKERS = (Candidate("here", "qwen2.5-7b", 7.0), Candidate("there", "gpt-4o", 0.0, 10.0, True))

_TIMES = 21

_PATIENT = Limits(warm=10.0, cold=60.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found: why it doesn't answer, or how fast it does, the pipes included."""

    trouble: str = ""
    note: str = ""
    provider: str = ""
    learned: bool = False
    milliseconds: float = 0.0


async def measure(
    learned: Path, folder: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Measured:
    """Start the router in a child of its own and ask it a few times."""
    router = LearnedRouter(folder or shipped(), learned, limits=_PATIENT, environ=environ)
    said: list[str] = []
    router.tell = said.append
    times = []
    try:
        for n in range(_TIMES):
            began = time.perf_counter()
            answered = await router.estimate(f"{_PROMPT}{n}", _WORKERS)
            if answered is None:
                return Measured(router.trouble or "The router doesn't answer in time.")
            times.append(time.perf_counter() - began)
        assert router.loaded is not None
        return Measured(
            note=" ".join(said),
            provider=router.loaded.provider,
            learned=router.loaded.learned,
            milliseconds=sorted(times)[_TIMES // 2] * 1000,
        )
    finally:
        await router.aclose()
