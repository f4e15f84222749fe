"""An update that is refused after its trial start leaves nothing of what that start unpacked."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from baton.core.errors import BatonError
from baton.download import ReleaseSource
from baton.install.installation import Installation, probe_version
from baton.install.unpack_cache import tree_key
from baton.install.updater import Updater
from support.packaged_machine import Machine, machine
from support.single_file import pack
from support.update_processes import NEW, OLD

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is a folder build")

SAYS = "#!/bin/sh\necho baton {}\n"
SLEEPS = "#!/bin/sh\nexec sleep 60\n"


@pytest.fixture
def releases() -> Iterator[ReleaseSource]:
    supply = ReleaseSource(environ={})
    yield supply
    asyncio.run(supply.aclose())


@pytest.fixture
def own(tmp_path: Path, launcher: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with an old version that was started there, and one before it."""
    own = machine(tmp_path, monkeypatch)
    own.world.target.write_bytes(single(own, launcher, SAYS.format(OLD)))
    subprocess.run([own.world.target, "--version"], check=True, capture_output=True)
    return own


def single(own: Machine, launcher: Path, script: str) -> bytes:
    """Return a single file with a script in it."""
    inside, file = own.folder / "inside", own.folder / "single"
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir()
    (inside / "baton").write_text(script)
    (inside / "baton").chmod(0o755)
    pack.pack(inside, file, launcher, level=1)
    return file.read_bytes()


def app(own: Machine) -> Path:
    return own.world.home / "cache" / "app"


def remaining_files(own: Machine) -> set[str]:
    return {path.name for path in app(own).iterdir()}


def publish_update(own: Machine, content: bytes) -> Path:
    """Publish that as the newer version, and return its file."""
    release = own.publish(programs={("full", ""): content})
    (file,) = release.glob("baton-*")
    return file


def refused_update(own: Machine, releases: ReleaseSource, release: Path) -> BatonError:
    """Try to update to that."""
    home = own.world.home
    installation = Installation(own.world.target, home / "state", home / "cache")
    updates = Updater(own.built, installation, releases, offline=False)

    async def update() -> None:
        with installation.hold_lock():
            found = await updates.find_release(str(release))
            async with aclosing(updates.update(found)) as steps:
                async for _ in steps:
                    pass

    with pytest.raises(BatonError) as raised:
        asyncio.run(update())
    assert not own.world.staging.exists()
    return raised.value


@pytest.mark.sampled(1)
@pytest.mark.parametrize("script", [SAYS.format("0.9.9"), "#!/bin/sh\nexit 1\n"])
def test_its_tree_goes_at_once(
    own: Machine, releases: ReleaseSource, launcher: Path, script: str
) -> None:
    before = remaining_files(own)
    file = publish_update(own, single(own, launcher, script))
    refused_update(own, releases, file.parent)
    assert (
        remaining_files(own)
        == before
        == {tree_key(own.world.target), f"{tree_key(own.world.target)}.lock", "lock"}
    )


def test_a_tree_in_use_stays(own: Machine, releases: ReleaseSource, launcher: Path) -> None:
    """A user has started that version by hand."""
    file = publish_update(own, single(own, launcher, SAYS.format("0.9.9")))
    subprocess.run([file, "--version"], check=True, capture_output=True)
    key = tree_key(file)
    with (app(own) / f"{key}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        refused_update(own, releases, file.parent)
        assert (app(own) / key / "baton").exists()
        assert f"{key}.lock" in remaining_files(own)


@pytest.mark.parametrize("whose", ["target", "previous"])
def test_a_tree_of_a_version_that_is_kept_stays(
    own: Machine, releases: ReleaseSource, launcher: Path, whose: str
) -> None:
    """A release may hold the same tree under another version, with another launcher."""
    kept = own.world.target if whose == "target" else own.world.share / "previous"
    content = single(own, launcher, SAYS.format(OLD))
    kept.write_bytes(content)
    file = publish_update(own, content + b"a signature")
    subprocess.run([file, "--version"], check=True, capture_output=True)
    assert tree_key(file) == tree_key(kept)
    refused_update(own, releases, file.parent)
    assert (app(own) / tree_key(kept) / "baton").exists()


def test_one_that_does_not_end_leaves_no_half_of_a_tree(own: Machine, launcher: Path) -> None:
    """It is asked to end first, so that it can remove what it was just unpacking."""
    file = own.folder / "slow"
    file.write_bytes(single(own, launcher, SLEEPS))
    file.chmod(0o755)
    before = remaining_files(own)
    with app(own).joinpath("lock").open() as lock:  # so that it waits before it unpacks
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BatonError, match="not done after"):
            asyncio.run(probe_version(file, patience=0.5))
    assert remaining_files(own) - before == {f"{tree_key(file)}.lock"}


def test_what_is_not_a_single_file_has_no_key(tmp_path: Path, launcher: Path, own: Machine) -> None:
    content = single(own, launcher, SAYS.format(NEW))
    for name, changed in {
        "empty": b"",
        "text": b"\0Baton's payload, they say",
        "damaged": content[:-60] + b"x" + content[-59:],
        "cut": content[:-1],
    }.items():
        (tmp_path / name).write_bytes(changed)
        assert tree_key(tmp_path / name) == "", name
    assert tree_key(tmp_path / "nowhere") == ""
