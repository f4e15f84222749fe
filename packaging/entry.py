"""Where the packaged binary starts: Baton, one of its children, or a part of its self-test."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run what was asked for."""
    _know_itself()
    _give_back_environment()
    if sys.argv[1:3] == ["--child", "self_test"] and len(sys.argv) == 4:
        from baton_self_test.part_process import main as use_part

        use_part(sys.argv[3])
    else:
        from baton.cli import main as run

        run()


def _know_itself() -> None:
    """Say where this program and its time zones are.

    Children are started with that: a variable can be wrong.
    """
    if getattr(sys, "frozen", False):
        name = "baton.exe" if sys.platform == "win32" else "baton"
        sys.executable = os.path.join(os.path.dirname(sys._MEIPASS), name)  # noqa: PTH118, PTH120
        if not _was_unpacked(sys.executable):
            # Of another Baton, in whose terminal this folder build was started.
            os.environ.pop("BATON_BINARY", None)
        # For systems without time zones: looked at only where there are none.
        sys.path.append(os.path.join(sys._MEIPASS, "zones.zip"))  # noqa: PTH118


def _was_unpacked(program: str) -> bool:
    """Whether that is where the launcher unpacks single files: .../app/<16 hex digits>/."""
    import re

    return re.search(r"/app/[0-9a-f]{16}/baton$", program) is not None


def _give_back_environment() -> None:
    """Take back what the bootloader changed for itself: an editor or a clipboard needs its own."""
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before
    elif "_PYI_ARCHIVE_FILE" in os.environ:
        os.environ.pop("LD_LIBRARY_PATH", None)
    for name in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[name]


if __name__ == "__main__":
    main()
