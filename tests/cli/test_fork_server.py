"""An `ask` that a fork of the background process's fork server runs: no one sees a difference."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from baton.ipc import messages
from baton.ipc.lending_protocol import StartForking
from baton.platform.paths import Paths, find_paths
from support.processes import is_over, wait_until_over

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks stand in on Linux alone")

BATON = [sys.executable, "-P", "-m", "baton"]
ANSWER = "3 + 4 = 7\n\n17 + 23 = 40\n"
SECRET = "sk-the-key-of-somebody-0815"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A home with a state folder."""
    found = find_paths({"BATON_HOME": str(tmp_path / "home")})
    found.state.mkdir(mode=0o700, parents=True)
    return found


@contextlib.contextmanager
def serving(paths: Paths, *modules: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a fork server that listens; it has ended after that."""
    process = subprocess.Popen([*BATON, "--child", "fork_server"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    order = StartForking(paths.front_socket, ["baton.cli.ask", *modules], [])
    process.stdin.write(messages.encode(order))
    process.stdin.flush()
    _wait(paths.front_socket.exists)
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(30)


@pytest.fixture
def server(paths: Paths) -> Iterator[subprocess.Popen[bytes]]:
    with serving(paths) as process:
        yield process


def ask(
    paths: Paths, *words: str, setup: Callable[[], object] | None = None, **variables: str
) -> subprocess.Popen[str]:
    """Start an `ask` that waits for the end of its stdin, where a sum begins."""
    environ = {**os.environ, "BATON_HOME": str(paths.config.parent), **variables}
    asking = subprocess.Popen(
        [*BATON, "ask", *words],
        env=environ,
        cwd=paths.config.parent,
        preexec_fn=setup,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asking.stdin is not None
    asking.stdin.write("3")
    asking.stdin.flush()
    return asking


def fork_of(server: subprocess.Popen[bytes], asking: subprocess.Popen[str]) -> psutil.Process:
    """Return the fork that runs an `ask`, once it waits for its stdin."""
    front = psutil.Process(server.pid)
    _wait(lambda: bool(front.children()) or asking.poll() is not None)
    (fork,) = front.children()
    _wait(lambda: _is_reading(fork))
    return fork


def _is_reading(process: psutil.Process) -> bool:
    """Whether the thread runs that reads stdin."""
    return process.num_threads() > 1


def _wait(is_so: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_fork_answers_with_the_streams_folder_and_environment_of_the_terminal(
    paths: Paths, server: subprocess.Popen[bytes]
) -> None:
    asking = ask(paths, "17+23", "--json", OPENAI_API_KEY=SECRET)
    fork = fork_of(server, asking)
    assert fork.cwd() == str(paths.config.parent)
    assert os.getsid(fork.pid) == fork.pid
    importance = Path("/proc/self/oom_score_adj").read_text()
    assert Path(f"/proc/{fork.pid}/oom_score_adj").read_text() == importance
    out, error = asking.communicate("+4")
    assert (asking.returncode, error) == (0, "")
    assert '"answer": "3 + 4 = 7\\n\\n17 + 23 = 40"' in out
    assert paths.database.exists()
    assert not holds(server.pid, SECRET.encode())


def holds(pid: int, secret: bytes) -> bool:
    """Whether a process has a text anywhere in its memory."""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line):
                start, end = (int(number, 16) for number in match.groups())
                with contextlib.suppress(OSError, OverflowError):
                    memory.seek(start)
                    if secret in memory.read(end - start):
                        return True
    return False


def test_what_a_process_keeps_is_found_in_its_memory(paths: Paths) -> None:
    asking = ask(paths, "17+23", OPENAI_API_KEY=SECRET)
    try:
        _wait(lambda: holds(asking.pid, SECRET.encode()))
    finally:
        asking.communicate("")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_served", [True, False])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["17+23"], 0),
        (["--budget", "plenty", "17+23"], 2),
        (["--help"], 0),
        (["-f", "no-such-file", "17+23"], 2),
    ],
)
def test_words_and_exit_codes_are_the_same(
    paths: Paths, words: list[str], code: int, is_served: bool
) -> None:
    with serving(paths) if is_served else contextlib.nullcontext():
        asking = ask(paths, *words)
        out, error = asking.communicate("+4")
    assert asking.returncode == code, error
    assert bool(out) == (code == 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_served", [True, False])
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)],
)
def test_a_signal_ends_it_as_ever(
    paths: Paths, number: signal.Signals, code: int, is_served: bool
) -> None:
    served = serving(paths) if is_served else contextlib.nullcontext()
    with served as server, ask(paths, "17+23") as asking:
        if server is not None:
            fork_of(server, asking)
        else:
            _wait(lambda: _is_reading(psutil.Process(asking.pid)))
        asking.send_signal(number)
        assert asking.wait(30) == code


def test_a_fork_ends_with_the_terminals_side_and_the_other_way_round(
    paths: Paths, server: subprocess.Popen[bytes]
) -> None:
    with ask(paths, "17+23") as asking:
        fork = fork_of(server, asking)
        asking.kill()
        wait_until_over([fork])
    _wait(lambda: not psutil.Process(server.pid).children())
    with ask(paths, "17+23") as asking:
        fork_of(server, asking).kill()
        assert asking.wait(30) == -signal.SIGKILL
    _wait(lambda: not psutil.Process(server.pid).children())


def test_both_stop_and_continue_together(paths: Paths, server: subprocess.Popen[bytes]) -> None:
    asking = ask(paths, "17+23")
    fork, terminal = fork_of(server, asking), psutil.Process(asking.pid)
    asking.send_signal(signal.SIGTSTP)
    _wait(lambda: {fork.status(), terminal.status()} == {psutil.STATUS_STOPPED})
    asking.send_signal(signal.SIGCONT)
    _wait(lambda: fork.status() != psutil.STATUS_STOPPED)
    assert asking.communicate("+4")[0] == ANSWER


@pytest.mark.parametrize("ending", ["kill", "close"])
def test_an_answer_continues_when_the_fork_server_ends(paths: Paths, ending: str) -> None:
    with serving(paths) as server:
        asking = ask(paths, "17+23")
        fork_of(server, asking)
        if ending == "kill":
            server.kill()
    assert asking.communicate("+4")[0] == ANSWER
    assert asking.returncode == 0


def test_many_at_once_each_have_their_own(paths: Paths, server: subprocess.Popen[bytes]) -> None:
    asked = [ask(paths, f"{number}+23", "--quiet") for number in range(12, 18)]
    for number, asking in enumerate(asked, 12):
        out, error = asking.communicate("+4")
        assert (out, error) == (f"3 + 4 = 7\n\n{number} + 23 = {number + 23}\n", "")
    _wait(lambda: not psutil.Process(server.pid).children())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "setup", "variables"),
    [
        (["--no-daemon"], None, {}),
        ([], None, {"BATON_DAEMON": "false"}),
        ([], lambda: os.nice(1), {}),
        ([], lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300)), {}),
        ([], lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN), {}),
        ([], None, {"MALLOC_ARENA_MAX": "1"}),
    ],
    ids=["option", "setting", "priority", "limits", "nohup", "allocator"],
)
def test_no_fork_stands_for_a_process_of_other_surroundings(
    paths: Paths,
    server: subprocess.Popen[bytes],
    words: list[str],
    setup: Callable[[], object] | None,
    variables: dict[str, str],
) -> None:
    with ask(paths, "17+23", *words, setup=setup, **variables) as asking:
        _wait(lambda: _is_reading(psutil.Process(asking.pid)))
        _wait(lambda: not psutil.Process(server.pid).children())  # one that declined is gone soon
        assert asking.communicate("+4")[0] == ANSWER


def test_it_ends_once_a_file_has_changed_that_it_imported(paths: Paths, tmp_path: Path) -> None:
    module = tmp_path / "changing_module.py"
    module.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        with serving(paths, "changing_module") as server:
            asking = ask(paths, "17+23")
            fork_of(server, asking)
            asking.communicate("+4")
            module.write_text("CHANGED = True")
            asking = ask(paths, "17+23")
            assert asking.communicate("+4")[0] == ANSWER
            server.wait(30)


def test_a_garbled_request_costs_only_its_fork(
    paths: Paths, server: subprocess.Popen[bytes]
) -> None:
    from baton.platform.unix_sockets import connect

    for body in (b"", b"\0\0\0\4abc", b"\0\0\0\3a\0b", b"\xff" * 100):
        with connect(paths.front_socket, 5) as connection:
            connection.sendall(body)
            connection.shutdown(1)
            assert not connection.recv(100)
    assert not is_over(psutil.Process(server.pid))
    assert ask(paths, "17+23").communicate("+4")[0] == ANSWER
