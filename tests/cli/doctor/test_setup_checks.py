"""`baton doctor` on money, keys and what left; it changes nothing, and shows no secret."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from baton.cli.doctor import check_setup, setup_checks
from baton.cli.doctor.check import CheckResult, CheckState
from baton.cli.doctor.setup_checks import CHECKS
from baton.history import Store
from baton.platform import secrets, sqlite
from baton.platform.paths import find_paths
from baton.workers.cloud import price_table
from support.canary import shows
from support.command_line import Call, write_settings
from support.keyrings import MemoryKeyring, use
from support.sample_ledger import spend

CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def _nothing_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_stuck_thread", None)


def check_results(*only: str) -> dict[str, CheckResult]:
    """Return what the doctor finds: by all checks that start no child, or by `only` these."""
    names = [name for name, _ in CHECKS]
    quick = names[: names.index("tools")]
    chosen = tuple(entry for entry in CHECKS if entry[0] in (only or quick))

    async def check() -> dict[str, CheckResult]:
        return {finding.name: finding async for finding in check_setup()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup_checks, "CHECKS", chosen)
        return asyncio.run(check())


def test_a_fresh_machine_is_well_and_stays_untouched(home: Path) -> None:
    findings = check_results()
    assert findings["keyring"].state is CheckState.WARN
    assert "keys for cloud workers can come from the environment" in findings["keyring"].text
    assert findings["keys"] == CheckResult("keys", CheckState.OK, "none")
    assert "no ceiling is above $0" in findings["money"].text
    assert findings["egress"].text == "nothing ever left this machine"
    assert findings["prices"].text.endswith(f"models of {price_table.snapshot().date}")
    assert not home.exists()


def test_what_others_may_look_into_can_be_closed_as_it_says(home: Path) -> None:
    write_settings("")
    data, config = find_paths().data, find_paths().config_file
    data.mkdir(parents=True, exist_ok=True)
    for path, mode in ((data, 0o755), (config, 0o644)):
        path.chmod(mode)
    finding = check_results("folders")["folders"]
    assert finding.state is CheckState.WARN
    subprocess.run(finding.text.split("`")[1], shell=True, check=True)
    assert check_results("folders")["folders"].state is CheckState.OK


def test_the_tools_are_tried_unless_they_are_off(home: Path) -> None:
    tried = check_results("tools")["tools"].text
    assert "sandbox" in tried or "seccomp" in tried
    assert not home.exists()
    write_settings("tools = false\n")
    assert check_results("tools")["tools"] == CheckResult(
        "tools", CheckState.OK, "off in the settings (`tools = false`)"
    )


def test_the_machine_and_an_idle_card_are_shown(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux" or Path("/proc/driver/nvidia").exists():
        pytest.skip("needs Linux, and no card of NVIDIA's")
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA GeForce RTX 3070, 550.54.14'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    findings = check_results("machine", "llama.cpp")
    assert "cores" in findings["machine"].text
    assert " of memory, " in findings["machine"].text
    assert findings["llama.cpp"].state is CheckState.WARN
    assert "NVIDIA GeForce RTX 3070" in findings["llama.cpp"].text


def test_what_was_spent_and_left_is_shown(home: Path) -> None:
    write_settings('[budget]\nday = "1"\n')
    spend(find_paths().ledger)
    findings = check_results()
    assert "The cloud is on" in findings["money"].text
    assert "$0.11 is unconfirmed" in findings["money"].text
    assert "2 B to api.openai.com" in findings["egress"].text


def test_a_missing_key_is_reported_and_no_key_is_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings('[[workers]]\nid = "g"\nkind = "cloud"\nmodel = "groq/openai/gpt-oss-20b"\n')
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    findings = check_results()
    assert findings["keys"].state is CheckState.WARN
    assert findings["keys"].text == "openai (OPENAI_API_KEY); missing for groq"
    use(monkeypatch, MemoryKeyring())
    secrets.save_key("groq", CANARY)
    findings = check_results()
    assert findings["keys"].text == "openai (OPENAI_API_KEY), groq (keyring)"
    assert not shows(CANARY, str(findings))


def test_a_file_of_keys_that_others_can_read_is_reported(home: Path) -> None:
    secrets.save_key("openai", CANARY, file=find_paths().keys_file)
    find_paths().keys_file.chmod(0o644)
    findings = check_results()
    assert findings["folders"].state is CheckState.WARN
    assert str(find_paths().keys_file) in findings["folders"].text
    assert findings["keys"].state is CheckState.BROKEN


def test_a_ledger_that_was_removed_is_reported_and_not_made(home: Path) -> None:
    spend(find_paths().ledger)
    find_paths().ledger.unlink()
    findings = check_results()
    assert findings["money"].state is findings["egress"].state is CheckState.WARN
    assert "The ledger was removed" in findings["money"].text
    assert not find_paths().ledger.exists()


def test_a_damaged_ledger_is_reported_and_stays_as_it_is(home: Path) -> None:
    spend(find_paths().ledger)
    find_paths().ledger.write_bytes(b"not a database" * 100)
    findings = check_results()
    assert findings["money"].state is findings["egress"].state is CheckState.BROKEN
    assert find_paths().ledger.read_bytes() == b"not a database" * 100


@pytest.mark.parametrize(
    ("change", "said", "state"),
    [
        ("PRAGMA user_version = 99", "by a newer Baton: update this one", CheckState.BROKEN),
        ("ALTER TABLE turns DROP COLUMN worker", "isn't as Baton made it", CheckState.WARN),
    ],
)
def test_a_history_of_another_schema_is_reported_and_stays_as_it_is(
    home: Path, change: str, said: str, state: CheckState
) -> None:
    path = find_paths().database

    async def begin() -> None:
        store = Store(path)
        await store.latest()
        await store.aclose()

    asyncio.run(begin())
    assert check_results("history")["history"].state is CheckState.OK
    connection = sqlite.connect(path)
    connection.execute(change)
    connection.close()
    before = path.read_bytes()
    found = check_results("history")["history"]
    assert (found.state, said in found.text) == (state, True)
    assert path.read_bytes() == before


OTHERS = """
[[workers]]
id = "writer"
model = "{writer}"
[[workers]]
id = "planner"
model = "{planner}"
[[workers]]
id = "far"
kind = "cloud"
model = "openai/gpt-5-mini"
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("conductor", "state", "text"),
    [
        ("writer", CheckState.OK, "writer draws the plans, and answers"),
        ("planner", CheckState.BROKEN, "planner.gguf. Check its path."),
        ("far", CheckState.OK, "far was not tried, which costs money: `baton workers test far`"),
        ("nobody", CheckState.BROKEN, "There is no worker 'nobody' (the setting `conductor`)."),
        ("rule", CheckState.OK, "no model plans, only templates and the rule"),
    ],
)
def test_the_conductor_is_tried_like_the_worker(
    home: Path, conductor: str, state: CheckState, text: str
) -> None:
    files = {"writer": home / "writer.gguf", "planner": home / "planner.gguf"}
    write_settings(f'worker = "writer"\nconductor = "{conductor}"\n' + OTHERS.format(**files))
    finding = check_results("answer", "conductor")["conductor"]
    assert (finding.state, text in finding.text) == (state, True), finding.text


