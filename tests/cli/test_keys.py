"""`baton keys`: entered hidden, listed by four characters, and never without a way out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from baton.cli.keys import worker_to_test
from baton.core.money import Price, Rates, parse_usd
from baton.platform import secrets
from baton.platform.paths import find_paths
from baton.platform.settings import CloudWorkerSettings, ServerWorkerSettings, Settings
from baton.workers.cloud.price_table import cheapest_model, snapshot
from support.canary import shows
from support.command_line import Call, Process
from support.fake_cloud import Cloud
from support.keyrings import MemoryKeyring, use

CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def _nothing_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_stuck_thread", None)


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    keyring = MemoryKeyring()
    use(monkeypatch, keyring)
    return keyring


def listed_keys(call: Call) -> dict[str, dict[str, object]]:
    rows = json.loads(call("keys", "list", "--json").out)["keys"]
    return {row["provider"]: row for row in rows if row["source"]}


def test_a_piped_key_goes_to_the_keyring_and_is_listed_by_its_tail(
    call: Call, keyring: MemoryKeyring
) -> None:
    done = call("keys", "set", "openai", piped=f"{CANARY}\n".encode())
    assert (done.code, done.out) == (0, "")
    assert keyring.kept == {("baton", "openai"): CANARY}
    assert listed_keys(call)["openai"]["tail"] == "cdef"
    shown = call("keys", "ls")
    assert "…cdef" in shown.out
    assert "the keyring" in shown.out
    assert not shows(CANARY, done.err + shown.out + shown.err)
    assert not find_paths().keys_file.exists()


def test_a_key_is_never_taken_from_the_arguments(call: Call, keyring: MemoryKeyring) -> None:
    assert call("keys", "set", "openai", CANARY).code == 2
    assert keyring.kept == {}


def test_without_a_keyring_it_is_said_what_to_do_before_anything_is_read(call: Call) -> None:
    done = call("keys", "set", "openai", piped=CANARY.encode())
    assert done.code == 2
    assert "Set the variable OPENAI_API_KEY" in done.err
    assert "--plaintext" in done.err
    assert not find_paths().keys_file.exists()


def test_plain_text_needs_a_yes(call: Call) -> None:
    done = call("keys", "set", "openai", "--plaintext", piped=CANARY.encode())
    assert (done.code, "without asking" in done.err) == (2, True)
    assert not find_paths().keys_file.exists()
    done = call("keys", "set", "openai", "--plaintext", "-y", piped=CANARY.encode())
    assert (done.code, "(plain text)" in done.err) == (0, True)
    assert find_paths().keys_file.stat().st_mode & 0o777 == 0o600
    assert listed_keys(call)["openai"]["source"] == str(find_paths().keys_file)
    assert "(plain text)" in call("keys", "ls").out


@pytest.mark.parametrize("piped", [b"", b"\n", b"two words", b"\xff\xfe", b"a\x1bb"])
def test_what_is_not_a_key_is_reported_and_not_shown(
    call: Call, keyring: MemoryKeyring, piped: bytes
) -> None:
    done = call("keys", "set", "openai", piped=piped)
    assert (done.code, done.err.count("\n"), keyring.kept) == (2, 1, {})
    assert "two words" not in done.err


def test_one_that_comes_first_is_reported(
    call: Call, keyring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    done = call("keys", "set", "openai", "--plaintext", "-y", piped=CANARY.encode())
    assert "another one comes first: that in the variable OPENAI_API_KEY" in done.err
    assert "first" not in call("keys", "set", "openai", piped=CANARY.encode()).err


def test_removing_reports_what_is_left(
    call: Call, keyring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("keys", "set", "openai", piped=CANARY.encode())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    done = call("keys", "remove", "openai")
    assert done.code == 0
    assert "removed from keyring" in done.err
    assert "still one in the variable OPENAI_API_KEY" in done.err
    done = call("keys", "rm", "openai")
    assert (done.code, "No key for openai is kept by Baton" in done.err) == (3, True)


def test_providers_are_known_by_their_variable_too_and_others_are_reported(
    call: Call, keyring: MemoryKeyring
) -> None:
    for name in ("GOOGLE_API_KEY", "Gemini"):
        assert call("keys", "set", name, piped=CANARY.encode()).code == 0
    assert keyring.kept == {("baton", "gemini"): CANARY}
    done = call("keys", "set", "opnai", piped=CANARY.encode())
    assert (done.code, "Did you mean 'openai'?" in done.err) == (2, True)


def test_a_workers_own_variable_can_have_a_key(call: Call, keyring: MemoryKeyring) -> None:
    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text(
        '[[workers]]\nid = "lab"\nkind = "server"\nmodel = "q"\n'
        'base_url = "http://127.0.0.1:9/v1"\napi_key_env = "LAB_KEY"\n'
    )
    assert call("keys", "set", "LAB_KEY", piped=CANARY.encode()).code == 0
    assert list(listed_keys(call)) == ["LAB_KEY"]


def test_a_file_that_others_can_read_is_reported(call: Call) -> None:
    call("keys", "set", "openai", "--plaintext", "-y", piped=CANARY.encode())
    find_paths().keys_file.chmod(0o644)
    done = call("keys", "ls")
    assert (done.code, "chmod 600" in done.err) == (2, True)


def test_a_typed_key_is_hidden_and_a_no_keeps_nothing(home: Path) -> None:
    args = ["-I", "-m", "baton", "keys", "set", "openai", "--plaintext"]
    for answer, code in (("n", 1), ("y", 0)):
        child = pexpect.spawn(sys.executable, args, encoding="utf-8", timeout=30)
        child.expect(r"Keep it so\?.*: ")
        child.sendline(answer)
        if answer == "y":
            child.expect("hidden\\): ")
            child.sendline(CANARY)
        child.expect(pexpect.EOF)
        seen = child.before or ""
        child.close()
        assert child.exitstatus == code
        assert not shows(CANARY, seen)
        assert find_paths().keys_file.exists() == (answer == "y")
    assert CANARY in find_paths().keys_file.read_text()


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """An engine that wants a key and money."""
    with Cloud(prices={"": Price(Rates(10**9, 2 * 10**9, 10**9, 10**9))}) as cloud:
        file = find_paths().config_file
        file.parent.mkdir(parents=True)
        file.write_text(
            '[[workers]]\nid = "lab"\nkind = "server"\nmodel = "kit-1"\napi_key_env = "LAB_KEY"\n'
            f'base_url = "{cloud.base("openai")}"\nprice = {{ input = "1", output = "2" }}\n'
        )
        yield cloud


def test_a_key_is_tried_after_its_price_was_agreed_to(
    call: Call, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = call("keys", "test", "LAB_KEY", "-y")
    assert (done.code, "`baton keys set LAB_KEY` keeps one" in done.err) == (3, True)
    monkeypatch.setenv("LAB_KEY", CANARY)
    done = call("keys", "test", "LAB_KEY")
    assert (done.code, "without asking" in done.err) == (2, True)
    assert "kit-1 will say hello. It costs at most $0.0" in done.err
    assert cloud.calls == []
    done = call("keys", "test", "LAB_KEY", "-y", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["provider"], report["model"]) == ("LAB_KEY", "kit-1")
    assert parse_usd(report["cost_usd"]) == cloud.billed > 0
    assert len(cloud.calls) == 1
    [row] = json.loads(call("usage", "--by", "worker", "--json").out)["usage"]
    assert (row["worker"], row["charged_usd"]) == ("lab", report["cost_usd"])
    done = call("workers", "test", "lab")
    assert (done.code, "without asking" in done.err, len(cloud.calls)) == (2, True, 1)


def test_the_cheapest_worker_or_model_is_tried() -> None:
    dear = CloudWorkerSettings("dear", "groq/openai/gpt-oss-120b")
    unknown = CloudWorkerSettings("unknown", "groq/nobody-knows")
    other = CloudWorkerSettings("other", "openai/gpt-5-nano", api_key_env="MY_KEY")
    lab = ServerWorkerSettings("lab", "q", "http://127.0.0.1:9/v1", api_key_env="LAB_KEY")
    settings = Settings(workers=(dear, unknown, other, lab))
    assert worker_to_test(settings, "groq", None) is dear
    assert worker_to_test(settings, "groq", "openai/gpt-oss-20b").model == "groq/openai/gpt-oss-20b"
    cheap = cheapest_model("openai", snapshot().date)
    assert worker_to_test(settings, "openai", None).model == cheap
    assert worker_to_test(settings, "MY_KEY", None) is other
    assert worker_to_test(settings, "LAB_KEY", None) is lab


def test_offline_and_without_a_price_nothing_is_tried(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", CANARY)
    done = call("keys", "test", "azure", "-y")
    assert (done.code, "No price is known for any model of azure" in done.err) == (4, True)
    done = call("keys", "test", "openai", "-y", "-m", "gpt-99")
    assert (done.code, "openai/gpt-99 is not known" in done.err) == (4, True)
    monkeypatch.setenv("BATON_OFFLINE", "1")
    done = call("keys", "test", "openai", "-y")
    assert (done.code, "Baton is offline" in done.err) == (2, True)


@pytest.mark.parametrize(("keys", "code"), [("\x03", 130), ("\x04", 2)])
def test_leaving_while_typing_keeps_nothing(home: Path, keys: str, code: int) -> None:
    args = ["-I", "-m", "baton", "keys", "set", "openai", "--plaintext", "-y"]
    child = pexpect.spawn(sys.executable, args, encoding="utf-8", timeout=30)
    child.expect("hidden\\): ")
    assert not child.getecho()
    child.send(keys)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    assert "hit a bug" not in (child.before or "")
    assert not find_paths().keys_file.exists()


HEADLESS = [
    (["keys", "ls"], 0),
    (["keys", "set", "openai"], 2),
    (["keys", "rm", "openai"], 3),
    (["keys", "test", "openai"], 3),
    (["budget", "show"], 0),
    (["budget", "set", "day", "2"], 0),
    (["budget", "prices"], 0),
    (["budget", "release"], 0),
    (["usage"], 0),
    (["egress", "ls"], 0),
    (["egress", "export"], 0),
    (["workers", "ls"], 0),
    (["config", "show"], 0),
    (["history", "ls"], 0),
]


@pytest.mark.parametrize(("args", "code"), HEADLESS, ids=lambda value: str(value))
def test_without_any_keyring_every_command_works_or_says_what_to_do(
    call: Call, args: list[str], code: int
) -> None:
    done = call(*args)
    assert done.code == code, done.err
    assert "hit a bug" not in done.err
    if code:
        assert done.err.count("\n") == 1


def test_a_machine_without_a_keyring_is_recognised(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    done = process("keys", "set", "openai", piped=CANARY.encode())
    assert (done.returncode, b"this machine has no keyring" in done.stderr) == (2, True)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    done = process("keys", "ls")
    assert (done.returncode, b"the variable OPENAI_API_KEY" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("name", "meant"), [("google", "gemini"), ("moonshotai", "moonshot"), ("opnai", "openai")]
)
def test_another_name_of_a_provider_is_put_right(call: Call, name: str, meant: str) -> None:
    done = call("keys", "set", name, "--plaintext", "-y", piped=b"sk-0123456789")
    assert (done.code, f"Did you mean {meant!r}?" in done.err) == (2, True), done.err
