"""`baton doctor`: whether everything here works. One line for each thing, and no secrets in any."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baton.cli.doctor.check import CheckResult, CheckState, run_checks, setup_context
from baton.cli.output import emit, emit_document, notify
from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.platform.paths import find_paths
from baton.platform.settings import keyless_environ

if TYPE_CHECKING:
    from baton.doctor import WatchResult

_EXAMPLES = """\b
Examples:
  baton doctor                                what is here: settings, keys, models, money
  baton doctor --report FILE                  the same, for a bug report
  baton doctor --offline                      does a prompt stay on this machine? with proof
  baton doctor --self-test                    does this very program work, all of it?
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--self-test",
    "self_tested",
    is_flag=True,
    help="Prove that the packaged program works: load all, answer, plan, pay, draw a screen.",
)
@click.option(
    "--offline",
    is_flag=True,
    help="Prove that an offline prompt opens no connection and looks up no name.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--report",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was found to a file as well, without names, secrets and texts.",
)
def doctor(self_tested: bool, offline: bool, as_json: bool, file: Path | None) -> int:
    """Check that everything here works; ends with 1 when something is broken.

    With --offline, one prompt is answered by your own settings and models while the kernel refuses
    and counts every socket (seccomp), in a network namespace of its own where that is allowed; it
    ends with 1 as well if this machine has neither.

    The self-test is a part of the packaged program. It takes some ten seconds, works in a folder
    of its own, puts a test key into your keyring and removes it, changes nothing else of yours,
    sends nothing anywhere and costs nothing.
    """
    from baton.cli.doctor import check, doctor_report

    results: list[CheckResult] = []
    if file is not None:
        doctor_report.check_report_path(file)

    def report(result: CheckResult) -> None:
        results.append(result)
        if not as_json:
            emit(result.as_line())

    if offline:
        for result in prove_offline():
            report(result)
    else:
        check.report_checks(_packaged_self_test() if self_tested else check_setup(), report)
    is_broken = any(result.state is CheckState.BROKEN for result in results)
    if as_json:
        status = "failed" if is_broken else "finished"
        emit_document(status=status, checks=[asdict(one) for one in results])
    if file is not None:
        doctor_report.write_report(file, results, as_json)
    if not as_json:
        notify(_verdict(results) + (f" The report is in {file}." if file else ""))
    return 1 if is_broken else 0


def check_setup() -> AsyncIterator[CheckResult]:
    """Check the user's own setup, and that Baton's parts load and answer here."""
    from baton.cli.doctor.setup_checks import CHECKS

    return run_checks(CHECKS, setup_context(find_paths()))


def _packaged_self_test() -> AsyncIterator[CheckResult]:
    """Run packaging/baton_self_test, which only the packaged program has. Raises ConfigError."""
    if find_spec("baton_self_test") is None:
        raise ConfigError(
            "The self-test is a part of the packaged program, and this isn't packaged.",
            "`baton doctor` loads every library and has the model answer.",
        )
    results: AsyncIterator[CheckResult] = import_module("baton_self_test").run_self_test()
    return results


def _verdict(results: Iterable[CheckResult]) -> str:
    broken = [result.name for result in results if result.state is CheckState.BROKEN]
    return f"Broken: {', '.join(broken)}." if broken else "Nothing is broken."


# Offline

_ASK_ARGUMENTS = ("ask", "--offline", "--no-history", "--json", "--max-tokens", "16", "Say hello.")


def prove_offline() -> list[CheckResult]:
    """Ask a prompt offline where the kernel reports every socket."""
    from baton.doctor import baton_command, watch_program

    try:
        watched = watch_program([*baton_command(), *_ASK_ARGUMENTS], environ=keyless_environ())
    except OSError as error:
        return [_broken("offline", f"No process could be started: {error.strerror}.")]
    if not watched.means:
        text = (
            "It can't be proved on this machine: neither seccomp with notifications (Linux 5.0)"
            f" nor a network namespace can be had. {watched.err}"
        )
        return [_broken("offline", text.strip())]
    return [_socket_result(watched), _answer_result(watched)]


def _broken(name: str, text: str) -> CheckResult:
    return CheckResult(name, CheckState.BROKEN, text)


def _socket_result(watched: WatchResult) -> CheckResult:
    means = " and ".join(watched.means)
    if watched.attempts:
        tried = ", ".join(f"{count} of {name}" for name, count in sorted(watched.attempts.items()))
        text = f"Baton tried to open sockets while offline: {tried}. All were refused ({means})."
        return _broken("network", text)
    if "seccomp" in watched.means:
        text = f"no process of Baton opened a socket, so none connected anywhere ({means})"
        return CheckResult("network", CheckState.OK, text)
    text = f"nothing could leave ({means}); whether anything tried can't be seen here"
    return CheckResult("network", CheckState.WARN, text)


def _answer_result(watched: WatchResult) -> CheckResult:
    """Check that the prompt was answered: a Baton that fails at once opens no socket, either."""
    if watched.status is None:
        return _broken("answer", "The prompt took too long and was stopped.")
    try:
        answer = str(json.loads(watched.out)["answer"])
    except (ValueError, KeyError, TypeError):
        answer = ""
    if watched.status or not answer:
        reason = one_line(watched.err, 300) or f"Baton ended with {watched.status}."
        return _broken("answer", f"The prompt was not answered offline: {reason}")
    return CheckResult("answer", CheckState.OK, f"a prompt was answered: {one_line(answer, 60)!r}")
