"""Hundreds of ways to get a wrong file, none of which is ever taken for the right one."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from baton.core.catalogue_types import ModelOffer
from baton.download.child import transfer
from baton.download.child.hub_client import HubClient, Stopped
from baton.ipc.parent_channel import Failure
from support.download_processes import (
    FILE,
    QUICK,
    REPO,
    ProgressLog,
    here,
    offer_in,
    offer_without_hash,
    partial_of,
)
from support.fake_hub import Fault, Hub
from support.http_server import ServedRequest

SIZE = 300_000
CONTENT = random.Random(2).randbytes(SIZE)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        hub.add(REPO, {FILE: CONTENT})
        yield hub


@pytest.fixture(scope="module")
def web(hub: Hub) -> Iterator[HubClient]:
    with closing(HubClient({**hub.environ, "HF_HUB_DOWNLOAD_TIMEOUT": "5"})) as web:
        yield web


def corrupted_content(content: bytes, dice: random.Random) -> bytes:
    """Return content in which something is wrong."""
    at = dice.randrange(SIZE)
    match dice.randrange(5):
        case 0:
            return content[:at]
        case 1:
            return content + dice.randbytes(dice.randrange(1, 1000))
        case 2:
            return content[:at] + bytes([content[at] ^ 1 << dice.randrange(8)]) + content[at + 1 :]
        case 3:
            zeros = min(SIZE - at, 4096)
            return content[:at] + bytes(zeros) + content[at + zeros :]
        case _:
            return content[at:] + content[:at]


def wrong_answers(dice: random.Random) -> dict[str, Callable[[], Fault]]:
    """Return ways in which a store's answer may be wrong, each time in another place."""
    return {
        "flipped": lambda: Fault(wrong=dice.randrange(SIZE)),
        "cut": lambda: Fault(cut=dice.randrange(2)),
        "too short": lambda: Fault(length=-dice.randrange(1, SIZE)),
        "too long": lambda: Fault(length=dice.randrange(1, SIZE)),
        "other bytes": lambda: Fault(status=200, body=corrupted_content(CONTENT, dice)),
        "other bytes, no length": lambda: Fault(
            status=200, body=corrupted_content(CONTENT, dice), unsized=True
        ),
        "a part that was not asked for": lambda: Fault(
            status=206, body=corrupted_content(CONTENT, dice)
        ),
        "another part": lambda: Fault(shift=dice.choice((-1, 1, 4096, SIZE))),
        "all instead of a part": lambda: Fault(whole=True, wrong=dice.randrange(SIZE)),
        "a made up part": lambda: Fault(
            status=206,
            headers={"Content-Range": f"bytes {dice.randrange(9)}-{SIZE - 1}/{SIZE}"},
            body=corrupted_content(CONTENT, dice),
        ),
        "packed": lambda: Fault(
            status=200, headers={"Content-Encoding": "gzip"}, body=corrupted_content(CONTENT, dice)
        ),
        "no part": lambda: Fault(status=416, headers={"Content-Range": f"bytes */{SIZE}"}),
    }


@pytest.mark.parametrize("count", [36, pytest.param(504, marks=pytest.mark.long)])
def test_no_wrong_bytes_are_ever_accepted(
    hub: Hub, web: HubClient, tmp_path: Path, count: int
) -> None:
    dice, offer = random.Random(count), offer_in(hub, SIZE)
    ways = wrong_answers(dice)
    for number, kind in zip(range(count), list(ways) * count, strict=False):
        target = tmp_path / str(number) / FILE
        begun = dice.random() < 0.5 or kind == "another part"
        if begun:
            target.parent.mkdir()
            partial_of(offer, target).write_bytes(CONTENT[: dice.randrange(1, SIZE)])
        fault = ways[kind]()
        hub.fault(fault, times=0)
        try:
            transfer.fetch(offer, target, ProgressLog(), lambda: False, web=web, pace=QUICK)
        except Failure as failure:
            _is_clear(failure, target)
        else:  # what was wrong lay where nothing was wanted of it
            assert begun or kind == "cut", (kind, fault)
            assert target.read_bytes() == CONTENT
        finally:
            hub.clear_faults()
        _soon_right(offer, target, web)


