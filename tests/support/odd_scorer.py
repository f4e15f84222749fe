"""The scorer's child process around a model that does what the prompt says, good or bad.

Run as a script by tests of what the front makes of it.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from baton.core.routing_types import (
    Candidate,
    Draft,
    Estimate,
    Judgement,
    TextVector,
)
from baton.routing.child import RouterFileError

ODD: dict[str, Any] = {
    "nan": float("nan"),
    "huge": 1e400,
    "text": "0.5",
    "none": None,
}


class OddModel:
    """Holds remote workers for much better; a prompt says what else it does."""

    @classmethod
    def load(cls, folder: Path, provider: str = "") -> OddModel:
        """Do what the folder's name says."""
        if folder.name == "late":
            time.sleep(0.5)
        if folder.name in ("broken", "late"):
            raise RouterFileError("it is broken")
        if folder.name == "slow":
            time.sleep(1)
        if folder.name == "dying":
            os.abort()
        return cls()

    def estimate(self, text: str, candidates: Sequence[Candidate]) -> Estimate:
        """Answer as the text wants it."""
        _act(text)
        quality = {c.id: 0.95 if c.outside else 0.4 for c in candidates}
        gain = {c.id: quality[c.id] - quality[candidates[0].id] for c in candidates}
        if text in ODD:
            quality[candidates[0].id] = ODD[text]
        if text == "stranger":
            quality["stranger"] = 1.0
        if text == "missing":
            quality.clear()
        kinds = {"reasoning": 0.9, "chat": 0.1} if text != "kinds" else {"sorcery": 1.0}
        most: Any = {"endless": float("inf"), "unsaid": "many"}.get(text, 3 * len(text))
        return Estimate(kinds, quality, gain, {}, len(text), 0.0, most)

    def judge(
        self,
        text: str,
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate | None,
    ) -> Judgement:
        """Prefer the last draft."""
        _act(text)
        best = 99 if text == "invalid" else len(drafts) - 1
        chances = {c.id: 0.25 if estimate else 0.5 for c in candidates}
        return Judgement(tuple(0.5 for _ in drafts), best, chances, 1.0)

    def likeness(self, texts: Sequence[str]) -> list[list[float]]:
        """Say that all are half alike."""
        _act(texts[0])
        return [[0.5] * len(texts) for _ in texts[texts[0] == "invalid" :]]

    def embed(self, text: str) -> TextVector:
        """Return a vector, or what is none."""
        _act(text)
        whole = struct.pack("<384f", *[0.0] * 383, 1.0)
        odd = {"short": whole[4:], "nan": struct.pack("<384f", *[math.nan] * 384), "long": b""}
        return TextVector(odd.get(text, whole), 9_000 if text == "long" else 3)


def _act(text: str) -> None:
    what, _, seconds = text.partition(" ")
    if what == "sleep":
        time.sleep(float(seconds))
    if what == "die":
        os.abort()
    if what == "raise":
        raise ValueError("as asked")


if __name__ == "__main__":
    stand_in = ModuleType("baton.routing.child.router_model")
    stand_in.__dict__.update(RouterModel=OddModel, RouterFileError=RouterFileError)
    sys.modules[stand_in.__name__] = stand_in
    from baton.routing.child import main

    main.main()
