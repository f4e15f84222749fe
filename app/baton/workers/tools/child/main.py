"""The tools: a child process that runs untrusted code in a sandbox, and marks requests.

Marking is here because number words are read by native code, and because it may take a second.

The child `tools` speaks the messages of `workers.tools.messages` on stdin
and stdout. It holds no secret, connects nowhere, and ends at once when its parent does.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
import warnings
from contextlib import suppress

from baton.ipc.messages import Cancel, Message
from baton.ipc.parent_channel import Failure, ParentChannel, keep_quiet_and_private, take_pipes
from baton.workers.tools.child import sandbox_host
from baton.workers.tools.messages import REQUESTS, CodeReply, MarkReply, MarkText, RunCode


class ToolServer:
    """Answers calls, each in a thread of its own: the front makes a few at a time."""

    def __init__(self, host: sandbox_host.SandboxHost | None) -> None:
        self._host = host
        self._work: queue.SimpleQueue[RunCode | MarkText] = queue.SimpleQueue()
        self._parent = ParentChannel(*take_pipes(), REQUESTS, self._take)

    def serve(self) -> None:
        """Work until the parent is gone."""
        while True:
            threading.Thread(target=self._answer, args=(self._work.get(),), daemon=True).start()

    def _take(self, message: Message) -> None:
        match message:
            case RunCode() | MarkText():
                self._work.put(message)
            case Cancel(id=number) if self._host is not None:
                self._host.cancel(number)

    def _answer(self, request: RunCode | MarkText) -> None:
        try:
            reply = self._reply(request)
        except Failure as failure:
            self._parent.send(failure.reply(request.id))
        except Exception:
            traceback.print_exc(limit=-3)
            message = "The tool process failed on this."
            self._parent.send(Failure("WorkerError", message).reply(request.id))
        else:
            reply.id = request.id
            self._parent.send(reply)

    def _reply(self, request: RunCode | MarkText) -> CodeReply | MarkReply:
        if isinstance(request, RunCode):
            if self._host is None:
                raise Failure("WorkerError", "There is no sandbox here, so no code is executed.")
            return CodeReply(self._host.run(request.id, request.text, request.seconds))
        from baton.workers.tools.computation.marked_text import mark

        return MarkReply(mark(request.text, request.language))


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
