"""The self-test passes here, and each of its checks fails when what it looks at is broken."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import baton_self_test
import pytest
from baton_self_test import program_checks
from baton_self_test.library_parts import PARTS

import baton
from baton.cli.doctor.check import CheckResult, CheckState
from baton.core.messages import Message, Role
from baton.core.money import BilledTokens, Price
from baton.core.plan_types import Material, Plan
from baton.workers.local import starter

pytestmark = pytest.mark.sampled(0.34)

APP = Path(baton.__file__).resolve().parents[1]
ROOT = APP.parent

LEFT_OUT = {
    "cmake": "only builds llama.cpp",
    "hf-xet": "huggingface_hub's own transfer; Baton has its own",
    "litellm": "its bridge to Rust traces its server, which isn't run; a request is written",
    "llama-cpp-python": "the check llama.cpp loads it, the check answer uses it",
    "ninja": "only builds llama.cpp",
    "protobuf": "onnxruntime's tools for making models",
    "regex": "tiktoken's own cutting of texts, which litellm would use to guess a price",
}
"""Packages with compiled code that no part proves, and why."""


async def check_results(*only: str) -> dict[str, CheckResult]:
    return {finding.name: finding async for finding in baton_self_test.run_self_test(only)}


def with_self_test(*folders: Path) -> dict[str, str]:
    """Return the environment in which a checkout has the self-test, and these folders before it."""
    path = os.pathsep.join(map(str, [*folders, ROOT / "packaging"]))
    return {**os.environ, "PYTHONPATH": path}


def states(findings: Iterable[CheckResult]) -> dict[str, CheckState]:
    return {finding.name: finding.state for finding in findings}


# It passes, and covers


@pytest.mark.sampled(0.25)
def test_all_of_it_passes_here_and_nothing_is_left(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environ = {**with_self_test(), "TMPDIR": str(temporary)}
    report = tmp_path / "report.json"
    done = baton_doctor("--self-test", "--json", "--report", str(report), environ=environ)
    output = json.loads(done.stdout)
    found = {check["name"]: (check["state"], check["text"]) for check in output["checks"]}
    assert not [check for check in found.items() if check[1][0] == "broken"]
    assert (done.returncode, output["status"], done.stderr) == (0, "finished", "")
    assert tuple(found) == tuple(baton_self_test.CHECKS)
    assert "a second" in found["model"][1]
    assert "$0.006" in found["ledger"][1]
    assert not home.exists()
    assert not list(temporary.iterdir())
    written = json.loads(report.read_text())
    assert written["checks"] == output["checks"]
    assert report.stat().st_mode & 0o777 == 0o600


def test_every_package_with_compiled_code_is_tried() -> None:
    locked = re.findall(
        r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    proved = {package for part in PARTS.values() for package in part.packages}
    assert proved <= set(locked)
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        files = (name in locked and distribution.files) or ()
        if any(re.search(r"\.(so|pyd|dylib)\b", file.name) for file in files):
            assert (name in proved) != (name in LEFT_OUT), name


def test_as_many_templates_are_wanted_as_there_are() -> None:
    assert (
        len(list((APP / "baton" / "workers" / "templates").glob("*.toml")))
        == program_checks.MIN_TEMPLATES
    )


# Parts

HIDDEN = {
    "cpython": "_bz2",
    "pysqlite3": "pysqlite3",
    "msgspec": "tomlkit",
    "psutil": "psutil",
    "certificates": "certifi",
    "hubs": "huggingface_hub",
    "keyrings": "keyring",
    "jinja": "jinja2",
    "jsonschema": "rpds",
    "units": "pint",
    "words": "text_to_num",
    "zones": "dateutil",
} | {name: name for name in ("numpy", "onnxruntime", "tokenizers", "cryptography", "litellm")}
"""For each part something without which it can't be."""


