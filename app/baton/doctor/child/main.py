"""The self-test's child: it loads one part of Baton, lets it work, and tells what it saw.

It speaks frames on stdin and stdout. Frame to it: try, with `what`
naming one of `trials.PARTS`. Frames from it: beat each second; trying (the `module` that is being
loaded), then tried with a `text` and whether all is `well`, or failed with the name of the error
and a message. Each part is tried in a process of its own: whatever crashes takes nothing with it,
and the last `trying` tells what it was.
"""

from __future__ import annotations

import importlib
import os
import queue

from baton.doctor.child import PARTS, DoubtfulText
from baton.ipc import frames
from baton.ipc.parent_channel import Front, keep_quiet_and_private, take_pipes


def main() -> None:
    """Try what the first frame names, and end when the front is gone."""
    keep_quiet_and_private()
    inbox: queue.SimpleQueue[frames.Frame] = queue.SimpleQueue()
    front = Front(*take_pipes(), inbox.put)
    try:
        text = _use_part(front, inbox.get()["what"])
        front.send("tried", text=text, well=not isinstance(text, DoubtfulText))
    except BaseException as error:  # whatever a broken part raises is what we are here for
        front.send("failed", error=type(error).__name__, message=str(error)[:2000])
    inbox.get()  # the front ends this process: on its own way out native code could still crash
    os._exit(0)


def _use_part(front: Front, what: str) -> str:
    part = PARTS[what]
    for module in part.modules:
        front.send("trying", module=module)
        importlib.import_module(module)
    front.send("trying", module="")
    return part.use()


if __name__ == "__main__":
    main()
