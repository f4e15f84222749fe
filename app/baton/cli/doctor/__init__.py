"""`baton doctor`: does everything here work? One line for each thing, and no secrets in any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import click

from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.cli.doctor.system_checks import check_system
from baton.cli.output import emit, emit_json, notify

__all__ = ["CheckResult", "CheckState", "check_system", "doctor"]

_EXAMPLES = """\b
Examples:
  baton doctor                                what is here: settings, keys, models, money
  baton doctor --offline                      does a prompt stay on this machine? with proof
  baton doctor --self-test                    does this very program work, all of it?
  baton doctor --self-test --report FILE      the same, for a bug report
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--self-test",
    "self_tested",
    is_flag=True,
    help="Prove that Baton itself works: load every part, answer, plan, pay, find, draw a screen.",
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

    The self-test takes some ten seconds. It plays in a folder of its own, touches nothing of
    yours but for a test key, put into your keyring and removed, sends nothing anywhere and costs
    nothing.
    """
    findings: list[CheckResult] = []
    if file is not None:
        from baton.cli.doctor.doctor_report import check_report_path

        check_report_path(file)

    def tell(finding: CheckResult) -> None:
        findings.append(finding)
        if not as_json:
            emit(finding.as_line())

    if offline:
        from baton.cli.doctor.offline_check import prove_offline

        _report_all(prove_offline(), tell)
    elif self_tested:
        from baton.cli.doctor.self_test import run_self_test

        run_self_test(tell)
    else:
        from baton.platform.settings import find_paths

        _report_all(check_system(find_paths()), tell)
    broken = any(finding.state is CheckState.BROKEN for finding in findings)
    if as_json:
        status = "failed" if broken else "finished"
        emit_json({"schema": 1, "status": status, "checks": [asdict(f) for f in findings]})
    if file is not None:
        from baton.cli.doctor.doctor_report import write_report

        write_report(file, findings, as_json)
    if not as_json:
        notify(_verdict(findings) + (f" The report is in {file}." if file else ""))
    return 1 if broken else 0


def _verdict(findings: Iterable[CheckResult]) -> str:
    """Say in a sentence how it all is."""
    broken = [finding.name for finding in findings if finding.state is CheckState.BROKEN]
    return f"Broken: {', '.join(broken)}." if broken else "Nothing is broken."


def _report_all(findings: Iterable[CheckResult], tell: Callable[[CheckResult], object]) -> None:
    for finding in findings:
        tell(finding)