def at_start(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have every child run some code when it starts."""
    (folder / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def hide(folder: Path, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Have children not find some modules."""
    for module in modules:
        (folder / f"{module}.py").write_text(f"raise ImportError('no {module} here')")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_each_part_has_something_that_can_be_missed() -> None:
    assert set(HIDDEN) | {"bundle", baton_self_test.TEST_KEY} == set(PARTS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", HIDDEN)
async def test_each_part_is_missed(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(tmp_path, monkeypatch, HIDDEN[part])
    finding = (await check_results(part))[part]
    assert finding.state is CheckState.BROKEN
    if part != "pysqlite3":  # which falls back on Python's own, and that is too old
        assert f"no {HIDDEN[part]} here" in finding.text
    assert ".venv" in finding.text


BAD = {
    "pysqlite3": "import pysqlite3; pysqlite3.sqlite_version_info = (3, 40, 0);"
    "pysqlite3.sqlite_version = '3.40.0'",
    "certificates": "import certifi, ssl; certifi.where = lambda: ssl.__file__",
    "zones": "import zoneinfo, sys; zoneinfo.reset_tzpath(()); sys.modules['tzdata'] = None",
    "keyrings": "from baton.platform import secrets as s;"
    " s.KEYRING = 'keyring.backends.null.Drawer'",
    "units": "from baton.workers.tools.computation import quantities as q;"
    " q.PINT_NAMES['in'] = 'foot'",
}
"""What is there, but not as it must be."""


@pytest.mark.parametrize("part", BAD)
async def test_a_part_that_is_there_but_wrong_is_reported(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_start(tmp_path, monkeypatch, BAD[part])
    assert states((await check_results(part)).values()) == {part: CheckState.BROKEN}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and ELF")
async def test_a_packaged_library_that_lacks_something_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    at_start(tmp_path, monkeypatch, f"import sys; sys._MEIPASS = {str(inside)!r}")

    async def finding_text() -> str:
        finding = (await check_results("bundle"))["bundle"]
        assert finding.state is CheckState.BROKEN
        return finding.text

    assert "There are none" in await finding_text()
    (inside / "libtuba.so.1").write_bytes(b"no library")
    assert "1 can't be opened. libtuba.so.1: " in await finding_text()
    (inside / "libtuba.so.1").unlink()
    bz2 = importlib.util.find_spec("_bz2")
    if bz2 is None or not str(bz2.origin).endswith(".so"):
        pytest.skip("needs a Python whose _bz2 is a file")
    shutil.copy(str(bz2.origin), inside)
    assert "The system's are used, not Baton's own: libbz2.so" in await finding_text()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("SIGILL", "It was built for another processor than this one"),
        ("SIGSEGV", "It crashed (SIGSEGV)"),
        ("SIGKILL", "It was killed from outside, perhaps because memory ran out"),
    ],
)
async def test_a_part_that_crashes_is_reported_and_takes_nothing_with_it(
    number: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizers.py").write_text(
        f"import os, signal, time; os.kill(os.getpid(), signal.{number}); time.sleep(60)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    findings = await check_results("tokenizers", "jinja")
    assert states(findings.values()) == {"tokenizers": CheckState.BROKEN, "jinja": CheckState.OK}
    assert message in findings["tokenizers"].text
    assert "while tokenizers was loaded" in findings["tokenizers"].text


async def test_a_part_that_never_ends_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizers.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(baton_self_test, "CHECK_SECONDS", 0.5)
    assert "didn't end within" in (await check_results("tokenizers"))["tokenizers"].text


async def test_children_that_are_killed_are_reported_by_each_check_that_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import os, re, sys\n"
        "if re.search('--child|self_test', ' '.join(sys.orig_argv)): os.kill(os.getpid(), 9)"
    )
    at_start(tmp_path, monkeypatch, code)
    needing = ("jinja", "llama.cpp", "task kinds", "tools", "test key", "cloud")
    findings = await check_results(*needing)
    assert states(findings.values()) == dict.fromkeys(needing, CheckState.BROKEN)


# Files

GONE = {
    "templates": "baton/workers/templates/split-merge.toml",
    "prices": "baton/workers/cloud/prices.json",
    "catalogue": "baton/models/catalogue.toml",
    "router files": "baton/models/router/kinds.npz",
    "task kinds": "baton/models/router/encoder.onnx",
    "screen": "baton/tui/app.tcss",
    "tools": "baton/workers/tools/computation/result_text.py",
    "model": "baton/workers/local/child/scheduler.py",
    "cloud": "baton/workers/cloud/child/litellm_requests.py",
    "documents": "baton/workers/attachments.py",
    "hiding": "baton/workers/cloud/redaction.py",
}
"""For each check a file without which it can't pass, and without which others can."""

STAYS = ("plan", "ledger", "search", "units", "build")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of Baton as it is installed, its models inside, which may be spoiled."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(APP / "baton", folder / "baton", copy_function=os.link)
    for name in ("catalogue.toml", "router"):
        source, target = ROOT / "models" / name, folder / "baton" / "models" / name
        if source.is_dir():
            shutil.copytree(source, target, copy_function=os.link)
        else:
            os.link(source, target)
    return folder


PRINT_FINDINGS = """
import asyncio, json, sys
from baton_self_test import run_self_test
async def print_findings():
    print(json.dumps({f.name: [f.state, f.text] async for f in run_self_test(sys.argv[1:])}))
asyncio.run(print_findings())
"""


def of_copy(folder: Path, *only: str) -> dict[str, tuple[str, str]]:
    """Run checks of a copy of Baton in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PRINT_FINDINGS, *only],
        env={**with_self_test(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.sampled(0.34)
def test_files_that_are_gone_are_missed_where_they_are_needed(copy: Path) -> None:
    for file in GONE.values():
        (copy / file).unlink()
    findings = of_copy(copy, *GONE, *STAYS)
    ends = {name: state for name, (state, _) in findings.items()}
    assert ends == dict.fromkeys(GONE, "broken") | dict.fromkeys(STAYS, "ok")
    assert "split-merge" not in findings["templates"][1]


def test_numbers_of_the_router_that_changed_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "router"
    shutil.copytree(ROOT / "models" / "router", folder)
    encoder = bytearray((folder / "encoder.onnx").read_bytes())
    encoder[len(encoder) // 2 :] = bytes(len(encoder) - len(encoder) // 2)
    (folder / "encoder.onnx").write_bytes(encoder)
    code = f"""
import asyncio
from pathlib import Path
from baton.routing import learned_router as learned
learned.shipped_folder = lambda: Path({str(folder)!r})
from baton_self_test import run_self_test
async def print_findings():
    print([f.state.value async for f in run_self_test(["task kinds"])])
asyncio.run(print_findings())
"""
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=with_self_test(), capture_output=True, text=True)
    assert done.stdout.strip() == "['broken']", done.stderr


# What it does together


async def test_a_model_that_is_cut_or_changed_or_gone_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered = starter().path
    whole = delivered.read_bytes()
    file = tmp_path / "another_starter" / "model.gguf"
    file.parent.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("baton.workers.local.model_file.STARTER_PACKAGE", "another_starter")

    async def finding_text() -> str:
        finding = (await check_results("model"))["model"]
        assert finding.state is CheckState.BROKEN
        return finding.text

    file.write_bytes(whole[: len(whole) // 2])
    assert "isn't a model that can be used" in await finding_text()

    file.write_bytes(whole[: len(whole) // 4].ljust(len(whole), b"\0"))
    assert "doesn't answer as it must" in await finding_text()

    file.unlink()
    assert "isn't installed" in await finding_text()

    named = file.with_name(delivered.name)  # as the package's own record names it
    named.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "isn't as it was delivered" in await finding_text()


@pytest.mark.parametrize("check", ["ledger", pytest.param("cloud", marks=pytest.mark.long)])
async def test_a_price_that_is_off_by_the_least_there_is_is_reported(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = Price.cost

    def wrong(self: Price, used: BilledTokens) -> int:
        return cost(self, used) + 1

    monkeypatch.setattr(Price, "cost", wrong)
    assert states((await check_results(check)).values()) == {check: CheckState.BROKEN}


async def test_a_history_that_loses_words_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.history.search.search", lambda *_: [])
    assert states((await check_results("search")).values()) == {"search": CheckState.BROKEN}


async def test_a_step_that_sees_more_than_it_may_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = Plan.messages

    def wrong(self: Plan, number: int, material: Material, *more: Any) -> Any:
        correct = messages(self, number, material, *more)
        return [*correct, Message(Role.USER, material.prompt)]

    monkeypatch.setattr(Plan, "messages", wrong)
    assert states((await check_results("plan")).values()) == {"plan": CheckState.BROKEN}


async def test_a_key_is_kept_in_the_keyring_that_is_there_and_taken_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = tmp_path / "keyring.json"
    keyring.write_text('{"baton openai": "mine"}')
    (tmp_path / "file_keyrings.py").write_text(FILE_KEYRING.format(file=str(keyring)))
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    at_start(tmp_path, monkeypatch, OWN.format(name="FileKeyring"))
    kept = (await check_results("test key"))["test key"]
    assert (kept.state, "file_keyrings" in kept.text) == (CheckState.OK, True)
    assert json.loads(keyring.read_text()) == {"baton openai": "mine"}
    at_start(tmp_path, monkeypatch, OWN.format(name="LossyKeyring"))
    forgotten = (await check_results("test key"))["test key"]
    assert (forgotten.state, "private file" in forgotten.text) == (CheckState.WARN, True)


OWN = "from baton.platform import secrets; secrets.KEYRING = 'file_keyrings.{name}'"

FILE_KEYRING = """
import json
from pathlib import Path
from keyring.backend import KeyringBackend

FILE = Path({file!r})

class FileKeyring(KeyringBackend):
    priority = 1
    def get_password(self, service, name):
        return json.loads(FILE.read_text()).get(service + " " + name)
    def set_password(self, service, name, password):
        kept = json.loads(FILE.read_text())
        kept[service + " " + name] = password
        FILE.write_text(json.dumps(kept))
    def delete_password(self, service, name):
        kept = json.loads(FILE.read_text())
        del kept[service + " " + name]
        FILE.write_text(json.dumps(kept))

class LossyKeyring(FileKeyring):
    def set_password(self, service, name, password):
        pass
"""


# The command


def baton_doctor(
    *args: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "baton", "doctor", *args]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_ended_from_outside_it_leaves_nothing(tmp_path: Path, name: str) -> None:
    environ = {**with_self_test(), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "baton", "doctor", "--self-test"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ok      build")
        assert list(tmp_path.iterdir())
        process.send_signal(signal.Signals[name])
        rest = process.stdout.read()
    assert (process.returncode, "screen" in rest) == (130, False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", ["msgspec", "_random"])
def test_a_missing_part_that_all_need_is_reported_in_a_sentence(tmp_path: Path, part: str) -> None:
    (tmp_path / f"{part}.py").write_text(f"raise ImportError('no {part} here')")
    done = baton_doctor("--self-test", environ=with_self_test(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"baton: A part of Baton can't be loaded: no {part} here. Install it again.\n"
    )
