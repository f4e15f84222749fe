"""What the tools' process does for the conductor: it marks requests and checks their parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from baton.core.errors import WorkerError
from baton.core.plan.plan_lines import TOOL_HEADS, PlanPart
from baton.core.plan.request_parts import CheckedPart
from baton.workers.tools.worker import QUICK_SECONDS, Toolbox

_HEADS = {tool: head for head, tool in TOOL_HEADS.items()}


class RequestReader:
    """Reads requests in the tools' process (core.plan.request_parts.RequestTools)."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    def warm(self) -> None:
        """Start the tools' process."""
        with suppress(WorkerError):  # the first request meets it again, and tells
            self._toolbox.running()

    async def mark(self, request: str) -> str:
        """Return a request with its literals in plain form. Raises WorkerError."""
        found = json.loads(await self._toolbox.compute("mark", request, QUICK_SECONDS))
        return str(found["text"])

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        """Return the parts as subtasks, then what the plan omits. Raises WorkerError."""
        asked: dict[str, Any] = {
            "request": request,
            "parts": [
                {"tool": _HEADS.get(part.tool, ""), "text": part.text, "inputs": part.inputs}
                for part in parts
            ],
        }
        found = json.loads(await self._toolbox.compute("check", json.dumps(asked), QUICK_SECONDS))
        if len(found) < len(parts):
            raise WorkerError("The tools' process gave an invalid reply.")
        return [
            CheckedPart(
                str(part["text"]),
                str(part["problem"]),
                str(part["words"]),
                bool(part["refers"]),
            )
            for part in found
        ]
