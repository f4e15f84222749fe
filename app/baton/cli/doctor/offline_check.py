"""`baton doctor --offline`: a real prompt, in a process that the kernel keeps from the network."""

from __future__ import annotations

import json
from collections.abc import Sequence

from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.core.sanitiser import one_line
from baton.doctor import WatchResult, baton_command, watch_program
from baton.platform.settings import keyless_environ

_ASK_ARGUMENTS = ("ask", "--offline", "--no-history", "--json", "--max-tokens", "16", "Say hello.")


def prove_offline(command: Sequence[str] | None = None) -> list[CheckResult]:
    """Ask a prompt offline where every socket is noticed; `command` is who is asked instead."""
    try:
        watched = watch_program(
            [*baton_command(), *_ASK_ARGUMENTS] if command is None else command,
            environ=keyless_environ(),
        )
    except OSError as error:
        return [
            CheckResult(
                "offline", CheckState.BROKEN, f"No process could be started: {error.strerror}."
            )
        ]
    if not watched.means:
        return [
            CheckResult(
                "offline",
                CheckState.BROKEN,
                "It can't be proved on this machine: neither seccomp with notifications (Linux 5.0)"
                f" nor a network namespace can be had. {watched.err}".strip(),
            )
        ]
    return [_socket_result(watched), _answer_result(watched)]


def _socket_result(watched: WatchResult) -> CheckResult:
    means = " and ".join(watched.means)
    if watched.attempts:
        tried = ", ".join(f"{count} of {name}" for name, count in sorted(watched.attempts.items()))
        text = f"Baton tried to open sockets while offline: {tried}. All were refused ({means})."
        return CheckResult("network", CheckState.BROKEN, text)
    if "seccomp" in watched.means:
        text = f"no process of Baton's opened a socket, so none connected anywhere ({means})"
        return CheckResult("network", CheckState.OK, text)
    text = f"nothing could leave ({means}); whether anything tried can't be seen here"
    return CheckResult("network", CheckState.WARN, text)


def _answer_result(watched: WatchResult) -> CheckResult:
    """Say whether the prompt was answered: a Baton that fails at once opens no socket, either."""
    if watched.status is None:
        return CheckResult("answer", CheckState.BROKEN, "The prompt took too long and was stopped.")
    try:
        answer = str(json.loads(watched.out)["answer"])
    except (ValueError, KeyError, TypeError):
        answer = ""
    if watched.status or not answer:
        said = one_line(watched.err, 300) or f"Baton ended with {watched.status}."
        return CheckResult(
            "answer", CheckState.BROKEN, f"The prompt was not answered offline: {said}"
        )
    return CheckResult("answer", CheckState.OK, f"a prompt was answered: {one_line(answer, 60)!r}")
