"""How anything that goes wrong is told: one sentence, the right exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from baton.domain.errors import BatonError, ConfigError, StoreError
from baton.domain.sanitise import sanitise

INTERRUPTED = 130


def guarded(command: Callable[[], Any], args: Sequence[str]) -> int:
    """Run a command and return its exit code, having told of what went wrong."""
    try:
        code = command()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except Exception as error:
        return _fail(error, args)
    return code if isinstance(code, int) else 0


def complain(error: BatonError) -> int:
    """Say on stderr what happened, and return the exit code."""
    print(f"baton: {sanitise(str(error))}", file=sys.stderr, flush=True)
    return error.exit_code


def _reader_gone() -> int:
    """Whoever closed the pipe has had enough, which is no failure; nothing is to be flushed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _fail(error: Exception, args: Sequence[str]) -> int:
    told = _explain(error)
    if "--json" in args or "--events" in args:
        from baton.cli.result import failure_line

        try:
            print(failure_line(told, args), flush=True)
        except OSError:
            _reader_gone()
    return complain(told)


def _explain(error: Exception) -> BatonError:
    if isinstance(error, BatonError):
        return error
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "baton"
        return ConfigError(error.format_message(), f"`{path} --help` shows how it goes.")
    return _unexpected(error)


def _unexpected(error: Exception) -> BatonError:
    from baton.settings import find_paths
    from baton.tui.crash import write_report

    kind = type(error).__name__
    try:
        file = write_report(find_paths().logs, error)
    except OSError:
        return BatonError(f"Baton stumbled over itself ({kind}), and no report could be written.")
    return BatonError(f"Baton stumbled over itself ({kind}).", f"The report is in {file}.")


def unwritable(error: OSError, kept: str = "") -> StoreError:
    """Return what to tell when stdout took no more, where `kept` says where the text still is."""
    return StoreError(f"The output can't be written: {error.strerror}.", kept)
