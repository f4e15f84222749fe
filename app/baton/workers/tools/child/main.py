"""The tools: a child process that computes, and runs untrusted code in a sandbox.

`python -m baton.ipc.child_entry tools` speaks the messages of `workers.tools.messages` on stdin
and stdout. It holds no secret, connects nowhere, and ends at once when its parent does.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
import warnings
from contextlib import suppress

from baton.ipc.messages import Cancel, Message
from baton.ipc.parent_channel import (
    Failure,
    ParentChannel,
    keep_quiet_and_private,
    take_pipes,
)
from baton.workers.tools.child import sandbox_host
from baton.workers.tools.computation import CannotCompute
from baton.workers.tools.messages import REQUESTS, RunTool, ToolReply


class ToolServer:
    """Answers calls, each in a thread of its own: the front makes a few at a time."""

    def __init__(self, host: sandbox_host.SandboxHost | None) -> None:
        self._host = host
        self._work: queue.SimpleQueue[RunTool] = queue.SimpleQueue()
        self._parent = ParentChannel(*take_pipes(), REQUESTS, self._take)

    def serve(self) -> None:
        """Work until the parent is gone."""
        while True:
            threading.Thread(target=self._answer, args=(self._work.get(),), daemon=True).start()

    def _take(self, message: Message) -> None:
        match message:
            case RunTool():
                self._work.put(message)
            case Cancel(id=number) if self._host is not None:
                self._host.cancel(number)

    def _answer(self, request: RunTool) -> None:
        try:
            text = self._computed(request)
        except Failure as failure:
            self._parent.send(failure.reply(request.id))
        else:
            self._parent.send(ToolReply(text, id=request.id))
        if request.tool == "mark":  # the conductor writes now, and its plan will be checked
            from baton.workers.tools.computation import plan_steps

            plan_steps.import_libraries()

    def _computed(self, request: RunTool) -> str:
        try:
            if request.tool == "python":
                return self._run_code(request)
            return _exact(request.tool, request.text)
        except CannotCompute as error:
            raise Failure("WorkerError", str(error)) from error
        except Failure:
            raise
        except Exception as error:
            traceback.print_exc(limit=-3)
            raise Failure("WorkerError", f"The {request.tool} failed on this.") from error

    def _run_code(self, request: RunTool) -> str:
        if self._host is None:
            raise Failure("WorkerError", "There is no sandbox here, so no code is executed.")
        return self._host.run(request.id, request.text, request.seconds)


def _exact(tool: str, text: str) -> str:
    """Return what a tool that computes or marks makes of a text. Raises CannotCompute."""
    from baton.workers.tools.computation import plan_steps

    match tool:
        case "mark":
            return json.dumps(plan_steps.mark_request(text))
        case "check":
            asked = json.loads(text)
            return json.dumps(plan_steps.check_parts(asked["request"], asked["parts"]))
    return compute(tool, text)


def compute(tool: str, text: str) -> str:
    """Return what an expression, a written sum or conversion, or a claim comes to.

    Raises CannotCompute.
    """
    from baton.workers.tools.computation import NotAnExpression
    from baton.workers.tools.computation.plan_steps import compute_step, compute_written
    from baton.workers.tools.computation.written_expression import judge_claims
    from baton.workers.tools.question_text import question_candidates

    try:
        return compute_step(_EXPRESSIONS[tool], text)
    except NotAnExpression:
        reason = CannotCompute(f"There is no expression in this that the {tool} tool can read.")
    except CannotCompute as error:
        reason = error
    candidates = list(question_candidates(text))
    for candidate in candidates:
        try:
            return compute_written(_EXPRESSIONS[tool], candidate, text)
        except NotAnExpression:
            continue
        except CannotCompute as error:
            reason = error
    for candidate in candidates if tool == "calculator" else ():
        with suppress(CannotCompute):
            return judge_claims(candidate)
    raise reason


_EXPRESSIONS = {"calculator": "calc", "units": "units", "clock": "clock"}


def main() -> None:
    """Run until the front is gone."""
    keep_quiet_and_private()
    warnings.simplefilter("ignore")
    with suppress(OSError):
        os.chdir("/")
    try:
        # The sandbox host is a fork of this process while it has one thread and knows nothing.
        ToolServer(sandbox_host.SandboxHost.start()).serve()
    except Exception:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
