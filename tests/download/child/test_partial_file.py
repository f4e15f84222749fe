"""What a download leaves on the disk and shows of itself, without a server."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from baton.download.child import partial_file as partials, transfer, transfer as reports
from baton.download.child.hub_client import Stopped
from baton.download.child.partial_file import PartialFile
from baton.download.child.transfer import PartialHasher, ProgressReport
from baton.download.messages import Phase, Progress
from baton.ipc.parent_channel import Failure


@pytest.fixture
def partial(tmp_path: Path) -> Iterator[PartialFile]:
    with PartialFile(tmp_path / "x.partial", 10) as partial:
        yield partial


def test_nothing_is_changed_once_it_is_closed(partial: PartialFile) -> None:
    partial.append(b"12345")
    partial.etag = '"one"'
    partial.close()
    changes: list[Callable[[], object]] = [
        lambda: partial.append(b"6"),
        partial.restart,
        lambda: setattr(partial, "etag", '"two"'),
    ]
    for change in changes:
        with pytest.raises(Stopped):
            change()
    assert partial.path.read_bytes() == b"12345"
    assert partial.etag == '"one"'


def test_a_disk_that_failed_once_is_not_believed_again(
    partial: PartialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed sync, a second one says that all is well although it is not."""
    failing = [OSError(5, "Input/output error")]

    def fsync(_: int) -> None:
        if failing:
            raise failing.pop()

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            partial.sync()


def test_its_name_is_on_disk_before_it_is_reported(
    partial: PartialFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder holds the name: after a power cut it must still be there."""
    partial.append(b"12345")
    partial.close()
    target, synced = tmp_path / "models" / "x", []
    target.parent.mkdir()

    def fsync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, target.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    partial.move_to(target)
    assert (target.parent.stat().st_ino, True) in synced
    assert target.read_bytes() == b"12345"


def test_it_is_brought_to_the_disk_while_it_grows(
    partial: PartialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partials, "SYNC_BYTES", 4)
    monkeypatch.setattr(partials, "NOTIFY_BYTES", 1)
    called, times = threading.Event(), []

    def fsync(_: int) -> None:
        times.append(partial.size)
        called.set()

    monkeypatch.setattr(os, "fsync", fsync)
    syncing = threading.Thread(target=partial.keep_syncing, daemon=True)
    syncing.start()
    for _ in range(2):
        called.clear()
        partial.append(b"123")  # not enough yet
        partial.append(b"45")
        assert called.wait(30)
    partial.close()
    syncing.join(30)
    assert not syncing.is_alive()
    assert times == [5, 10]


def test_a_partial_that_was_cut_by_another_program_is_an_error(partial: PartialFile) -> None:
    partial.append(b"0123456789")
    os.truncate(partial.path, 5)
    ending = threading.Timer(30, partial.close)
    ending.start()
    try:
        with pytest.raises(OSError, match="was truncated"):
            PartialHasher(partial).run()
    finally:
        ending.cancel()


def test_what_is_restarted_is_hashed_again(partial: PartialFile) -> None:
    partial.append(b"01234")
    found: list[str] = []
    following = threading.Thread(
        target=lambda: found.append(PartialHasher(partial).run()), daemon=True
    )
    following.start()
    partial.restart()
    partial.append(b"abcdefghij")
    following.join(30)
    assert found == [hashlib.sha256(b"abcdefghij").hexdigest()]


def test_a_watcher_is_woken_when_it_is_restarted(partial: PartialFile) -> None:
    waits = threading.Event()

    def watch() -> None:
        with partial.changed:
            waits.set()
            partial.changed.wait_for(lambda: partial.epoch == 1)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    assert waits.wait(30)
    partial.restart()
    watching.join(10)
    assert not watching.is_alive()


def test_hashing_waits_for_what_comes(partial: PartialFile) -> None:
    """It may take hours: one that looks again and again would keep a core busy."""
    waits, looks, known = [0], [0], threading.Event()

    class CountingCondition(threading.Condition):
        def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
            looks[0] += 1
            if looks[0] > 20:
                known.set()
            return super().wait_for(predicate, timeout)

        def wait(self, timeout: float | None = None) -> bool:
            waits[0] += 1
            known.set()
            return super().wait(timeout)

    partial.changed = CountingCondition()
    partial.append(b"01234")
    found: list[str] = []
    following = threading.Thread(
        target=lambda: found.append(PartialHasher(partial).run()), daemon=True
    )
    following.start()
    assert known.wait(30)
    assert (waits, looks) == ([1], [1])
    partial.append(b"56789")
    following.join(30)
    assert found == [hashlib.sha256(b"0123456789").hexdigest()]


def test_what_restarts_has_no_speed_below_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(reports, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    steps: list[Progress] = []
    report = ProgressReport(steps.append, 1000)
    for seconds, done in ((1.0, 100), (2.0, 300), (3.0, 50), (4.0, 150)):
        now.seconds = seconds
        report(Phase.DOWNLOADING, done)
    assert [step.done for step in steps] == [100, 300, 300, 300], "never backwards"
    assert [step.speed for step in steps] == [0.0, 200.0, 0.0, 100.0]
    assert steps[-1].left == pytest.approx(8.5)


def test_a_phase_is_reported_at_once_and_then_not_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(reports, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    steps: list[Progress] = []
    report = ProgressReport(steps.append, 1000)
    for seconds, phase, done in (
        (1.00, Phase.DOWNLOADING, 0),
        (1.05, Phase.DOWNLOADING, 100),
        (2.00, Phase.DOWNLOADING, 200),
        (2.05, Phase.VERIFYING, 200),
        (2.06, Phase.VERIFYING, 300),
        (3.05, Phase.VERIFYING, 300),
    ):
        now.seconds = seconds
        report(phase, done)
    assert [(step.phase, step.done, round(step.speed)) for step in steps] == [
        (Phase.DOWNLOADING, 0, 0),
        (Phase.DOWNLOADING, 200, 200),
        (Phase.VERIFYING, 200, 0),
        (Phase.VERIFYING, 300, 100),
    ]


def test_a_wait_is_part_of_what_is_left() -> None:
    steps: list[Progress] = []
    ProgressReport(steps.append, 1000)(Phase.DOWNLOADING, 0, wait=7.0)
    assert steps[0].left == 7.0


def test_a_disk_needs_more_room_than_what_is_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_free(free: int) -> Any:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    with_free(1_099_999)
    with pytest.raises(Failure, match="The disk has no room"):
        transfer.check_room(tmp_path, 1_000_000, "m.gguf")
    with_free(1_100_000)
    transfer.check_room(tmp_path, 1_000_000, "m.gguf")
    with_free(0)
    transfer.check_room(tmp_path, 0, "m.gguf")
