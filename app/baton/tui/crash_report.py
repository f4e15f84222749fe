"""What happens when Baton itself has a bug: a short report in a file, without personal data.

Textual's own crash screen prints local variables, which may hold prompts and keys.
"""

from __future__ import annotations

import os
import platform
import time
import traceback
from pathlib import Path

from baton import __version__
from baton.platform.durable_files import make_folder, replace_file


def write_report(folder: Path, error: BaseException) -> Path:
    """Write what is needed to find the bug, readable by the owner only; return where it is.

    Neither local variables nor the messages of errors are in it: those quote what was worked on.
    """
    make_folder(folder)
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    system = f"{platform.system()} {platform.release()}"  # platform.platform() starts `uname`
    lines = [
        f"Baton {__version__}, Python {platform.python_version()}, {system}",
        *_lines(error, set()),
    ]
    replace_file(path, "\n".join(lines) + "\n")
    return path


def _lines(error: BaseException, seen: set[int]) -> list[str]:
    """Write an error and those that led to it, each once: they may lead back to it."""
    lines: list[str] = []
    chain: BaseException | None = error
    while chain is not None and id(chain) not in seen:
        seen.add(id(chain))
        kind = type(chain)
        frames = traceback.StackSummary.extract(traceback.walk_tb(chain.__traceback__))
        lines += ["", f"{kind.__module__}.{kind.__qualname__}", *map(str.rstrip, frames.format())]
        if isinstance(chain, BaseExceptionGroup):
            for part in chain.exceptions:
                lines += _lines(part, seen)
        chain = chain.__cause__ or chain.__context__
    return lines
