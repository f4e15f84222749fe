"""A program that may open no socket: what it tries is refused and counted, in all its processes."""

from __future__ import annotations

import sys

import pytest

from baton.cli.doctor import prove_offline
from baton.cli.doctor.check import CheckState
from baton.doctor import WatchResult, watch_program
from baton.doctor.child import network_watch

ANSWER = 'print(\'{"answer": "Hello."}\')'


def python(code: str, seconds: float = 60.0) -> WatchResult:
    return watch_program([sys.executable, "-c", code], seconds)


def test_a_program_that_makes_no_socket_runs_as_always() -> None:
    watched = python("import os; os.write(1, b'out\\n'); os.write(2, b'err\\n'); os._exit(3)")
    assert (watched.status, watched.out, watched.err) == (3, "out\n", "err\n")
    assert network_watch.SECCOMP in watched.means
    assert not watched.attempts


@pytest.mark.parametrize(
    ("code", "attempts"),
    [
        ("socket.socket()", {"AF_INET": 1}),
        ("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", {"AF_INET6": 1}),
        ("socket.socket(socket.AF_UNIX)", {"AF_UNIX": 1}),
        ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", {"AF_NETLINK": 1}),
        ("ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120))", {"io_uring": 1}),
    ],
)
def test_every_attempt_is_refused_and_counted(code: str, attempts: dict[str, int]) -> None:
    watched = python(f"import ctypes, socket\ntry: print({code})\nexcept OSError as e: print(e)")
    assert watched.attempts == attempts
    assert "Permission denied" in watched.out or watched.out == "-1\n"


def test_a_name_that_is_looked_up_is_noticed() -> None:
    watched = python("import socket\ntry: socket.getaddrinfo('example.org', 1)\nexcept OSError: 0")
    assert watched.attempts


def test_a_grandchild_is_watched_as_well() -> None:
    inner = "import socket\ntry: socket.socket()\nexcept OSError: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert python(code).attempts == {"AF_INET": 1}


@pytest.mark.sampled(0.5)
def test_a_program_without_an_end_is_stopped_with_all_it_started() -> None:
    code = "import os, time\nos.fork()\nos.write(1, b'.')\ntime.sleep(600)"
    watched = python(code, 2.0)
    assert (watched.status, watched.out) == (None, "..")


def watch_code(code: str) -> list[tuple[str, CheckState]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("baton.doctor.baton_command", lambda: [sys.executable, "-c", code])
        found = prove_offline()
    return [(finding.name, finding.state) for finding in found]


def test_the_doctor_notices_a_planted_attempt_to_connect() -> None:
    connect = "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError: 0\n"
    assert watch_code(ANSWER) == [("network", CheckState.OK), ("answer", CheckState.OK)]
    assert watch_code(connect + ANSWER) == [
        ("network", CheckState.BROKEN),
        ("answer", CheckState.OK),
    ]


def test_a_baton_that_fails_at_once_proves_nothing() -> None:
    assert watch_code("raise SystemExit(1)")[1] == ("answer", CheckState.BROKEN)
    assert watch_code("print('{}')")[1] == ("answer", CheckState.BROKEN)


def test_without_any_means_nothing_is_run_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_watch, "_install_filter", lambda: None)
    monkeypatch.setattr(network_watch, "_leave_network", lambda: False)
    watched = network_watch.watch_program([sys.executable, "-c", "print('it ran')"], 60.0)
    assert (watched.means, watched.out) == ([], "")
