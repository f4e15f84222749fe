"""How likely each task kind is for a part: what the plan says, mixed with what its words look like.

The plan is right about the kind of three parts in four. The router's kind head alone is right less
often, but shows which other kinds are likely, so a worker isn't chosen for one kind alone.
"""

from __future__ import annotations

from dataclasses import replace

import gym
import numpy as np

from baton.core.plan_types import KINDS
from baton.routing import shipped_folder
from baton.routing.child.router_model import KindHead
from baton.routing.child.text_features import Encoder, text_features

SAID = 0.6
"""The share of the kind that the plan says."""

LEAST = 0.02
"""A kind less likely than this is left out."""


class KindReader:
    """Reads texts with the router's encoder and kind head."""

    def __init__(self) -> None:
        folder = shipped_folder()
        self._encoder, self._head = Encoder(folder), KindHead.load(folder)

    def task(self, task: gym.Task, text: str) -> gym.Task:
        """Return a task, whose text this is, with how likely each kind is."""
        return task if task.computable else replace(task, kinds=self._likely(task.kind, text))

    def _likely(self, said: str, text: str) -> tuple[tuple[str, float], ...]:
        vectors = self._encoder.vectors([text]).astype(np.float64)
        (chances,) = self._head.chances(
            [text], vectors, np.array([text_features(text)], np.float64)
        )
        mixed = zip(KINDS, (1 - SAID) * chances, strict=True)
        shares = [(kind, float(share) + SAID * (kind == said)) for kind, share in mixed]
        kept = [(kind, share) for kind, share in shares if share >= LEAST]
        total = sum(share for _, share in kept)
        return tuple((kind, share / total) for kind, share in kept)
