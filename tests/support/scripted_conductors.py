"""What scripted conductors need: tools that change nothing, and plans as a model writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from baton.core.planning.plan_lines import PlanPart
from baton.core.planning.request_parts import CheckedPart


class PlainTools:
    """Marks nothing, and finds nothing wrong (core.planning.request_parts.RequestTools)."""

    def warm(self) -> None:
        """Nothing takes long here."""

    async def mark(self, request: str) -> str:
        return request

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        return [CheckedPart(part.text, "", part.text) for part in parts]


def plan_text(*steps: tuple[str, str, Sequence[int]]) -> str:
    """Return a plan as a language conductor writes it: kind, task, and what it uses."""
    rows = [
        {"kind": kind, "difficulty": 1, "sees": [] if uses or kind == "calculation" else ["prompt"],
         "uses": list(uses), "check": False, "task": task}
        for kind, task, uses in steps
    ]  # fmt: skip
    return json.dumps({"steps": rows, "answer": list(range(1, len(rows) + 1))})
