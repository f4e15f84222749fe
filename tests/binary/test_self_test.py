"""The packaged binary proves that it works, and notices what was left out of it or broke.

Two checks are kept apart. `contents` compares all files with the list that was made with them. But
a build that never had a file has a list without it: then the parts themselves must miss it. So each
compiled library is taken away with its line in the list.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from baton_self_test.library_parts import PARTS

pytestmark = pytest.mark.binary

UNUSED = (
    # Python's own that Baton's processes don't import.
    rf"/lib-dynload/(?!({'|'.join(PARTS['cpython'].modules)})\.)",
    r"/lib(readline|tinfo|sqlite3)\.so",
    # What libraries bring along for tests, or for work that Baton doesn't have them do.
    r"_testcapi|_(multiarray|umath|rational|operand_flag|struct_ufunc)_tests|numpy/fft/",
    r"google/_upb/|regex/|litellm/rust_bridge/|aiohttp/_websocket/",
    r"onnxruntime/capi/libonnxruntime_providers_shared",
    # Compiled for other processors than this one.
    r"libggml-cpu-",
)
"""Compiled libraries that may be left out of a build; they are still in its list."""


BEFORE_BATON = r"/(_struct|zlib)\."
"""What the first lines of PyInstaller import: without them it ends before Baton can say a word."""

SHARES = 8
"""In how many tests libraries are taken away: each takes a minute or two."""


@dataclass
class BuildCopy:
    """A folder build of which files are taken away for a while."""

    source: Path
    folder: Path

    def __post_init__(self) -> None:
        shutil.copytree(self.source, self.folder, symlinks=True, copy_function=_link)
        self.listed = (self.folder / "MANIFEST").read_text().splitlines(keepends=True)

    def without(self, path: str, *, listed: bool) -> None:
        """Take a file away, with its line in the list unless that is kept."""
        (self.folder / path).unlink()
        if not listed:
            self._list([line for line in self.listed if not line.endswith(f" {path}\n")])

    def restore(self, path: str) -> None:
        (self.folder / path).unlink(missing_ok=True)
        _link(str(self.source / path), str(self.folder / path))
        self._list(self.listed)

    def _list(self, lines: list[str]) -> None:
        (self.folder / "MANIFEST").unlink()  # the other end of the link stays as it is
        (self.folder / "MANIFEST").write_text("".join(lines))

    def libraries(self) -> list[str]:
        """Return the compiled libraries whose absence must be noticed."""
        entries = [line.rstrip("\n").split(" ", 4) for line in self.listed]
        paths = [path for kind, *_, path in entries if kind == "f"]  # what a link names is a file
        found = [p for p in paths if re.search(r"\.(so|dylib|pyd|dll)(\.|$)", p)]
        return [path for path in found if not any(re.search(odd, path) for odd in UNUSED)]

    def first_fault(self, home: Path) -> str:
        """Start the self-test and return the first fault that it reports, or why it can't start.

        Without `_datetime` msgspec crashes in the front itself: a signal is all that is said then.
        """
        command = [str(self.folder / "baton"), "doctor", "--self-test"]
        with subprocess.Popen(
            command,
            env={"HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                if line.startswith("broken"):
                    process.terminate()
                    process.stdout.read()
                    return line
            status = process.wait()
            return process.stderr.read() or f"ended with {status}" if status else ""


def _link(source: str, target: str) -> object:
    """Copy a file at no cost, where the disk can."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


@pytest.fixture(scope="module")
def copy(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildCopy]:
    place = tmp_path_factory.mktemp("copy")
    yield BuildCopy(folder.parent, place / "baton")
    shutil.rmtree(place)


@pytest.mark.parametrize("which", ["single", "slim", "folder"])
def test_it_works(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Nothing but a home is known: no path, no locale, nothing temporary that is named."""
    home, report = tmp_path / "home", tmp_path / "report"
    home.mkdir()
    program = str(request.getfixturevalue(which))
    done = subprocess.run(
        [program, "doctor", "--self-test", "--json", "--report", str(report)],
        env={"HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    expected = json.loads(done.stdout)
    assert [check for check in expected["checks"] if check["state"] == "broken"] == []
    assert (done.returncode, expected["status"]) == (0, "finished")
    checks = {check["name"]: check["text"] for check in expected["checks"]}
    assert "files are as they were built" in checks["contents"]
    assert ("no model inside, as meant" in checks["model"]) == (which == "slim")
    assert str(tmp_path) not in report.read_text()
    left = {path.relative_to(home).parts[:3] for path in home.rglob("*") if path.is_file()}
    unpacked = {(".cache", "baton", "app"), ("Library", "Caches", "baton")}
    assert not left or (which != "folder" and left <= unpacked)


def test_a_copy_as_it_is_has_no_fault(copy: BuildCopy, tmp_path: Path) -> None:
    assert copy.first_fault(tmp_path) == ""


def test_a_missing_file_is_named(copy: BuildCopy, tmp_path: Path) -> None:
    """One of each kind of file: the list is compared from its first line to its last."""
    paths = [line.rstrip("\n").split(" ", 4)[4] for line in copy.listed]
    kinds = {Path(path).suffix: path for path in paths if path != "baton"}
    assert len(kinds) > 5
    missed = {}
    for path in kinds.values():
        copy.without(path, listed=True)
        missed[path] = copy.first_fault(tmp_path)
        copy.restore(path)
    assert [
        path for path, expected in missed.items() if f"{path} (is missing)" not in expected
    ] == []


@pytest.mark.parametrize("share", range(SHARES))
def test_each_compiled_library_is_missed_where_it_is_used(
    share: int, copy: BuildCopy, tmp_path: Path
) -> None:
    libraries = copy.libraries()
    assert len(libraries) > 50
    missed = {}
    for path in libraries[share::SHARES]:
        copy.without(path, listed=False)
        missed[path] = copy.first_fault(tmp_path)
        copy.restore(path)
    assert [path for path, expected in missed.items() if not expected] == []
    spoken = {
        path: expected for path, expected in missed.items() if not re.search(BEFORE_BATON, path)
    }
    assert [path for path, expected in spoken.items() if "Traceback" in expected] == []
