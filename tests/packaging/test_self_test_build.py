"""Where the self-test works, and what it says of a build: its files, its flavour."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from baton_self_test import function_checks, program_checks, run_self_test
from baton_self_test.context import self_test_context

from baton.cli.doctor import setup_checks
from baton.cli.doctor.check import CheckFailed, CheckResult, CheckState
from baton.core.errors import StoreError
from baton.platform.build_info import BuildInfo
from baton.workers.local import starter

# Its folder


def test_it_executes_where_there_is_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(home.parent / "missing"))
    with self_test_context() as place:
        assert place.folder is not None
        assert place.folder.parent == place.own.cache
    assert not list(place.own.cache.iterdir())
    place.own.cache.rmdir()
    place.own.cache.touch()
    with pytest.raises(StoreError, match="needs 16 MB of room"), self_test_context():
        pass


def test_it_does_not_begin_where_there_is_no_room(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("baton_self_test.context.MIN_FREE_BYTES", 1 << 70)
    with pytest.raises(StoreError, match="No space left"), self_test_context():
        pass
    assert not list(tmp_path.rglob("*self-test*"))


# What was packed

Change = Callable[[Path], object]


def make_packed_folder(folder: Path) -> Path:
    """Make a small folder with the list of its files, as packaging/launcher/pack.py writes it."""
    (folder / "lib" / "a b").mkdir(parents=True)
    program, library, link = folder / "baton", folder / "lib" / "a b" / "x.so", folder / "lib" / "y"
    program.write_bytes(b"program")
    program.chmod(0o755)
    library.write_bytes(b"library")
    link.symlink_to("a b/x.so")
    lines = []
    for kind, mode, file in (("f", 755, program), ("f", 644, library), ("l", 777, link)):
        data = os.fsencode(file.readlink()) if kind == "l" else file.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        lines.append(f"{kind} 0{mode} {len(data)} {digest} {file.relative_to(folder)}\n")
    (folder / "MANIFEST").write_text("".join(lines))
    return folder


def test_a_folder_as_it_was_packed_is_right(tmp_path: Path) -> None:
    found = program_checks.compare_with_manifest(make_packed_folder(tmp_path / "baton"))
    assert found == "all 3 files are as they were built, 22 B"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "lib" / "a b" / "x.so").unlink(), "lib/a b/x.so (is missing)"),
        (lambda folder: (folder / "baton").write_bytes(b"proGram"), "baton (was changed)"),
        (lambda folder: (folder / "baton").chmod(0o644), "baton (may not be executed)"),
        (lambda folder: (folder / "lib" / "z.py").touch(), "lib/z.py (doesn't belong there)"),
        (lambda folder: (folder / "lib" / "y").unlink(), "lib/y (is missing)"),
        (lambda folder: _change_link(folder / "lib" / "y"), "lib/y (was changed)"),
        (lambda folder: (folder / "MANIFEST").unlink(), "(MANIFEST) can't be read"),
        (lambda folder: (folder / "MANIFEST").write_text(""), "(MANIFEST) can't be read"),
        (lambda folder: (folder / "MANIFEST").write_text("f\n"), "(MANIFEST) can't be read"),
    ],
)
def test_every_change_in_it_is_reported(tmp_path: Path, change: Change, message: str) -> None:
    folder = make_packed_folder(tmp_path / "baton")
    change(folder)
    with pytest.raises(CheckFailed, match=re.escape(message)):
        program_checks.compare_with_manifest(folder)


def _change_link(link: Path) -> None:
    link.unlink()
    link.symlink_to("a b")


def as_built(monkeypatch: pytest.MonkeyPatch, flavour: str, version: str = "0.1.0") -> None:
    """Have the doctor take this for a packaged binary."""
    facts = BuildInfo(version, flavour, "linux-x86_64", commit="c0ffee")
    for module in (setup_checks, function_checks):
        monkeypatch.setattr(module, "build_info", lambda: facts)


async def check_result(name: str) -> CheckResult:
    (only,) = [finding async for finding in run_self_test([name])]
    return only


async def test_a_build_says_what_it_is_and_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    as_built(monkeypatch, "full")
    check = await check_result("build")
    assert (check.state, "baton 0.1.0 (full linux-x86_64), built of c0ffee" in check.text) == (
        CheckState.OK,
        True,
    )
    as_built(monkeypatch, "full", "0.0.9")
    assert (await check_result("build")).state is CheckState.BROKEN


# Without a model inside


@pytest.mark.sampled(0.34)
async def test_the_slim_flavour_says_that_no_model_is_inside_and_uses_the_persons(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = starter().path
    monkeypatch.setattr("baton.workers.local.model_file.STARTER_PACKAGE", "no_such_package")
    as_built(monkeypatch, "full")
    assert (await check_result("model")).state is CheckState.BROKEN
    as_built(monkeypatch, "slim")
    check = await check_result("model")
    assert (check.state, check.text[:27]) == (CheckState.OK, "no model inside, as meant; ")
    assert times(home) == {}
    imported = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "baton", "models", "import", str(model), "--link"),
        stdin=asyncio.subprocess.DEVNULL,
    )
    assert await imported.wait() == 0
    before = times(home)
    check = await check_result("model")
    assert (check.state, "tokens" in check.text) == (CheckState.OK, True), check.text
    assert times(home) == before


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
