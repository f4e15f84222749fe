"""The background process: who may borrow from it, what they share, and when it ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path

import psutil
import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.messages import Text
from baton.ipc import borrower as borrowing, lending_protocol as lending, messages, supervisor
from baton.ipc.borrower import Borrower
from baton.ipc.lending_protocol import Description, Stop
from baton.ipc.process import ModelOrder
from baton.platform import unix_sockets
from baton.routing import LearnedRouter
from baton.routing.learned_router import candidates
from baton.workers.local import LocalWorker, starter
from support.lent_models import (
    STORY,
    STORY_TOKENS,
    borrowing_process,
    borrowing_worker,
    front,
    have_ended,
    lender,
    processes_of,
)
from support.local_worker_calls import CAPITAL, ask, request

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not unix_sockets.IS_SUPPORTED, reason="models are not lent here"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of the background process that the tests share."""
    return tmp_path_factory.mktemp("home") / "state"


@pytest.fixture(scope="module")
def lent(folder: Path) -> Iterator[Description]:
    """A background process that holds the starter model."""
    with lender(folder) as found:
        yield found


def open_files(pid: int) -> dict[int, str]:
    """Return what a process has open, by descriptor."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(link.name)] = str(link.readlink())
    return found


def connect(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    with unix_sockets.socket_address(folder / lending.SOCKET_NAME) as address:
        connection.connect(address)
    return connection


async def listen_until_text(worker: LocalWorker, then: Callable[[], object]) -> None:
    """Ask for a long answer, and do something with each piece of it."""
    async with aclosing(worker.stream(request(STORY))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                then()


async def test_two_fronts_share_one_process(folder: Path, lent: Description) -> None:
    first, second = borrowing_worker(folder), borrowing_worker(folder)
    answers = await asyncio.gather(
        ask(first, CAPITAL), ask(second, "What is the capital of Italy?")
    )
    assert ["Paris" in answers[0].text, "Rome" in answers[1].text] == [True, True]
    assert first.process == second.process == lent.children[0].pid
    await first.aclose()
    assert "Paris" in (await ask(second, CAPITAL)).text, "one that leaves ends nothing"
    assert second.process == lent.children[0].pid
    await second.aclose()
    assert not have_ended(processes_of(lent), 0)


async def test_a_front_that_is_killed_takes_no_answer_of_another_with_it(
    folder: Path, lent: Description
) -> None:
    """Its own is cancelled: the processor works for much less than the whole of it."""
    runner, worker = psutil.Process(lent.children[0].pid), borrowing_worker(folder)

    def worked() -> float:
        times = runner.cpu_times()
        return times.user + times.system

    before = worked()
    await ask(worker, STORY, max_tokens=STORY_TOKENS)
    whole = worked() - before
    with front("ask", str(folder), STORY) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline().split()[0]) == runner.pid
        before = worked()
        task = asyncio.create_task(ask(worker, CAPITAL))
        other.kill()
        assert "Paris" in (await task).text
    assert worked() - before < whole / 2
    assert worker.process == runner.pid
    await worker.aclose()


async def test_stopping_an_answer_leaves_the_shared_process(
    folder: Path, lent: Description
) -> None:
    worker = borrowing_worker(folder)
    async with aclosing(worker.stream(request(STORY))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                break
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert worker.process == lent.children[0].pid
    await worker.aclose()


def test_nothing_is_inherited_from_the_front(folder: Path, lent: Description) -> None:
    place = Path(f"/proc/{lent.pid}")
    if not place.exists():
        pytest.skip("this system has no /proc")
    targets = open_files(lent.pid)
    assert [targets[number] for number in range(3)] == [os.devnull] * 3
    assert not [
        target for target in targets.values() if target.startswith(("/dev/pts", "/dev/tty"))
    ]
    files = [
        target for target in targets.values() if target.startswith("/") and target != os.devnull
    ]
    assert files == [str(folder / lending.LOCK_NAME)]
    pipes = [target for target in targets.values() if target.startswith("pipe:")]
    own = {target for child in lent.children for target in open_files(child.pid).values()}
    assert len(pipes) == len({"stdin", "stdout", "stderr", "the fork server's stdin"})
    assert set(pipes) <= own, "the pipes are those of its children"
    for process in processes_of(lent):
        assert process.cwd() == "/"
        assert process.terminal() is None
        assert os.getsid(process.pid) == process.pid
        names = process.environ()
        assert not [one for one in names if one.endswith("_API_KEY") or one.startswith("BATON_")]


def test_the_socket_is_private(folder: Path, lent: Description) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / lending.SOCKET_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / lending.LOCK_NAME).stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused(folder: Path, lent: Description) -> None:
    """Even where the modes of files would let it in."""
    code = f"""
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(20)
connection.connect({str(folder / lending.SOCKET_NAME)!r})
try:
    connection.sendall({messages.encode(Stop())!r})
    print(connection.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
    opened = [*[p for p in folder.parents if p != Path("/")], folder, folder / lending.SOCKET_NAME]
    before = [(path, stat.S_IMODE(path.stat().st_mode)) for path in opened]
    try:
        for path, mode in before:
            path.chmod(mode | 0o077)
        done = subprocess.run(
            ["/usr/bin/env", "python3", "-c", code],
            user=65534,
            group=65534,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for path, mode in before:
            path.chmod(mode)
    assert done.stdout.strip() == "b''", done.stderr
    assert not have_ended(processes_of(lent), 0), "what it asked was not done"


@pytest.mark.parametrize("what", ["build", "protocol"])
async def test_a_background_process_of_another_version_is_not_used(
    folder: Path, lent: Description, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "build":
        monkeypatch.setattr(lending, "own_build", lambda: "of another version")
    else:
        monkeypatch.setattr(lending, "PROTOCOL", lending.PROTOCOL + 1)
    worker = borrowing_worker(folder)
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert worker.process not in {child.pid for child in lent.children}
    await worker.aclose()
    assert not have_ended(processes_of(lent), 0), "it is left to end"


async def test_malformed_frames_harm_nobody(folder: Path, lent: Description) -> None:
    borrow = borrowing.borrow_request(worker_order(), lending_replies())
    assert borrow is not None
    for data in (
        b"",
        b"\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x09{}",
        struct.pack(">I", 2) + b"{}",
        struct.pack(">I", 4) + b"\xff\xfe\x00\x01",
        struct.pack(">I", 16) + b'{"type":"bogus"}',
        struct.pack(">I", 100_000) + b"[" * 100_000,
        messages.encode(borrow)[:-1],
        messages.encode(borrow) + struct.pack(">I", 4) + b"null",
        messages.encode(borrow) + struct.pack(">I", 14) + b'{"type":"ask"}',
        messages.encode(borrow) + struct.pack(">I", 21) + b'{"type":"ask","id":1}',
        messages.encode(borrow) + struct.pack(">I", 24) + b'{"type":"cancel","id":7}',
    ):
        with connect(folder) as connection, suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    worker = borrowing_worker(folder)
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert worker.process == lent.children[0].pid
    await worker.aclose()


async def test_a_request_that_makes_no_sense_is_over_at_once(
    folder: Path, lent: Description
) -> None:
    """Else it would look like an answer that can't be stopped, and the child be ended for it."""
    borrow = borrowing.borrow_request(worker_order(), lending_replies())
    assert borrow is not None
    replies = messages.reply_decoder(lending_replies() | lending.Lent)
    with connect(folder) as connection, connection.makefile("rb") as stream:
        connection.sendall(messages.encode(borrow))
        connection.sendall(struct.pack(">I", 24) + b'{"type":"bogus","id":31}')
        received = (messages.read(stream, replies) for _ in range(20))  # one beat a second
        failed = next(reply for reply in received if isinstance(reply, messages.Failed))
    assert failed.id == 31


def worker_order() -> ModelOrder:
    """Return what the starter's worker asks for."""
    kept: list[ModelOrder] = []

    class Noting(Borrower):
        def borrow(self, order: ModelOrder, replies: object) -> None:
            kept.append(order)

    process = borrowing_process(None)
    process._find_borrower = lambda: Noting(Path("/"))
    process.warm()
    process.unload()
    return kept[0]


def lending_replies() -> object:
    from baton.workers.local.messages import REPLIES

    return REPLIES


async def test_prompts_leave_nothing_on_disk(folder: Path, lent: Description) -> None:
    word = "Xylographic-7731"
    worker = borrowing_worker(folder)
    await ask(worker, f"Repeat the word {word}.", max_tokens=8)
    await worker.aclose()
    names = set(os.listdir(folder)) - {lending.FORKS_NAME}  # noqa: PTH208
    assert names == {lending.LOCK_NAME, lending.SOCKET_NAME}
    assert not os.stat(folder / lending.LOCK_NAME).st_size  # noqa: PTH116


async def test_homes_never_mix(folder: Path, lent: Description, tmp_path: Path) -> None:
    other = tmp_path / "state"
    other.mkdir(mode=0o700)
    worker = borrowing_worker(other)
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert worker.process not in {child.pid for child in lent.children}
    await worker.aclose()


async def test_a_router_is_shared(folder: Path, lent: Description) -> None:
    routers = [LearnedRouter(find_borrower=lambda: Borrower(folder)) for _ in range(2)]
    roster = candidates([starter().card])
    for router in routers:
        async with asyncio.timeout(60):
            while await router.estimate("What is the capital of France?", roster) is None:
                assert not router.trouble
                await asyncio.sleep(0.1)
    assert routers[0].pid == routers[1].pid is not None
    found = Borrower(folder).description()
    assert found is not None
    assert ("scorer", routers[0].pid) in [(child.kind, child.pid) for child in found.children]
    for router in routers:
        await router.aclose()
    assert psutil.pid_exists(next(c.pid for c in found.children if c.kind == "scorer"))


async def test_killed_in_mid_answer_it_takes_its_children_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with lender(folder) as found:
        processes = processes_of(found)
        worker = borrowing_worker(folder)
        with pytest.raises(WorkerUnavailable, match="background process") as failure:
            await listen_until_text(worker, lambda: os.kill(found.pid, signal.SIGKILL))
        assert "What it had written is kept." in str(failure.value)
        assert have_ended(processes), "they end within two seconds"
        assert "Paris" in (await ask(worker, CAPITAL)).text, "the next one has a child of its own"
        assert worker.process not in {process.pid for process in processes}
        await worker.aclose()
        assert (folder / lending.SOCKET_NAME).exists(), "a stale socket is passed over"


async def test_one_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(borrowing, "ANSWER_SECONDS", 0.3)
    folder = tmp_path / "state"
    with lender(folder) as found:
        worker = borrowing_worker(folder)
        os.kill(found.pid, signal.SIGSTOP)
        worker.warm()  # asks, gets no answer in time, and starts its own
        monkeypatch.undo()
        os.kill(found.pid, signal.SIGCONT)
        assert "Paris" in (await ask(worker, CAPITAL)).text
        assert worker.process not in {child.pid for child in found.children}
        await worker.aclose()


async def test_a_shared_child_that_dies_is_a_death_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.1, 0.1, 0.1))
    folder = tmp_path / "state"
    with lender(folder) as found:
        workers = [borrowing_worker(folder) for _ in range(2)]
        for worker in workers:
            await ask(worker, CAPITAL)
        os.kill(found.children[0].pid, signal.SIGKILL)
        again = await asyncio.gather(*(ask(worker, CAPITAL) for worker in workers))
        assert ["Paris" in answer.text for answer in again] == [True, True]
        assert workers[0].process != found.children[0].pid
        for worker in workers:
            await worker.aclose()


async def test_it_ends_when_it_was_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with lender(folder, idle=0.2) as found:
        assert have_ended(processes_of(found), 30)
        assert not (folder / lending.SOCKET_NAME).exists()


async def test_it_ends_when_asked_to(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with lender(folder) as found:
        processes = processes_of(found)
        assert Borrower(folder).stop()
        assert have_ended(processes, 0.5)
        assert not Borrower(folder).stop()


async def test_a_file_that_has_changed_is_not_lent_any_more(tmp_path: Path) -> None:
    folder, model = tmp_path / "state", tmp_path / "model.gguf"
    shutil.copy(starter().path, model)
    with lender(folder, model=model) as found:
        runner, again = psutil.Process(found.children[0].pid), tmp_path / "again.gguf"
        shutil.copy(model, again)
        again.rename(model)
        worker = borrowing_worker(folder, model)
        assert "Paris" in (await ask(worker, CAPITAL)).text
        assert worker.process != found.children[0].pid
        assert have_ended([runner], 10)
        await worker.aclose()


async def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("there is no lending with such a path")
    folder = tmp_path / ("f" * 120) / "state"
    folder.parent.mkdir(mode=0o700)
    with lender(folder) as found:
        worker = borrowing_worker(folder)
        assert "Paris" in (await ask(worker, CAPITAL)).text
        assert worker.process == found.children[0].pid
        await worker.aclose()


async def test_memory_is_given_back_for_a_larger_model(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with lender(folder) as found:
        runner = psutil.Process(found.children[0].pid)
        assert Borrower(folder).free_memory()
        assert have_ended([runner], 1)