def test_an_etag_of_another_file_is_noticed(hub: Hub, web: HubClient, tmp_path: Path) -> None:
    offer, target = offer_in(hub, SIZE), tmp_path / "m" / FILE
    for etag in ('"' + "0" * 64 + '"', 'W/"' + "f" * 64 + '"'):
        with closing(HubClient(hub.environ)) as fresh:
            address = fresh.address(offer.source)
            headers = {"X-Linked-Etag": etag}
            location = f"{address}?again"
            hub.fault(Fault(status=302, location=location, headers=headers), on="resolve")
            with pytest.raises(Failure, match="another file"):
                transfer.fetch(offer, target, ProgressLog(), lambda: False, web=fresh, pace=QUICK)
        assert not target.exists()
    _soon_right(offer, target, web)


def _is_clear(failure: Failure, target: Path) -> None:
    assert not target.exists()
    assert failure.failed.message.endswith(".")
    assert failure.failed.hint
    assert failure.failed.error in ("ModelFileError", "WorkerUnavailable")


def _soon_right(offer: ModelOffer, target: Path, web: HubClient) -> None:
    """Once nothing goes wrong any more it comes at once, or after what was wrong was deleted."""
    with suppress(Failure):
        transfer.fetch(offer, target, ProgressLog(), lambda: False, web=web, pace=QUICK)
    transfer.fetch(offer, target, ProgressLog(), lambda: False, web=web, pace=QUICK)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == [FILE]


# Whatever happens, in whichever order

EVENTS = st.one_of(
    st.builds(lambda at: Fault(cut=at), st.integers(0, SIZE)),
    st.builds(lambda at: Fault(cut=at, reset=True), st.integers(0, SIZE)),
    st.builds(lambda at: Fault(cut=at, unsized=True), st.integers(0, SIZE)),
    st.builds(lambda at: Fault(whole=True, cut=at), st.integers(0, SIZE)),
    st.builds(lambda at: Fault(wrong=at), st.integers(0, SIZE - 1)),
    st.builds(lambda by: Fault(shift=by), st.integers(-SIZE, SIZE)),
    st.sampled_from(
        [
            Fault(),
            Fault(whole=True),
            Fault(status=403),
            Fault(status=416),
            Fault(status=429, retry_after=0),
            Fault(status=503),
        ]
    ),
)
ENDS = st.one_of(
    st.none(),
    st.tuples(st.just("pause"), st.integers(0, SIZE)),
    st.tuples(st.just("cut"), st.integers(0, SIZE)),
    st.tuples(st.just("zeros"), st.integers(1, SIZE)),
)
"""How an attempt ends besides: by a pause, by a power cut that loses the end or leaves zeros."""


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(st.tuples(st.lists(EVENTS, max_size=6), ENDS), max_size=6), st.booleans())
def test_every_story_ends_with_the_right_file_or_a_sentence(
    hub: Hub,
    web: HubClient,
    attempts: list[tuple[list[Fault], tuple[str, int] | None]],
    vouched: bool,
) -> None:
    offer = offer_in(hub, SIZE) if vouched else offer_without_hash(hub, SIZE)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "m" / FILE
        lied = False
        for faults, end in attempts:
            lied = lied or (not vouched and any(fault.wrong is not None for fault in faults))
            _attempt(hub, web, offer, target, faults, end, lied=lied)
            if target.exists():
                break
        hub.clear_faults()
        if vouched:
            _soon_right(offer, target, web)


def _attempt(
    hub: Hub,
    web: HubClient,
    offer: ModelOffer,
    target: Path,
    faults: list[Fault],
    end: tuple[str, int] | None,
    *,
    lied: bool,
) -> None:
    """Try once; `lied` is whether wrong bytes may have come unnoticed."""
    left = list(faults)

    def choose(seen: ServedRequest) -> Fault | None:
        return left.pop(0) if left and seen.kind == "store" else None

    hub.choose = choose
    how, at = end or ("", 0)
    progress = ProgressLog(at if how == "pause" else None)
    try:
        found = transfer.fetch(offer, target, progress, progress.should_stop, web=web, pace=QUICK)
    except Stopped:
        assert not target.exists()
    except Failure as failure:
        _is_clear(failure, target)
    else:
        assert lied or target.read_bytes() == CONTENT
        assert lied or found == hub.sha256(REPO, FILE)
    _power_cut(partial_of(offer, target), how, at)


def _power_cut(partial: Path, how: str, at: int) -> None:
    if how not in ("cut", "zeros") or here(partial) <= at:
        return
    with partial.open("r+b") as file:
        if how == "cut":
            file.truncate(at)
        else:
            file.seek(-at, os.SEEK_END)
            file.write(bytes(at))
    os.utime(partial, (0, 0))  # it was long before this machine was started
