"""Keys: found in their order, never waited for, never shown."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest
from keyring.core import load_config

from baton.core.errors import ConfigError
from baton.platform import secrets
from baton.platform.secrets import (
    PROVIDERS,
    Key,
    NoKeyring,
    check_key,
    find_key,
    find_keys,
    keyring_status,
    remove_key,
    remove_keys,
    save_key,
)
from support.canary import shows
from support.keyrings import LockedKeyring, MemoryKeyring, UnansweredKeyring, use

CANARY = "sk-canary-0123456789abcdef"
OTHER = "sk-other-00000000000000000"


@pytest.fixture(autouse=True)
def _nothing_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_stuck_thread", None)


@pytest.fixture
def memory_keyring(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    memory_keyring = MemoryKeyring()
    use(monkeypatch, memory_keyring)
    return memory_keyring


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys.toml"


def test_keyring_then_environment_then_file(memory_keyring: MemoryKeyring, file: Path) -> None:
    environ = {"OPENAI_API_KEY": OTHER}
    assert find_key("openai", file=file, environ={}) is None
    save_key("openai", "sk-in-the-file-1234", file=file)
    assert find_key("openai", file=file, environ={}) == Key("sk-in-the-file-1234", str(file))
    assert find_key("openai", file=file, environ=environ) == Key(OTHER, "OPENAI_API_KEY")
    save_key("openai", CANARY)
    assert find_key("openai", file=file, environ=environ) == Key(CANARY, "keyring")
    assert memory_keyring.kept == {("baton", "openai"): CANARY}
    assert find_keys(file=file, environ=environ) == {"openai": Key(CANARY, "keyring")}


def test_a_provider_may_have_two_variables() -> None:
    both = {"GOOGLE_API_KEY": OTHER, "GEMINI_API_KEY": CANARY}
    assert find_key("gemini", environ=both) == Key(CANARY, "GEMINI_API_KEY")
    assert find_key("gemini", environ={"GOOGLE_API_KEY": OTHER}) == Key(OTHER, "GOOGLE_API_KEY")


def test_a_workers_own_variable_never_falls_back_to_the_providers_key(
    memory_keyring: MemoryKeyring, file: Path
) -> None:
    save_key("openai", CANARY)
    save_key("openai", CANARY, file=file)
    environ = {"OPENAI_API_KEY": CANARY}
    assert find_key("openai", variable="LAB_KEY", file=file, environ=environ) is None
    environ["LAB_KEY"] = OTHER
    assert find_key("openai", variable="LAB_KEY", environ=environ) == Key(OTHER, "LAB_KEY")
    save_key("LAB_KEY", "sk-from-the-drawer")
    assert find_key("openai", variable="LAB_KEY", environ={}) == Key(
        "sk-from-the-drawer", "keyring"
    )


def test_a_blank_variable_is_none_and_a_pasted_line_break_is_not_part_of_a_key() -> None:
    assert find_key("openai", environ={"OPENAI_API_KEY": "  "}) is None
    assert find_key("openai", environ={"OPENAI_API_KEY": f"{CANARY}\r\n"}) == Key(
        CANARY, "OPENAI_API_KEY"
    )


@pytest.mark.parametrize(
    "value",
    ["", " \n", "two words", "sk-a\nsk-b", "sk-\x1b[31m", "sk-\x00", "schlüssel", "x" * 5000],
)
def test_what_is_not_a_key_is_refused_without_being_quoted(value: str, file: Path) -> None:
    for place in (file, None):
        with pytest.raises(ConfigError) as raised:
            save_key("openai", value, file=place)
        assert not value.strip() or value not in str(raised.value)
    assert not file.exists()
    if value.strip() and "\x00" not in value:
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            find_key("openai", environ={"OPENAI_API_KEY": value})


def test_a_key_is_shown_by_its_last_four_characters_only() -> None:
    key = Key(CANARY, "keyring")
    assert not shows(CANARY, repr(key) + str(key) + f"{key}")
    assert key.tail == "cdef"
    assert Key("short-key", "keyring").tail == ""
    assert Key("123456789012abcd", "keyring").tail == "abcd"
    assert Key("12345678901abcd", "keyring").tail == ""
    assert check_key(f" {CANARY}\n") == CANARY


QUOTED = [
    f"'{CANARY}'", f'"{CANARY}"', f"`{CANARY}`", f"\u201c{CANARY}\u201d", f"\u201e{CANARY}\u201c",
    f"\xab{CANARY}\xbb", f"\u2018{CANARY}\u2019 ", f"\ufeff{CANARY}\r\n", f"\u200b{CANARY}\xa0",
    f'"{CANARY}', f"\"'{CANARY}'\"",
]  # fmt: skip


@pytest.mark.parametrize("typed", QUOTED)
def test_quotation_marks_around_a_key_are_none_of_it(
    typed: str, memory_keyring: MemoryKeyring, file: Path
) -> None:
    assert find_key("openai", environ={"OPENAI_API_KEY": typed}) == Key(CANARY, "OPENAI_API_KEY")
    assert find_key("openai", variable="LAB_KEY", environ={"LAB_KEY": typed}) == Key(
        CANARY, "LAB_KEY"
    )
    save_key("openai", typed, file=file)
    assert find_key("openai", file=file, environ={}) == Key(CANARY, str(file))
    memory_keyring.kept["baton", "openai"] = typed  # by another program
    assert find_key("openai", environ={}) == Key(CANARY, "keyring")


@pytest.mark.parametrize(
    "typed",
    [
        f"AWS_BEARER_TOKEN_BEDROCK={CANARY}",
        f"OPENAI_API_KEY={CANARY}",
        f'HF_TOKEN="{CANARY}"',
        f'{CANARY}","model":"x',
        f"it's{CANARY}",
    ],
)
def test_a_line_around_a_key_is_refused_and_never_shown(typed: str) -> None:
    with pytest.raises(ConfigError, match="more than a key") as caught:
        find_key("openai", environ={"OPENAI_API_KEY": typed})
    assert not shows(CANARY, str(caught.value))


@pytest.mark.parametrize("empty", ["", " ", "''", '""'])
def test_empty_quotation_marks_are_not_a_key(empty: str, memory_keyring: MemoryKeyring) -> None:
    assert find_key("openai", environ={"OPENAI_API_KEY": empty}) is None


def test_the_file_of_keys_may_begin_with_a_byte_order_mark(file: Path) -> None:
    save_key("openai", CANARY, file=file)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert find_key("openai", file=file, environ={}) == Key(CANARY, str(file))


def test_without_a_keyring_the_environment_serves_and_putting_says_what_to_do() -> None:
    environ = {"OPENAI_API_KEY": OTHER}
    assert find_key("openai", environ=environ) == Key(OTHER, "OPENAI_API_KEY")
    assert find_key("openai", environ={}) is None
    assert remove_key("openai") == []
    refused_with_what_to_do()


def test_a_keyring_that_refuses_is_reported_without_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, LockedKeyring())
    assert find_key("openai", environ={"OPENAI_API_KEY": OTHER}) == Key(OTHER, "OPENAI_API_KEY")
    with pytest.raises(ConfigError, match=r"is not known: .*KeyringLocked"):
        remove_key("openai")
    refused_with_what_to_do()


def refused_with_what_to_do() -> None:
    with pytest.raises(NoKeyring) as raised:
        save_key("openai", CANARY)
    assert not shows(CANARY, str(raised.value))
    assert "environment variable" in raised.value.hint
    assert raised.value.__cause__ is None


def test_a_keyring_that_keeps_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class LossyKeyring(MemoryKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            pass

    use(monkeypatch, LossyKeyring())
    with pytest.raises(NoKeyring, match="doesn't have it"):
        save_key("openai", CANARY)


def test_a_locked_keyring_is_waited_for_once_and_asked_again_when_it_is_unlocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secrets, "KEYRING_SECONDS", 0.05)
    use(monkeypatch, UnansweredKeyring())
    assert find_key("openai", environ={"OPENAI_API_KEY": OTHER}) == Key(OTHER, "OPENAI_API_KEY")
    stuck = secrets._stuck_thread
    assert stuck is not None
    assert stuck.daemon, "it must not keep Baton from ending"
    with pytest.raises(NoKeyring, match="is it locked"):
        save_key("openai", CANARY)
    assert secrets._stuck_thread is stuck, "it was not waited for again"
    stuck.join()
    use(monkeypatch, MemoryKeyring())
    assert save_key("openai", CANARY).source == "keyring"


def test_the_keyring_here_is_named(memory_keyring: MemoryKeyring) -> None:
    assert keyring_status() == (type(memory_keyring).__module__, "")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a backend that can be imported, and that a keyringrc.cfg names as well."""
    folder, config = tmp_path / "planted", tmp_path / "python_keyring"
    folder.mkdir()
    config.mkdir()
    (folder / "traps.py").write_text(
        "from support.keyrings import MemoryKeyring as Trap\nopen('canary', 'w').close()"
    )
    (config / "keyringrc.cfg").write_text(
        f"[backend]\ndefault-keyring=traps.Trap\nkeyring-path={folder}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setattr(secrets, "KEYRING", "keyring.backends.SecretService.Keyring")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    return "traps.Trap"


def test_the_library_itself_would_load_what_a_file_names(planted: str) -> None:
    assert isinstance(load_config(), MemoryKeyring)
    assert Path("canary").exists()


def test_nothing_is_loaded_that_a_file_or_a_variable_names(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keyring_status() == ("", "this machine has no keyring")
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", planted)
    name, why = keyring_status()
    assert (name, "another than the system's own" in why) == ("", True)
    assert remove_key("openai") == []
    assert not Path("canary").exists()


def test_removing_says_where_it_was(memory_keyring: MemoryKeyring, file: Path) -> None:
    save_key("openai", CANARY)
    save_key("openai", CANARY, file=file)
    save_key("groq", OTHER, file=file)
    assert remove_key("openai", file=file) == ["keyring", str(file)]
    assert memory_keyring.kept == {}
    assert find_keys(file=file, environ={}) == {"groq": Key(OTHER, str(file))}
    assert remove_key("groq", file=file) == [str(file)]
    assert not file.exists()
    assert remove_key("groq", file=file) == []


def test_the_file_is_for_its_owner_only(file: Path) -> None:
    file.parent.mkdir(mode=0o755)
    save_key("openai", CANARY, file=file)
    save_key("mistral", OTHER, file=file)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "PLAIN TEXT" in file.read_text()
    assert [item.name for item in file.parent.iterdir()] == ["keys.toml"]
    assert set(find_keys(file=file, environ={})) == {"openai", "mistral"}


@pytest.mark.skipif(sys.platform == "win32", reason="counts descriptors")
def test_the_file_is_closed_again(file: Path) -> None:
    save_key("openai", CANARY, file=file)
    find_key("openai", file=file, environ={})
    before = psutil.Process().num_fds()
    for _ in range(8):
        assert find_key("openai", file=file, environ={})
    assert psutil.Process().num_fds() == before


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_can_read_is_refused(file: Path, mode: int) -> None:
    save_key("openai", CANARY, file=file)
    file.chmod(mode)
    for attempt in (
        lambda: find_key("openai", file=file, environ={}),
        lambda: find_keys(file=file, environ={}),
        lambda: save_key("groq", OTHER, file=file),
    ):
        with pytest.raises(ConfigError, match="Others on this machine") as raised:
            attempt()
        assert "chmod 600" in raised.value.hint
    assert find_key("openai", file=file, environ={"OPENAI_API_KEY": OTHER}) is not None


def test_a_link_or_a_pipe_is_not_a_file_of_keys(file: Path, tmp_path: Path) -> None:
    save_key("openai", CANARY, file=file)
    link, pipe = tmp_path / "link.toml", tmp_path / "pipe.toml"
    link.symlink_to(file)
    os.mkfifo(pipe, 0o600)
    for odd in (link, pipe, tmp_path):
        with pytest.raises(ConfigError):
            find_key("openai", file=odd, environ={})


def test_a_broken_file_is_reported_without_its_text(file: Path) -> None:
    save_key("openai", CANARY, file=file)
    file.write_text(f"openai = '{CANARY}")
    with pytest.raises(ConfigError, match="not valid TOML") as raised:
        find_key("openai", file=file, environ={})
    assert not shows(CANARY, str(raised.value))
    assert raised.value.__cause__ is None


def test_every_provider_has_a_variable_and_an_address() -> None:
    assert list(PROVIDERS) == [
        "openai",
        "anthropic",
        "gemini",
        "openrouter",
        "mistral",
        "deepseek",
        "groq",
        "xai",
        "azure",
        "bedrock",
        "bedrock_mantle",
        "cerebras",
        "cohere",
        "fireworks_ai",
        "huggingface",
        "moonshot",
        "novita",
        "perplexity",
        "sambanova",
        "together_ai",
        "vercel_ai_gateway",
        "vertex_ai",
        "zai",
    ]
    without = [p.name for p in PROVIDERS.values() if not p.base_url.startswith("https://")]
    assert without == [*secrets.ADDRESS_EXAMPLES], "each customer, or region, has its address"
    others = {v for p in PROVIDERS.values() for v in p.variables if not v.endswith("_API_KEY")}
    assert others == {"AWS_BEARER_TOKEN_BEDROCK", "HF_TOKEN"}
    environ = dict.fromkeys((*others, "HOME"), "x")
    remove_keys(environ)
    assert environ == {"HOME": "x"}


def test_one_broken_key_is_named_and_can_be_replaced(
    memory_keyring: MemoryKeyring, file: Path
) -> None:
    save_key("groq", OTHER, file=file)
    file.write_text(file.read_text() + 'openai = "two words"\n')
    with pytest.raises(ConfigError, match=r"keys.toml for openai is not a key") as raised:
        find_keys(file=file, environ={})
    assert "two words" not in str(raised.value)
    assert find_key("groq", file=file, environ={}) == Key(OTHER, str(file))
    save_key("openai", CANARY, file=file)
    assert set(find_keys(file=file, environ={})) == {"groq", "openai"}
    memory_keyring.kept["baton", "openai"] = "two words"
    with pytest.raises(ConfigError, match="the keyring for openai"):
        find_key("openai", file=file, environ={})
    assert remove_key("openai", file=file) == ["keyring", str(file)]


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("PATH", True),
        ("OMP_NUM_THREADS", True),
        ("BATON_OFFLINE", True),
        ("BATON_LAB_API_KEY", False),
        ("LAB_KEY", False),
    ],
)
def test_which_variables_hold_no_key(variable: str, expected: bool) -> None:
    assert secrets.is_not_key(variable) is expected
