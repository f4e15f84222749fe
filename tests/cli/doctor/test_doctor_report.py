"""What the doctor reports can be shown to anybody."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from baton.cli.doctor import setup_checks
from baton.cli.doctor.check import CheckResult, CheckState
from baton.cli.doctor.doctor_report import HIDDEN, Scrubber, write_report
from baton.core.errors import StoreError
from support.command_line import Call

PACKAGING = Path(__file__).parents[3] / "packaging"

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
        f"import sys; sys.path.append({str(PACKAGING)!r})\n"
        "import baton_self_test\n"
        "baton_self_test.run_self_test.__defaults__ = (('build', 'units', 'test key', 'zones'),)\n"
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


def test_the_words_that_a_user_has_hidden_are_hidden_here_too(home: Path) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[cloud]\nwords = ["Netherfield"]\n')
    assert Scrubber.from_environ(os.environ).clean("at Netherfield Park") == f"at {HIDDEN} Park"


@pytest.fixture
def doctor(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the doctor, whose only check is what it was built as."""
    monkeypatch.setattr(setup_checks, "CHECKS", setup_checks.CHECKS[:1])
    return partial(call, "doctor")


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
def test_what_is_not_a_report_is_never_overwritten(
    doctor: Call, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    file = tmp_path / "mine"
    make(file)
    before = {path: path.lstat() for path in tmp_path.iterdir()}
    done = doctor("--report", str(file))
    assert (done.code, done.out) == (1, ""), "reported before anything is tried"
    assert done.err.endswith(
        f"{file} is there already and isn't a report of Baton: it was left as it is."
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
    with pytest.raises(StoreError, match="isn't a report of Baton"):
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
