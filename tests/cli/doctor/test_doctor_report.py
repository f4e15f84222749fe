"""What the self-test reports can be shown to anybody; what it compares and where it plays."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from baton.cli.doctor import check_list, function_checks, program_checks
from baton.cli.doctor.check import CheckFailed, CheckResult, CheckState, self_test_context
from baton.cli.doctor.doctor_report import HIDDEN, Scrubber, write_report
from baton.core.errors import StoreError
from baton.platform.build_info import BuildInfo
from baton.workers.local import starter
from support.command_line import Call

SECRET = "tango-7f3a9c2e5b8d4160"
CANARIES = {
    "OPENAI_API_KEY": f"sk-{SECRET}-openai-0123456789",
    "HF_TOKEN": f"hf_{SECRET}",
    "MY_PASSWORD": f"pass-{SECRET}",
    "GITHUB_TOKEN": f"ghp_{SECRET}",
    "LOGNAME": "fitzwilliam",
    "USER": "fitzwilliam",
    "HOSTNAME": "pemberley",
}
CONFIG = f"""
worker = "{SECRET}-worker"
[cloud]
words = ["{SECRET}-word"]
[[workers]]
id = "{SECRET}-worker"
kind = "cloud"
model = "openai/{SECRET}-model"
base_url = "https://{SECRET}.example/v1"
api_key_env = "OPENAI_API_KEY"
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_report_shows_no_secret_no_name_and_no_home(form: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home" / "fitzwilliam"
    config = home / "baton" / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(CONFIG)
    # Parts that fall over, saying as much as they can.
    (home / "pint.py").write_text(
        "import socket; raise ImportError(f'{__file__} {socket.gethostname()} me@example.org')"
    )
    said = " ".join([*CANARIES.values(), f"password: {SECRET}-typed"])
    (home / "dateutil.py").write_text(f"raise ImportError({said!r})")
    environ = {
        **os.environ,
        **CANARIES,
        "HOME": str(home),
        "BATON_HOME": str(home / "baton"),
        "PYTHONPATH": str(home),
    }
    report = tmp_path / "report"
    code = (
        "from baton.cli.doctor import check_list\n"
        "check_list.self_test.__defaults__ = (('build', 'units', 'keyring', 'zones'),)\n"
        "from baton.cli import main\n"
        "main()"
    )
    command = [sys.executable, "-P", "-c", code, "doctor", "--self-test", "--report", str(report)]
    done = subprocess.run([*command, *form], env=environ, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    if not form:
        assert "Broken: units" in done.stderr
        assert f"The report is in {report}." in done.stderr
    written = report.read_text()
    assert written.count(HIDDEN) > 5
    assert "pint can't be loaded (ImportError:" in written
    assert "~/pint.py" in written
    for private in (SECRET, "fitzwilliam", str(tmp_path), "me@example.org", socket.gethostname()):
        assert private not in written
    if form:
        assert json.loads(written)["status"] == "failed"


def test_names_are_hidden_as_words_and_paths_by_the_longest() -> None:
    scrubber = Scrubber(
        (("/home/ann/baton", "$BATON_HOME"), ("/home/ann", "~")), ("s3cret",), ("ann",)
    )
    clean = scrubber.clean
    assert clean("/home/ann/baton/x of Ann's, planned") == f"$BATON_HOME/x of {HIDDEN}'s, planned"
    assert clean("/home/ann/y /home/annex") == "~/y /home/annex"
    assert clean("xs3cretx") == f"x{HIDDEN}x"


def test_the_words_that_a_person_has_hidden_are_hidden_here_too(home: Path) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[cloud]\nwords = ["Netherfield"]\n')
    assert Scrubber.from_environ(os.environ).clean("at Netherfield Park") == f"at {HIDDEN} Park"


@pytest.fixture
def doctor(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the doctor, whose only check is what it was built as."""
    monkeypatch.setattr(check_list.self_test, "__defaults__", (("build",),))
    return partial(call, "doctor", "--self-test")


def test_a_missing_folder_is_reported_before_anything_is_tried(
    doctor: Call, tmp_path: Path
) -> None:
    done = doctor("--report", str(tmp_path / "no" / "r"))
    assert (done.code, done.out) == (1, "")
    assert "there is no such folder. Name another file: `--report FILE`." in done.err


def thesis(file: Path) -> None:
    file.write_text("Years of work: Report of `baton doctor`.")


def data(file: Path) -> None:
    file.write_text('{"schema": 1, "status": "finished", "baton": {}, "checks": []}')


def replace_by_link(file: Path) -> None:
    thesis(file.with_name("other"))
    file.symlink_to("other")


def replace_by_dangling_link(file: Path) -> None:
    file.symlink_to("nowhere")


@pytest.mark.parametrize(
    "make", [thesis, data, replace_by_link, replace_by_dangling_link, os.mkfifo]
)
def test_what_is_no_report_is_never_overwritten(
    doctor: Call, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    file = tmp_path / "mine"
    make(file)
    before = {path: path.lstat() for path in tmp_path.iterdir()}
    done = doctor("--report", str(file))
    assert (done.code, done.out) == (1, ""), "reported before anything is tried"
    assert done.err.endswith(
        f"{file} is there already and is no report of Baton's: it was left as it is."
        " Name another file: `--report FILE`.\n"
    )
    after = {path: path.lstat() for path in tmp_path.iterdir()}
    assert [(s.st_ino, s.st_size, s.st_mtime_ns) for s in after.values()] == [
        (s.st_ino, s.st_size, s.st_mtime_ns) for s in before.values()
    ]


def test_an_earlier_report_gives_way_and_so_does_an_empty_file(
    doctor: Call, tmp_path: Path
) -> None:
    file = tmp_path / "report"
    file.touch(mode=0o644)
    for form in ([], ["--json"], [], []):
        assert doctor("--report", str(file), *form).code == 0
        assert file.read_text().startswith("{" if form else "Report of")
        assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_what_came_meanwhile_is_not_overwritten_either(tmp_path: Path) -> None:
    file = tmp_path / "report"
    thesis(file)
    with pytest.raises(StoreError, match="is no report of Baton's"):
        write_report(file, [CheckResult("x", CheckState.OK, "y")], False)
    assert file.read_text().startswith("Years")


def test_a_report_that_finds_no_room_leaves_the_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "report"
    write_report(file, [CheckResult("x", CheckState.OK, "first")], False)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"can't be written .*File too large"):
            write_report(file, [CheckResult("x", CheckState.OK, "y")] * 1000, False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "first" in file.read_text()
    assert list(tmp_path.iterdir()) == [file]


# Its folder


def test_it_plays_where_there_is_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr("baton.cli.doctor.check.MIN_FREE_BYTES", 1 << 70)
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
    for module in (program_checks, function_checks):
        monkeypatch.setattr(module, "build_info", lambda: facts)


async def check_result(name: str) -> CheckResult:
    (only,) = [finding async for finding in check_list.self_test([name])]
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
    assert (await check_result("answer")).state is CheckState.BROKEN
    as_built(monkeypatch, "slim")
    check = await check_result("answer")
    assert (check.state, check.text[:27]) == (CheckState.OK, "no model inside, as meant; ")
    assert times(home) == {}
    imported = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "baton", "models", "import", str(model), "--link"),
        stdin=asyncio.subprocess.DEVNULL,
    )
    assert await imported.wait() == 0
    before = times(home)
    check = await check_result("answer")
    assert (check.state, "tokens" in check.text) == (CheckState.OK, True), check.text
    assert times(home) == before


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
