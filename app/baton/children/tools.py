"""The tools: a child process that computes, and runs code that nobody trusts in a jail.

`python -m baton.children.tools` speaks frames on stdin and stdout. Frames to it:

    call    id, tool (calculator, clock or python), text, seconds
    cancel  id
    info    id

Frames from it: beat each second; done with an id and a text (for info, which sandbox is in force),
or failed with an id and the name of the error that the front shall raise. It holds no secret,
connects nowhere, and ends at once when its front does.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
import warnings
from contextlib import suppress

from baton.children import framing, jail
from baton.children.arithmetic import CannotCompute
from baton.children.front import Failure, Front, keep_quiet_and_private, take_pipes


class Tools:
    """Answers calls, each in a thread of its own: the front makes a few at a time."""

    def __init__(self, jailer: jail.Jailer | None) -> None:
        self._jailer = jailer
        self._work: queue.SimpleQueue[framing.Frame] = queue.SimpleQueue()
        self._front = Front(*take_pipes(), self._take)

    def serve(self) -> None:
        """Work until the front is gone."""
        while True:
            threading.Thread(target=self._answer, args=(self._work.get(),), daemon=True).start()

    def _take(self, frame: framing.Frame) -> None:
        if frame["type"] != "cancel":
            self._work.put(frame)
        elif self._jailer is not None:
            self._jailer.cancel(frame["id"])

    def _answer(self, frame: framing.Frame) -> None:
        number = frame["id"]
        if frame["type"] == "info":
            self._front.send("done", id=number, text=jail.about(self._jailer))
            return
        try:
            text = self._computed(frame)
        except Failure as failure:
            self._front.send("failed", id=number, **failure.fields)
        else:
            self._front.send("done", id=number, text=text)

    def _computed(self, frame: framing.Frame) -> str:
        try:
            match frame["tool"]:
                case "calculator":
                    from baton.children.calculator import calculate

                    return calculate(frame["text"])
                case "clock":
                    from baton.children.clock import tell

                    return tell(frame["text"])
            return self._run(frame)
        except CannotCompute as error:
            raise Failure("WorkerError", str(error)) from error
        except Failure:
            raise
        except Exception as error:
            traceback.print_exc(limit=-3)
            raise Failure("WorkerError", f"The {frame['tool']} failed on this.") from error

    def _run(self, frame: framing.Frame) -> str:
        if self._jailer is None:
            raise Failure("WorkerError", "There is no sandbox here, so no code is executed.")
        return self._jailer.run(frame["id"], frame["text"], float(frame["seconds"]))


def main() -> None:
    """Run until the front is gone."""
    keep_quiet_and_private()
    warnings.simplefilter("ignore")
    with suppress(OSError):
        os.chdir("/")
    try:
        # The jailer is a fork of this process while it has one thread and knows nothing.
        Tools(jail.Jailer.start()).serve()
    except Exception:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
