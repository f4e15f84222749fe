"""Loads the modules that a JSON list on stdin names, and prints the name of each before it does.

The child `library_loader`. Where it ends early, the last line is the culprit.
"""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Load them all, and end at once: on its way out compiled code could crash."""
    names = json.loads(sys.stdin.read())
    with os.fdopen(os.dup(1), "w") as lines:
        os.dup2(2, 1)  # for what libraries print
        for name in names:
            print(name, file=lines, flush=True)
            importlib.import_module(name)
        os._exit(0)


if __name__ == "__main__":
    main()
