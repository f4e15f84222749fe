"""The command line: stdout is data, stderr is talk; and with `--child NAME` one of the children.

Importing this loads next to nothing: each command's module is imported when it is called.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

from baton import __version__
from baton.cli import interrupts
from baton.platform.import_stubs import import_without

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

INTERRUPTED = 130

CHILDREN = {
    "fetcher": "baton.download.child.main",
    "fork_server": "baton.cli.fork_server",
    "lender": "baton.ipc.lender",
    "library_loader": "baton.doctor.child.library_loader",
    "gateway": "baton.workers.cloud.child.main",
    "network_watch": "baton.doctor.child.network_watch",
    "runner": "baton.workers.local.child.main",
    "scorer": "baton.routing.child.main",
    "tools": "baton.workers.tools.child.main",
}
"""The module whose `main` each child process runs; see `ipc.process.command`."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command that `args` (by default this process's) asks for, and exit with its code."""
    words = sys.argv[1:] if args is None else args
    if words[:1] == ["--child"]:
        if (module := CHILDREN.get(" ".join(words[1:]))) is None:
            sys.exit("baton: there is no such child process")
        import_without("typing_extensions", "msgspec")
        import_module(module).main()
        sys.exit()
    # Without taking the interpreter apart, as all is on disk and no file open.
    os._exit(run_command(words))


def run_command(words: Sequence[str], *, is_fork: bool = False) -> int:
    """Run a command, in this process unless a fork of another one can; return its exit code."""
    interrupts.install_handler()
    code = None
    try:
        os.umask(0o077)
        _forget_openssl()
        _open_standard_streams()
        if list(words) in (["--version"], ["-V"]):  # three quarters of its time were click's
            print(f"baton {__version__}")
            code = 0
        elif words[:1] == ["ask"] and not is_fork:
            from baton.cli.fork_client import ask_forked

            code = ask_forked(words)
        if code is None:
            import_without("typing_extensions", "msgspec")
            if words[:1] == ["ask"]:
                start_children(words[1:])
            from baton.cli.root import run

            code = run(words)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ImportError as error:
        reason = f"A part of Baton can't be loaded: {error}. Install it again."
        print(f"baton: {reason}", file=sys.stderr)
        code = 1
    return _flush(code)


_OTHER_WORKERS = ("-m", "--worker", "-h", "--help")
"""Options with which another worker answers than the settings', or none."""


def start_children(words: Sequence[str]) -> None:
    """Start the child processes that an `ask` with these words likely needs.

    The command takes up those that are just so, and else ends them; it also reports any error.
    """
    if not words or any(word.startswith(_OTHER_WORKERS) for word in words):
        return
    from baton.core.errors import BatonError
    from baton.core.reading.bare_expressions import is_computable
    from baton.ipc.process import MODEL_FOLDER, SINGLE_THREAD_VARIABLES, command, environment
    from baton.ipc.spare_process import start_spare
    from baton.platform.paths import find_paths
    from baton.platform.settings import LocalWorkerSettings, load_settings

    try:
        paths = find_paths()
        settings = load_settings(paths.config_file)
    except BatonError:
        return
    is_lent = settings.daemon and "--no-daemon" not in words and paths.has_lender
    if is_lent or (settings.tools and any(map(is_computable, words))):
        return
    named = (entry for entry in settings.roster if entry.id == settings.worker)
    environ = environment()
    if all(isinstance(entry, LocalWorkerSettings) for entry in named):
        start_spare(command("runner"), environ, MODEL_FOLDER)
    start_spare(command("scorer"), {**environ, **SINGLE_THREAD_VARIABLES}, MODEL_FOLDER)


def _flush(code: int) -> int:
    """Write what is left; return the exit code, another one where that fails."""
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        pass
    except OSError as error:
        if code == 0:
            from baton.cli.error_report import report_error
            from baton.cli.output import unwritable_error

            code = report_error(unwritable_error(error))
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    return code


def _forget_openssl() -> None:
    """Drop what would have OpenSSL load code (engines, providers), before anything loads it.

    Children never get them. Whose certificates are trusted (SSL_CERT_FILE) is left to the user.
    """
    for name in [name for name in os.environ if name.startswith("OPENSSL_")]:
        del os.environ[name]


def _open_standard_streams() -> None:
    """Make sure that 0, 1 and 2 are open, so that no database can ever become stdout."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if not stream.isatty():
            stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
