"""The self-test's child: it loads one part of Baton, uses it, and reports what happened.

It speaks the messages of `doctor.messages` on stdin and stdout. Each part is used in a process of
its own: a crash takes nothing with it, and the last PartLoading names the module that caused it.
"""

from __future__ import annotations

import importlib

from baton.doctor.child import PARTS, DoubtfulText
from baton.doctor.messages import REQUESTS, PartLoading, PartUsed
from baton.ipc.messages import Failed
from baton.ipc.parent_channel import ParentChannel, serve


def main() -> None:
    """Use what the first request names, and end when the parent is gone."""
    serve(REQUESTS, _serve)


def _serve(parent: ParentChannel) -> None:
    try:
        text = _use_part(parent, parent.receive().part)
        parent.send(PartUsed(str(text), well=not isinstance(text, DoubtfulText)))
    except BaseException as error:  # a broken part may raise anything
        parent.send(Failed(type(error).__name__, str(error)[:2000]))
    parent.receive()  # the parent ends this process: on its own way out native code could crash


def _use_part(parent: ParentChannel, name: str) -> str:
    part = PARTS[name]
    for module in part.modules:
        parent.send(PartLoading(module))
        importlib.import_module(module)
    parent.send(PartLoading(""))
    return part.use()


if __name__ == "__main__":
    main()
