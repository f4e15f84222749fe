"""Getting a file over real HTTP from a hub that fails, sends wrong bytes, is silent or busy."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from baton.core.catalogue_types import ModelOffer, Source
from baton.download.child import partial_file as partials, transfer
from baton.download.child.http_download import HttpDownload, RetryPolicy
from baton.download.child.hub_client import HubClient, Stopped
from baton.download.child.partial_file import NOTIFY_BYTES, PartialFile
from baton.download.messages import Phase
from baton.ipc.parent_channel import Failure
from support.download_processes import (
    FILE,
    QUICK,
    REPO,
    ProgressLog,
    offer_in,
    offer_without_hash,
    partial_of,
)
from support.fake_hub import Fault, Hub
from support.http_server import ServedRequest

SIZE = 700_000
CONTENT = random.Random(1).randbytes(SIZE)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        hub.add(REPO, {FILE: CONTENT})
        yield hub


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "models" / "m" / FILE


def fetch(
    hub: Hub,
    offer: ModelOffer,
    target: Path,
    progress: ProgressLog | None = None,
    patience: float = 0.3,
) -> str:
    progress = progress or ProgressLog()
    with closing(HubClient({**hub.environ, "HF_HUB_DOWNLOAD_TIMEOUT": str(patience)})) as web:
        return transfer.fetch(offer, target, progress, progress.should_stop, web=web, pace=QUICK)


def refusal(hub: Hub, offer: ModelOffer, target: Path) -> dict[str, Any]:
    """Return what a fetch says that must fail."""
    with pytest.raises(Failure) as failure:
        fetch(hub, offer, target)
    assert not target.exists()
    return asdict(failure.value.failed)


def name_of(value: object) -> str:
    if not isinstance(value, Fault):
        return str(value)
    shown = (f"{name}={getattr(value, name)}"[:24] for name in value.__slots__)
    plain = {f"{name}={getattr(Fault(), name)}"[:24] for name in value.__slots__}
    return " ".join(one for one in shown if one not in plain)


# How it goes well


def test_a_file_comes_and_nothing_else_stays(hub: Hub, target: Path) -> None:
    progress = ProgressLog()
    assert fetch(hub, offer_in(hub, SIZE), target, progress) == hashlib.sha256(CONTENT).hexdigest()
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == [FILE]
    assert progress.steps[-1].done == progress.steps[-1].total == SIZE
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.parent.stat().st_mode & 0o777 == 0o700


def test_what_is_here_is_only_verified(hub: Hub, target: Path) -> None:
    fetch(hub, offer_in(hub, SIZE), target)
    asked, progress = len(hub.log), ProgressLog()
    fetch(hub, offer_in(hub, SIZE), target, progress)
    assert len(hub.log) == asked
    assert progress.phases == {Phase.VERIFYING}


def test_a_broken_file_of_that_name_is_noticed_and_fetched_again(hub: Hub, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(CONTENT[:-1] + b"?" * (CONTENT[-1:] != b"?"))
    assert "other contents" in refusal(hub, offer_in(hub, SIZE), target)["message"]
    target.write_bytes(b"short")
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    "fault",
    [
        Fault(cut=100_000),
        Fault(cut=100_000, reset=True),
        Fault(cut=100_000, stall=True),
        Fault(cut=0),
        Fault(cut=0, stall=True),
        Fault(rate=5_000_000),
        Fault(status=429, retry_after=0),
        Fault(status=500),
        Fault(status=503, retry_after=0),
        Fault(status=520),
        Fault(status=403),
        Fault(status=404),
        Fault(status=416),
        Fault(length=1000),
        Fault(length=-1000),
        Fault(unsized=True),
        Fault(unsized=True, cut=5000),
        Fault(status=200, body=b"Please log in to this network."),
        Fault(status=204),
        Fault(status=206, body=CONTENT),
    ],
    ids=name_of,
)
def test_what_goes_wrong_once_is_got_over(hub: Hub, target: Path, fault: Fault) -> None:
    hub.fault(fault)
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "fault",
    [Fault(whole=True), Fault(shift=1), Fault(shift=-1), Fault(shift=SIZE), Fault(length=7)],
    ids=name_of,
)
def test_only_the_part_that_was_asked_for_is_taken(hub: Hub, target: Path, fault: Fault) -> None:
    hub.fault(Fault(cut=300_000))
    hub.fault(fault)
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT
    assert hub.contents()[1].start in (0, 300_000)


def test_an_address_that_has_expired_is_signed_again(hub: Hub, target: Path) -> None:
    expired: list[bool] = []

    def choose(seen: ServedRequest) -> None:
        if seen.kind == "store" and not expired:
            expired.append(True)
            hub.expire()

    hub.choose = choose
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT
    assert [seen.status for seen in hub.contents(FILE)] == [403, 200]


def test_a_server_that_asks_to_wait_is_waited_for(hub: Hub, target: Path) -> None:
    hub.fault(Fault(status=429, retry_after=1), on="resolve")
    progress = ProgressLog()
    fetch(hub, offer_in(hub, SIZE), target, progress)
    waits = [step.left for step in progress.steps if step.phase is Phase.DOWNLOADING and step.left]
    assert waits
    assert max(waits) <= 1
    assert target.read_bytes() == CONTENT


def test_what_came_before_the_pause_is_not_fetched_again(hub: Hub, target: Path) -> None:
    for stop_at in (200_000, 400_000):
        hub.fault(Fault(cut=200_000, stall=True))
        with pytest.raises(Stopped):
            fetch(hub, offer_in(hub, SIZE), target, ProgressLog(stop_at), patience=60)
        assert not target.exists()
        assert partial_of(offer_in(hub, SIZE), target).stat().st_size == stop_at
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT
    hub.quiet()
    assert hub.served() == SIZE


def test_speed_and_what_is_left_are_shown(hub: Hub, target: Path) -> None:
    hub.choose = lambda seen: Fault(rate=1_000_000) if seen.kind == "store" else None
    progress = ProgressLog()
    fetch(hub, offer_in(hub, SIZE), target, progress)
    known = [step for step in progress.steps if step.speed]
    assert known
    assert all(50_000 < step.speed < 20_000_000 for step in known)
    assert all(
        step.left == pytest.approx((step.total - step.done) / step.speed)
        for step in known
        if step.phase is Phase.DOWNLOADING
    )


def test_a_server_that_says_nothing_holds_no_pause_up(hub: Hub, target: Path) -> None:
    """It answers only when the fetch is over: were it waited for, that would never be."""
    over = threading.Event()
    answered: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answerer = threading.Thread(
            target=_answer_after, args=(silent, over, answered), daemon=True
        )
        answerer.start()
        offer = ModelOffer(
            Source(url=f"http://127.0.0.1:{silent.getsockname()[1]}/m.gguf"), SIZE, "a"
        )
        with pytest.raises(Stopped):
            fetch(hub, offer, target, ProgressLog(0))
        assert not answered
        over.set()
        answerer.join()
    assert not target.exists()


def _answer_after(silent: socket.socket, over: threading.Event, answered: list[bool]) -> None:
    connection, _ = silent.accept()
    with connection:
        over.wait()
        answered.append(True)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
        connection.recv(1)


def test_a_body_that_came_whole_is_the_end(hub: Hub, target: Path) -> None:
    """The connection stays open, so nothing but its length says that it is whole."""
    looks = 0

    class StoppingProgress(ProgressLog):
        def should_stop(self) -> bool:
            nonlocal looks
            looks += self.steps[-1].done == SIZE if self.steps else 0
            return looks > 100

    progress = StoppingProgress()
    assert fetch(hub, offer_in(hub, SIZE), target, progress, patience=3600)
    assert Phase.DOWNLOADING in progress.phases


def test_what_comes_is_brought_to_the_disk_meanwhile(
    hub: Hub, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partials, "SYNC_BYTES", 1)
    monkeypatch.setattr(partials, "NOTIFY_BYTES", 100_000)
    synced = threading.Event()

    def fsync(file: int) -> None:
        if stat.S_ISREG(os.fstat(file).st_mode):  # folders are, too
            synced.set()

    monkeypatch.setattr(os, "fsync", fsync)

    class StoppingProgress(ProgressLog):
        def should_stop(self) -> bool:
            return synced.is_set()

    hub.fault(Fault(cut=400_000, stall=True), times=0)
    with pytest.raises(Stopped):
        fetch(hub, offer_in(hub, SIZE), target, StoppingProgress(), patience=3)


def test_attempts_that_each_bring_something_may_be_many(hub: Hub, target: Path) -> None:
    """Two in a row that bring nothing would end it."""
    hub.fault(Fault(cut=1 << 16), times=0)
    with closing(HubClient(hub.environ)) as web:
        pace = RetryPolicy(max_failures=2, first_pause=0.0, max_pause=0.0)
        transfer.fetch(
            offer_in(hub, SIZE), target, ProgressLog(), lambda: False, web=web, pace=pace
        )
    assert target.read_bytes() == CONTENT


def test_what_was_stopped_asks_no_more(hub: Hub, target: Path) -> None:
    """It is stopped while it waits before its next attempt."""
    hub.fault(Fault(status=503, retry_after=3600), on="resolve", times=0)
    target.parent.mkdir(parents=True)
    offer, pace = (
        offer_in(hub, SIZE),
        RetryPolicy(max_failures=3, first_pause=0.0, max_pause=0.0, max_retry_after=9999),
    )
    with (
        closing(HubClient(hub.environ)) as web,
        PartialFile(partial_of(offer, target), SIZE) as begun,
    ):
        puller = HttpDownload(web, offer, begun, pace)
        begun.close()
        with pytest.raises(Stopped):
            puller.run()
    assert len(hub.log) == 1


# How it fails


def test_a_server_that_is_not_there_is_said(hub: Hub, target: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/m.gguf"
    fields = refusal(hub, ModelOffer(Source(url=url), SIZE, "a" * 64), target)
    assert "can't be reached: nothing listens there" in fields["message"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault(wrong=1234), "ModelFileError", "other contents"),
        (Fault(wrong=SIZE - 1), "ModelFileError", "other contents"),
        (Fault(cut=0), "WorkerUnavailable", "broke"),
        (Fault(cut=0, stall=True), "WorkerUnavailable", "The server stopped answering"),
        (Fault(length=1), "ModelFileError", "something else"),
        (Fault(length=-1), "ModelFileError", "something else"),
        (Fault(status=200, body=b"Please log in."), "ModelFileError", "something else"),
        (Fault(status=200, body=CONTENT + b"!", unsized=True), "ModelFileError", "longer"),
        (Fault(status=200, body=CONTENT[:-1], unsized=True), "WorkerUnavailable", "broke"),
        (Fault(status=206, body=CONTENT), "ModelFileError", "something else"),
        (Fault(status=416), "ModelFileError", "something else"),
        (Fault(status=500), "WorkerUnavailable", "failed"),
        (Fault(status=403), "WorkerUnavailable", "although its source led there"),
        (Fault(status=429, retry_after=100_000), "WorkerUnavailable", "no more requests"),
    ],
    ids=name_of,
)
def test_what_goes_wrong_always_is_said(
    hub: Hub, target: Path, fault: Fault, error: str, words: str
) -> None:
    hub.fault(fault, times=0)
    fields = refusal(hub, offer_in(hub, SIZE), target)
    assert fields["error"] == error
    assert words in fields["message"]
    assert fields["hint"]
    hub.clear_faults()
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == [FILE]


def test_a_server_that_never_gives_the_right_part_brings_nothing(hub: Hub, target: Path) -> None:
    hub.fault(Fault(cut=300_000))
    hub.fault(Fault(shift=5), times=0)
    fields = refusal(hub, offer_in(hub, SIZE), target)
    assert "another part" in fields["message"]
    assert "300.0 kB of 700.0 kB are here and kept" in fields["message"]
    assert partial_of(offer_in(hub, SIZE), target).read_bytes() == CONTENT[:300_000]


def test_wrong_contents_are_deleted(hub: Hub, target: Path) -> None:
    hub.fault(Fault(wrong=5))
    assert "was deleted" in refusal(hub, offer_in(hub, SIZE), target)["message"]
    assert list(target.parent.iterdir()) == []


def test_what_was_torn_by_a_power_cut_is_not_believed(hub: Hub, target: Path) -> None:
    partial = partial_of(offer_in(hub, SIZE), target)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:200_000] + bytes(100_000))
    refusal(hub, offer_in(hub, SIZE), target)
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT


def test_a_partial_that_is_too_long_is_restarted(hub: Hub, target: Path) -> None:
    partial = partial_of(offer_in(hub, SIZE), target)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT + b"!")
    fetch(hub, offer_in(hub, SIZE), target)
    assert target.read_bytes() == CONTENT


def test_another_file_at_its_source_is_not_fetched(hub: Hub, target: Path) -> None:
    old = offer_in(hub, SIZE)
    offer = ModelOffer(Source(REPO, FILE, "main"), SIZE, old.sha256)
    hub.add(REPO, {FILE: CONTENT[::-1]})
    said = f"{FILE} is another file at its source now, so it was not fetched."
    assert refusal(hub, offer, target)["message"] == said
    assert list(target.parent.iterdir()) == []
    fetch(hub, old, target)  # the commit of then is still there
    assert target.read_bytes() == CONTENT


def test_what_needs_an_account_is_said_at_once(hub: Hub, target: Path) -> None:
    hub.add(REPO, {FILE: CONTENT}, gated="auto")
    fields = refusal(hub, offer_in(hub, SIZE), target)
    assert fields["error"] == "SecretMissing"
    assert len(hub.log) == 1


def test_a_disk_without_room_is_noticed_before(hub: Hub, target: Path) -> None:
    offer = ModelOffer(Source(REPO, FILE, "main"), 10**15, "a" * 64)
    fields = refusal(hub, offer, target)
    assert fields["error"] == "ModelFileError"
    assert "TB more are needed" in fields["message"]
    assert hub.log == []


def test_a_folder_that_can_not_be_written_is_said(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert "can't be kept" in refusal(hub, offer_in(hub, SIZE), tmp_path / "file" / FILE)["message"]


def test_a_file_of_unknown_length_is_not_fetched(hub: Hub, target: Path) -> None:
    assert (
        "is unknown" in refusal(hub, ModelOffer(Source(REPO, FILE, "main"), 0), target)["message"]
    )


# Where no hash vouches for the contents


def test_contents_without_a_hash_are_pinned_as_they_come(hub: Hub, target: Path) -> None:
    hub.fault(Fault(cut=300_000))
    assert fetch(hub, offer_without_hash(hub, SIZE), target) == hashlib.sha256(CONTENT).hexdigest()
    assert target.read_bytes() == CONTENT
    assert [seen.start for seen in hub.contents()] == [0, 300_000]
    assert "if-range" in hub.contents()[1].headers
    assert [path.name for path in target.parent.iterdir()] == [FILE]


def test_two_versions_are_never_mixed(hub: Hub, target: Path) -> None:
    hub.fault(Fault(cut=200_000, stall=True))
    with pytest.raises(Stopped):
        fetch(hub, offer_without_hash(hub, SIZE), target, ProgressLog(200_000), patience=60)
    new = CONTENT[::-1]
    hub.add(REPO, {FILE: new})
    fetch(hub, offer_without_hash(hub, SIZE), target)
    assert target.read_bytes() == new


def test_a_part_from_before_the_machine_was_started_is_not_used(hub: Hub, target: Path) -> None:
    hub.fault(Fault(cut=200_000, stall=True))
    with pytest.raises(Stopped):
        fetch(hub, offer_without_hash(hub, SIZE), target, ProgressLog(200_000), patience=60)
    [partial] = target.parent.glob("*.partial")
    size = partial.stat().st_size
    partial.write_bytes(bytes(size))  # what a power cut may leave: the length, and no contents
    os.utime(partial, (1, 1))
    fetch(hub, offer_without_hash(hub, SIZE), target)
    assert target.read_bytes() == CONTENT
    assert hub.contents()[-1].headers.get("range") is None


def test_a_part_of_another_version_throws_the_old_part_away(hub: Hub, target: Path) -> None:
    """A server that ignores If-Range sends the rest of a newer file."""
    hub.fault(Fault(cut=200_000, stall=True))
    with pytest.raises(Stopped):
        fetch(hub, offer_without_hash(hub, SIZE), target, ProgressLog(200_000), patience=60)
    new = CONTENT[::-1]
    hub.add(REPO, {FILE: new})
    hub.fault(Fault(careless=True))
    fetch(hub, offer_without_hash(hub, SIZE), target)
    assert target.read_bytes() == new
    assert [seen.headers.get("range") for seen in hub.contents()][-2:] == ["bytes=200000-", None]


def test_without_a_version_it_restarts(hub: Hub, target: Path) -> None:
    def choose(seen: ServedRequest) -> Fault | None:
        if seen.kind != "store":
            return None
        whole = len(hub.contents()) > 1
        body = CONTENT if whole else CONTENT[:300_000]
        return Fault(status=200, body=body, unsized=True)

    hub.choose = choose
    fetch(hub, offer_without_hash(hub, SIZE), target)
    assert target.read_bytes() == CONTENT
    assert [seen.headers.get("range") for seen in hub.contents()] == [None, None]


# Copies, and files that are there


def test_a_copy_is_checked_and_continues_where_it_ended(tmp_path: Path, target: Path) -> None:
    source, progress = tmp_path / "stick.gguf", ProgressLog()
    source.write_bytes(CONTENT)
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    partial = target.parent / f"{sha256}.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:123_456])
    assert transfer.copy(source, target, sha256, progress, progress.should_stop) == sha256
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == [FILE]
    assert progress.steps[0].done >= 123_456


@pytest.mark.parametrize("known", ["", hashlib.sha256(b"another").hexdigest()])
def test_a_copy_of_something_else_is_refused(tmp_path: Path, target: Path, known: str) -> None:
    source = tmp_path / "stick.gguf"
    source.write_bytes(CONTENT)
    if known:
        with pytest.raises(Failure, match="other contents"):
            transfer.copy(source, target, known, ProgressLog(), lambda: False)
        assert list(target.parent.iterdir()) == []
    else:
        found = transfer.copy(source, target, known, ProgressLog(), lambda: False)
        assert found == hashlib.sha256(CONTENT).hexdigest()
        assert target.read_bytes() == CONTENT


def test_the_hash_of_a_restarted_file_is_of_what_came_after(tmp_path: Path) -> None:
    new = os.urandom(3 * NOTIFY_BYTES)
    with PartialFile(tmp_path / "one.partial", len(new)) as partial:
        partial.append(b"-" * (2 * NOTIFY_BYTES))
        hasher = transfer.PartialHasher(partial)
        with ThreadPoolExecutor(1) as pool:
            hashing = pool.submit(hasher.run)
            while hasher.done < 2 * NOTIFY_BYTES and not hashing.done():
                time.sleep(0.001)
            partial.restart()
            partial.append(new)
            assert hashing.result(20) == hashlib.sha256(new).hexdigest()


def test_a_copy_of_unknown_contents_starts_over(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "stick.gguf"
    source.write_bytes(CONTENT)
    partial = partials.partial_path(target.parent, partials.partial_key("", source))
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"of another file")
    transfer.copy(source, target, "", ProgressLog(), lambda: False)
    assert target.read_bytes() == CONTENT


def test_a_file_of_one_byte_is_copied(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "one"
    source.write_bytes(b"1")
    transfer.copy(source, target, "", ProgressLog(), lambda: False)
    assert target.read_bytes() == b"1"


def test_a_file_is_read_and_hashed(tmp_path: Path) -> None:
    path, progress = tmp_path / "m.gguf", ProgressLog()
    path.write_bytes(CONTENT * 5)
    assert (
        transfer.hash_file(path, progress, progress.should_stop)
        == hashlib.sha256(CONTENT * 5).hexdigest()
    )
    assert progress.phases == {Phase.VERIFYING}
    assert progress.steps[0].done == transfer.READ_BYTES
    with pytest.raises(Stopped):
        transfer.hash_file(path, ProgressLog(), lambda: True)
    with pytest.raises(Failure, match="can't be read"):
        transfer.hash_file(tmp_path / "none", progress, progress.should_stop)