@pytest.mark.sampled(0.5)
def test_the_router_is_asked_and_its_fault_is_reported_with_the_remedy(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = check_results("router")["router"]
    assert well.state is CheckState.OK
    assert "ms per question on CPU" in well.text
    assert not home.exists()
    monkeypatch.setattr("baton.routing.learned_router.shipped_folder", lambda: tmp_path / "nowhere")
    ill = check_results("router")["router"]
    assert ill.state is CheckState.WARN
    assert "nowhere" in ill.text
    assert "git checkout models/router" in ill.text
    assert "a rule of length and task decides" in ill.text


@pytest.mark.sampled(0.5)
@pytest.mark.local_model
def test_an_offline_prompt_is_proved_to_open_no_socket(call: Call) -> None:
    done = call("doctor", "--offline", "--json")
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert (done.code, set(checks)) == (0, {"network", "answer"})
    assert checks["network"]["state"] == "ok"
    assert "seccomp" in checks["network"]["text"]
    assert checks["answer"]["state"] == "ok"


def test_a_checkout_says_that_it_has_no_self_test() -> None:
    command = [sys.executable, "-P", "-m", "baton", "doctor", "--self-test"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "The self-test is a part of the packaged program" in done.stderr
    assert "`baton doctor` loads every library" in done.stderr


def test_a_library_that_is_missing_is_reported_with_the_way_to_repair_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pint.py").write_text("raise ImportError('no pint here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    finding = check_results("libraries")["libraries"]
    assert finding.state is CheckState.BROKEN
    assert "pint can't be loaded." in finding.text
    assert "no pint here" in finding.text
    assert "remove the folder .venv" in finding.text
