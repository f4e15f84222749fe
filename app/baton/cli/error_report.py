"""Reports of errors: one sentence, the right exit code, never a traceback.

For a command that there isn't, the sentence says which one is likely meant.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from traceback import walk_tb

import click

from baton.cli.exit_codes import exit_code
from baton.cli.options import ALIASES
from baton.cli.output import emit, notify, unwritable_error
from baton.core.errors import BatonError, ConfigError, StoreError
from baton.core.sanitiser import one_line

_ENVIRONMENT_ERRORS = {
    getattr(errno, name)
    for name in (
        *("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "ELOOP", "ENOTDIR", "EISDIR", "EEXIST"),
        *("ENAMETOOLONG", "EMFILE", "ENFILE", "EIO", "ESTALE"),
    )
    if hasattr(errno, name)
}
"""What the system refuses because of files and folders as they are: not a fault of Baton's code."""

_PATH_HINT = "Check its owner and its permissions, and that its disk isn't full."
_QUOTED_BYTE = re.compile(r"(?<!\\)\\udc[89a-f][0-9a-f]")
"""How Python quotes a byte of an argument that isn't UTF-8."""


def report_failure(error: Exception, args: Sequence[str]) -> int:
    """Report what ended a command, as JSON too where that was asked for; return the exit code."""
    failure = _as_baton_error(error)
    failure.message = _QUOTED_BYTE.sub("\ufffd", failure.message)
    options = list(takewhile(lambda word: word != "--", args))
    if "--json" in options or "--events" in options:
        from baton.cli.json_output import failure_line

        line = failure_line(failure, options)
        try:
            emit(line)
        except (BrokenPipeError, StoreError):
            discard_stdout()
    return report_error(failure)


def report_error(error: BatonError) -> int:
    """Say on stderr what happened, and return the exit code."""
    notify(f"baton: {error}")
    return exit_code(type(error))


def discard_stdout() -> int:
    """Flush nothing more: a reader that closed the pipe has enough, which isn't a failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _as_baton_error(error: Exception) -> BatonError:
    if isinstance(error, BatonError):
        return error
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "baton"
        if isinstance(error, click.exceptions.NoSuchCommand) and error.ctx is not None:
            return _unknown_command_error(error.command_name, error.ctx)
        near: Sequence[str] = getattr(error, "possibilities", None) or ()
        what = one_line(error.message if near else error.format_message(), 1000)
        meant = f"Did you mean {near[0]}? " if near else ""
        return ConfigError(
            what if what[-1:] in ".?!" else f"{what}.",
            f"{meant}`{path} --help` shows how to use it.",
        )
    if isinstance(error, OSError) and _is_of_click(error):  # which opens nothing, but writes
        return unwritable_error(error)
    if isinstance(error, ImportError):  # what writes a report might miss the same
        reason = one_line(str(error), 300)
        return BatonError(f"A part of Baton can't be loaded: {reason}.", "Install it again.")
    if isinstance(error, OSError) and error.errno in _ENVIRONMENT_ERRORS:
        if not error.filename:
            return StoreError(f"The system refused it: {error.strerror}.", "Try again.")
        place = one_line(os.fsdecode(error.filename), 300)
        return StoreError(f"{place} can't be used: {error.strerror}.", _PATH_HINT)
    return _internal_error(error)


def _unknown_command_error(name: str, context: click.Context) -> ConfigError:
    quoted = [f"`{command}`" for command in suggest_commands(name, context)]
    listed = " or ".join(filter(None, (", ".join(quoted[:-1]), *quoted[-1:])))
    meant = f"Did you mean {listed}?" if listed else f"`{context.command_path} --help` lists them."
    return ConfigError(f"There is no command {name!r}.", meant)


def _is_of_click(error: OSError) -> bool:
    """Whether it was raised where click writes help or a version."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "click"


def _internal_error(error: Exception) -> BatonError:
    from baton.platform.paths import find_paths
    from baton.tui.crash_report import write_report

    kind = type(error).__name__
    try:
        file = write_report(find_paths().logs, error)
    except (OSError, BatonError):
        return BatonError(f"Baton hit a bug ({kind}), and no report could be written.")
    return BatonError(f"Baton hit a bug ({kind}).", f"The report is in {file}.")


_MAX_SUGGESTIONS = 3

_GROUP_ORDER = ("models", "history", "workers", "budget", "keys", "egress", "config", "self")
"""Whose command is meant first where several groups have it: `ls` is mostly about models."""

_WORDS = {
    **ALIASES,
    "add": "pull",
    "delete": "rm",
    "del": "rm",
    "download": "pull",
    "fetch": "pull",
    "find": "search",
    "info": "show",
    "install": "pull",
    "upgrade": "update",
    "view": "show",
}
"""Other programs' words for a command of a group."""

_COMMAND_WORDS = {
    "chat": ("baton", "baton ask"),
    "config set": ("baton config edit",),
    "models search": ("baton models ls --all",),
    "check": ("baton doctor",),
    "cost": ("baton usage",),
    "costs": ("baton usage",),
    "generate": ("baton ask",),
    "help": ("baton --help",),
    "log": ("baton history ls",),
    "logs": ("baton history ls",),
    "prompt": ("baton ask",),
    "run": ("baton ask",),
    "settings": ("baton config show",),
    "status": ("baton doctor",),
    "version": ("baton --version",),
}
"""Other programs' words for whole commands, some for those of one group."""


def suggest_commands(name: str, context: click.Context) -> list[str]:
    """Return what likely is meant by a command that the context's group doesn't have, best first.

    Names that differ by a letter or two come last, as they are guessed.
    """
    import difflib

    top = context.find_root()
    assert isinstance(top.command, click.Group), "all commands are in a group"
    commands, every = top.command.list_commands(top), dict(_subcommands(top))
    path = context.command_path
    group = path.removeprefix("baton").strip()
    word = _WORDS.get(name, name)
    beside = commands if not group else every.get(group, [])
    words = [word, "show"] if word == "ls" else [word]
    if group and (own := next((one for one in words if one in beside), "")):
        return [f"{path} {own}"]
    same = [f"baton {other} {word}" for other in every if word in every[other]]
    known = _COMMAND_WORDS.get(f"{group} {name}".strip()) or _COMMAND_WORDS.get(name, ())
    near = difflib.get_close_matches(name, beside, n=1)
    for suggestions in (
        known,
        [f"baton {name}"] if name in commands else [],
        [f"{path} {one}" for one in near] if group else [],
        same,
        [f"{path} {one}" for one in near],
    ):
        if suggestions:
            return list(suggestions[:_MAX_SUGGESTIONS])
    return [
        f"baton {other} {one}"
        for other in every
        for one in difflib.get_close_matches(word, every[other], n=1, cutoff=0.75)
    ][:_MAX_SUGGESTIONS]


def _subcommands(top: click.Context) -> Iterator[tuple[str, list[str]]]:
    """Yield each group with the names of its commands."""
    assert isinstance(top.command, click.Group), "all commands are in a group"
    for name in _GROUP_ORDER:
        command = top.command.get_command(top, name)
        if isinstance(command, click.Group):
            yield name, command.list_commands(top)
