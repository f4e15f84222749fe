"""What happens when Baton itself has a bug: a short report in a file, without anyone's data.

Textual's own crash screen prints local variables, which may hold prompts and keys.
"""

from __future__ import annotations

import os
import platform
import time
import traceback
from pathlib import Path

from baton import __version__


def write_report(folder: Path, error: BaseException) -> Path:
    """Write what is needed to find the bug, readable by the owner only; return where it is.

    Neither local variables nor the messages of errors are in it: those quote what was worked on.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    system = f"{platform.system()} {platform.release()}"  # platform.platform() starts `uname`
    lines = [f"Baton {__version__}, Python {platform.python_version()}, {system}", *_trace(error)]
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _trace(error: BaseException) -> list[str]:
    lines: list[str] = []
    chain: BaseException | None = error
    while chain is not None:
        kind = type(chain)
        frames = traceback.StackSummary.extract(traceback.walk_tb(chain.__traceback__))
        lines += ["", f"{kind.__module__}.{kind.__qualname__}", *map(str.rstrip, frames.format())]
        if isinstance(chain, BaseExceptionGroup):
            for part in chain.exceptions:
                lines += _trace(part)
        chain = chain.__cause__ or chain.__context__
    return lines
