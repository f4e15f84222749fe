"""`baton doctor --offline`: a real prompt, in a process that the kernel keeps from the network."""

from __future__ import annotations

import json
from collections.abc import Sequence

from baton.cli.doctor.check_result import Finding, State
from baton.core.sanitiser import one_line
from baton.doctor import Watched, baton_command, watch_program
from baton.platform.settings import keyless_environ

_ASK = ("ask", "--offline", "--no-history", "--json", "--max-tokens", "16", "Say hello.")


def prove_offline(command: Sequence[str] | None = None) -> list[Finding]:
    """Ask a prompt offline where every socket is noticed; `command` is who is asked instead."""
    try:
        watched = watch_program(
            [*baton_command(), *_ASK] if command is None else command, environ=keyless_environ()
        )
    except OSError as error:
        return [Finding("offline", State.BROKEN, f"No process could be started: {error.strerror}.")]
    if not watched.means:
        return [
            Finding(
                "offline",
                State.BROKEN,
                "It can't be proved on this machine: neither seccomp with notifications (Linux 5.0)"
                f" nor a network namespace can be had. {watched.err}".strip(),
            )
        ]
    return [_sockets(watched), _answer(watched)]


def _sockets(watched: Watched) -> Finding:
    means = " and ".join(watched.means)
    if watched.attempts:
        tried = ", ".join(f"{count} of {name}" for name, count in sorted(watched.attempts.items()))
        text = f"Baton tried to open sockets while offline: {tried}. All were refused ({means})."
        return Finding("network", State.BROKEN, text)
    if "seccomp" in watched.means:
        text = f"no process of Baton's opened a socket, so none connected anywhere ({means})"
        return Finding("network", State.OK, text)
    text = f"nothing could leave ({means}); whether anything tried can't be seen here"
    return Finding("network", State.WARN, text)


def _answer(watched: Watched) -> Finding:
    """Say whether the prompt was answered: a Baton that fails at once opens no socket, either."""
    if watched.status is None:
        return Finding("answer", State.BROKEN, "The prompt took too long and was stopped.")
    try:
        answer = str(json.loads(watched.out)["answer"])
    except (ValueError, KeyError, TypeError):
        answer = ""
    if watched.status or not answer:
        said = one_line(watched.err, 300) or f"Baton ended with {watched.status}."
        return Finding("answer", State.BROKEN, f"The prompt was not answered offline: {said}")
    return Finding("answer", State.OK, f"a prompt was answered: {one_line(answer, 60)!r}")
