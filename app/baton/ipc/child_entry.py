"""Starts a child process by its name: `python -m baton.ipc.child_entry NAME`."""

from __future__ import annotations

import sys
from importlib import import_module

from baton.platform.import_stubs import import_without

MODULES = {
    "fetcher": "baton.download.child.main",
    "lender": "baton.ipc.lender",
    "library_loader": "baton.doctor.child.library_loader",
    "gateway": "baton.workers.cloud.child.main",
    "network_watch": "baton.doctor.child.network_watch",
    "runner": "baton.workers.local.child.main",
    "scorer": "baton.routing.child.main",
    "tools": "baton.workers.tools.child.main",
}
"""The module whose `main` each child process runs."""


def run_child(arguments: list[str]) -> None:
    """Run the child that the only argument names, until it ends."""
    if len(arguments) != 1 or arguments[0] not in MODULES:
        sys.exit("baton: there is no such child process")
    import_without("typing_extensions", "msgspec")
    import_module(MODULES[arguments[0]]).main()


if __name__ == "__main__":
    run_child(sys.argv[1:])
