"""Updating, over a real child process and real releases: nothing is taken that isn't right."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from baton.core.errors import BatonError
from baton.download import ReleaseSource
from baton.install.installation import Installation
from baton.install.updater import FoundRelease, ReleaseStanding, Updater, UpdateResult
from support.packaged_machine import Machine, machine, serve_release
from support.sample_releases import PLATFORM, keys, program
from support.update_processes import NEW, OLD

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is a folder build")

BINARY = f"baton-{NEW}-{PLATFORM}"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def releases() -> Iterator[ReleaseSource]:
    """One child for all."""
    environ = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    source = ReleaseSource(environ=environ)
    yield source
    asyncio.run(source.aclose())


def make_updater(own: Machine, releases: ReleaseSource) -> Updater:
    installation = Installation(
        own.world.target, own.world.home / "state", own.world.home / "cache"
    )
    return Updater(own.built, installation, releases, offline=False)


async def update(updates: Updater, source: str | Path) -> FoundRelease:
    with updates.installation.hold_lock():
        found = await updates.find_release(str(source))
        async with aclosing(updates.update(found)) as steps:
            last = [step async for step in steps][-1]
    assert isinstance(last, UpdateResult)
    return found


def flip(path: Path, at: int = 1000) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1
    path.write_bytes(data)


def _other_key(own: Machine, release: Path) -> None:
    other, _ = keys(own.folder / "others")
    content = (release / "manifest.json").read_bytes()
    (release / "manifest.json.sig").write_text(other.sign(content).hex())


def _truncate(own: Machine, release: Path) -> None:
    data = (release / BINARY).read_bytes()
    (release / BINARY).write_bytes(data[:-1])


def _later_schema(own: Machine, release: Path) -> None:
    own.resign(release, schema=2)


def _rename_file(name: str) -> Callable[[Machine, Path], None]:
    def spoil(own: Machine, release: Path) -> None:
        (own.folder / "evil").write_bytes((release / BINARY).read_bytes())
        own.resign(release, file={"name": name})

    return spoil


NO_LIST = r"nothing at http\S+/manifest\.json\.|manifest\.json can't be read: it isn't there"

FAULTS: dict[str, tuple[Callable[[Machine, Path], object], str]] = {
    "a byte of the binary": (lambda own, release: flip(release / BINARY), "other contents"),
    "a byte of the list": (lambda own, release: flip(release / "manifest.json"), "signature"),
    "a byte of the signature": (
        lambda own, release: (release / "manifest.json.sig").write_text("0" * 128),
        "signature is wrong",
    ),
    "no signature in it": (
        lambda own, release: (release / "manifest.json.sig").write_text("trust me"),
        "signature isn't one",
    ),
    "no signature": (lambda own, release: (release / "manifest.json.sig").unlink(), "sig"),
    "no list": (lambda own, release: (release / "manifest.json").unlink(), NO_LIST),
    "another key": (_other_key, "signature is wrong"),
    "an endless list": (
        lambda own, release: own.sign(release, b" " * (2 << 20)),
        r"far too long|doesn't end",
    ),
    "no JSON": (lambda own, release: own.sign(release, b"{"), "list can't be read"),
    "a deep list": (lambda own, release: own.sign(release, b"[" * 100_000), "can't be read"),
    "a list without files": (lambda own, release: own.resign(release, files=[]), "has no file"),
    "a later kind of list": (_later_schema, "in a way that this version doesn't know"),
    "a name that climbs": (_rename_file("../evil"), "list is wrong about '../evil'"),
    "a name from the root": (_rename_file("/etc/passwd"), "list is wrong about '/etc/passwd'"),
    "a name of a terminal's": (_rename_file("baton\x1b]0;x\x07"), "list is wrong about"),
    "another version's name": (_rename_file(f"baton-0.1.0-{PLATFORM}"), "list is wrong about"),
    "no size": (lambda own, release: own.resign(release, file={"size": 0}), "list is wrong about"),
    "no hash": (lambda own, release: own.resign(release, file={"sha256": ""}), "wrong about"),
    "no version": (lambda own, release: own.resign(release, version="../9"), "list is wrong about"),
    "another platform": (
        lambda own, release: own.resign(release, file={"platform": "macos-arm64"}),
        f"has no file for {PLATFORM}, full",
    ),
    "only a folder": (
        lambda own, release: own.resign(release, file={"kind": "folder"}),
        "has no file for",
    ),
    "one that is too short": (_truncate, r"bytes where|other contents|something else"),
    "no binary": (lambda own, release: (release / BINARY).unlink(), "isn't there|nothing at http"),
}


SLOW = [("one that is too short", "address")]
"""It is asked for again several times."""


@pytest.mark.parametrize(
    ("fault", "way"),
    [
        pytest.param(fault, way, marks=pytest.mark.long if (fault, way) in SLOW else ())
        for fault in FAULTS
        for way in ("folder", "address")
    ],
)
async def test_what_is_wrong_is_not_taken(
    own: Machine, releases: ReleaseSource, fault: str, way: str
) -> None:
    release = own.publish()
    spoil, why = FAULTS[fault]
    spoil(own, release)
    with serve_release(release) as mirror:
        where = mirror.address if way == "address" else release
        with pytest.raises(BatonError, match=why) as raised:
            await update(make_updater(own, releases), where)
    assert "\x1b" not in str(raised.value)
    assert raised.value.hint
    assert own.is_as_before
    assert not list(own.world.target.parent.glob(".baton-update/baton*"))
    # and the right one is taken after it
    await update(make_updater(own, releases), own.publish(name="right"))
    assert own.world.version() == NEW


@pytest.mark.parametrize(
    ("says", "why"),
    [("baton 0.9.9", "has the version 0.9.9"), ("hello", "doesn't start here: hello")],
)
async def test_a_new_version_that_does_not_start_is_not_taken(
    own: Machine, releases: ReleaseSource, says: str, why: str
) -> None:
    release = own.publish(programs={("full", ""): program(NEW, says=says)})
    with pytest.raises(BatonError, match=why):
        await update(make_updater(own, releases), release)
    assert own.is_as_before
    assert not own.world.staging.exists()


@pytest.mark.parametrize(
    ("here", "there", "standing"),
    [
        ("0.2.0rc1", "0.2.0", ReleaseStanding.NEWER),
        ("0.2.0", "0.2.0rc2", ReleaseStanding.OLDER),
        ("0.2.0a3", "0.2.0b1", ReleaseStanding.NEWER),
        ("0.9.0", "0.10.0", ReleaseStanding.NEWER),
        ("0.10.0", "0.9.9", ReleaseStanding.OLDER),
        ("0.3.0", "0.3.0", ReleaseStanding.EQUAL),
        ("0.1.0", "0.1.0", ReleaseStanding.HERE),
    ],
)
async def test_versions_have_an_order(
    own: Machine, releases: ReleaseSource, here: str, there: str, standing: ReleaseStanding
) -> None:
    own.become(version=here)
    if here != OLD:
        (own.world.share / "install.json").unlink()
    found = await make_updater(own, releases).find_release(str(own.publish(there)))
    assert found.standing is standing


async def test_what_was_stopped_continues_and_what_is_stopped_changes_nothing(
    own: Machine, releases: ReleaseSource
) -> None:
    from support.http_server import Fault

    content = program(NEW, size=3_000_000)
    updates = make_updater(own, releases)
    with serve_release(own.publish(programs={("full", ""): content})) as mirror:
        mirror.fault[BINARY] = Fault(rate=4_000_000)
        with updates.installation.hold_lock():
            found = await updates.find_release(mirror.address)
            async with aclosing(updates.update(found)) as steps:
                async for step in steps:
                    if not isinstance(step, UpdateResult) and step.done > 1_000_000:
                        break
        assert own.is_as_before
        assert [path.suffix for path in own.world.staging.iterdir()] == [".partial"]
        mirror.fault.clear()
        await update(updates, mirror.address)
        assert own.world.target.read_bytes() == content
        assert mirror.seen[-1].start > 500_000
