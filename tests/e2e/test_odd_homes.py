"""Every command in every home: what can't be used is named in a sentence, never in a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.cli.root import COMMANDS
from support.odd_homes import HOMES, OddHome, run_in, start_of
from support.terminal import Terminal

CALLS: dict[str, tuple[list[str], bytes]] = {
    "ask": (["ask", "2+2"], b""),
    "ask --json": (["ask", "--json", "2+2"], b""),
    "ask --no-history": (["ask", "--no-history", "2+2"], b""),
    "ask -c": (["ask", "-c", "2+3"], b""),
    "chat": (["--plain"], b"2+2\n"),
    "chat -c": (["--plain", "-c"], b"2+2\n"),
    "plan": (["plan", "2+2"], b""),
    "resume": (["resume"], b""),
    "history ls": (["history", "ls"], b""),
    "history search": (["history", "search", "two"], b""),
    "history export": (["history", "export"], b""),
    "history query": (["history", "query", "select 1"], b""),
    "why": (["why"], b""),
    "trace": (["trace"], b""),
    "workers ls": (["workers", "ls"], b""),
    "workers test": (["workers", "test", "calculator"], b""),
    "workers add": (["workers", "add", "openai/gpt-5-nano", "--id", "far"], b""),
    "models ls": (["models", "ls"], b""),
    "models prune": (["models", "prune", "-y"], b""),
    "models role": (["models", "role"], b""),
    "models import": (["models", "import", "/dev/null"], b""),
    "ps": (["ps"], b""),
    "budget show": (["budget", "show"], b""),
    "budget set": (["budget", "set", "day", "1"], b""),
    "keys ls": (["keys", "ls"], b""),
    "keys set": (["keys", "set", "openai", "--plaintext", "-y"], b"sk-canary-0123456789\n"),
    "keys rm": (["keys", "rm", "openai"], b""),
    "usage": (["usage"], b""),
    "egress ls": (["egress", "ls"], b""),
    "bench": (["bench", "--help"], b""),
    "config show": (["config", "show"], b""),
    "config edit": (["config", "edit"], b""),
    "doctor": (["doctor"], b""),
    "self show": (["self", "show"], b""),
    "self rollback": (["self", "rollback"], b""),
    "completion": (["completion", "bash"], b""),
    "serve": (["serve", "--port", "0"], b""),
    "serve --show-token": (["serve", "--show-token"], b""),
    "serve --stop": (["serve", "--stop"], b""),
}

USUAL = (
    "run yet",
    "conversation to continue",
    "a checkout",
    "No run was interrupted",
    "isn't an ordinary file",
    "No key for",
)
"""What commands say of a home in which there is nothing wrong, and nothing to be found."""


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home in which a prompt was answered, and a ceiling and a key are set."""
    home = tmp_path_factory.mktemp("used") / "home"
    for call in ("ask", "budget set", "keys set"):
        args, piped = CALLS[call]
        done = run_in(HOMES["as it should be"], home, *args, piped=piped)
        if done is None:
            pytest.skip("needs setpriv")
        assert done[0] == 0, done
    for name in ("config", "data", "state", "cache"):
        (home / name).mkdir(exist_ok=True)
    return home


@pytest.fixture
def copied(used_home: Path, tmp_path: Path) -> Iterator[Path]:
    """Return a copy of that home, which can be removed whatever becomes of it."""
    home = tmp_path / "odd" / "home"
    shutil.copytree(used_home, home)
    yield home
    for folder in (home, *(home / name for name in ("config", "data", "state", "cache"))):
        if folder.exists() and not folder.is_symlink():
            folder.chmod(0o700)


def named_place(odd: OddHome, home: Path) -> str:
    return str(home / odd.place) if odd.place[:1] not in ("/", "H", "~", "x") else odd.place


def check_call(name: str, call: str, home: Path) -> tuple[int, str, str]:
    """Run a command in a home; check that what it says of it is one sentence with the path."""
    odd = HOMES[name]
    odd.make(home)
    args, piped = CALLS[call]
    done = run_in(odd, home, *args, piped=piped, seconds=8 if call == "serve" else 120)
    if done is None:
        pytest.skip("this machine can't make such a home")
    code, out, err = done
    for text in (out, err):
        assert "Traceback" not in text
        assert "hit a bug" not in text
        assert "Exception" not in text
    assert code in (0, 1, 2, 3, 5), (code, err)
    if code and call != "doctor" and not any(usual in err for usual in USUAL):
        assert odd.place, err
        assert named_place(odd, home).rstrip("/.") in err
        [sentence] = [line for line in err.splitlines() if line.startswith("baton: ")]
        assert sentence.endswith((".", "!", "?"))
    return done


@pytest.mark.sampled(12)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", HOMES)
def test_every_command_says_what_is_wrong_with_its_home(name: str, call: str, copied: Path) -> None:
    check_call(name, call, copied)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HOMES)
def test_the_doctor_sees_what_a_prompt_sees(name: str, copied: Path, tmp_path: Path) -> None:
    odd, twin = HOMES[name], tmp_path / "twin"
    shutil.copytree(copied, twin)
    code, _, err = check_call(name, "ask", copied)
    found, out, said = check_call(name, "doctor", twin)
    if code:
        assert found in (1, 2), f"`ask` says {err}; `doctor` says nothing is broken"
    if odd.place:
        assert named_place(odd, twin).rstrip("/.") in out + said


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HOMES)
def test_the_app_opens_or_says_what_is_wrong_with_its_home(name: str, copied: Path) -> None:
    odd = HOMES[name]
    odd.make(copied)
    started = start_of(odd, copied)
    if started is None:
        pytest.skip("this machine can't make such a home")
    command, environ = started
    app = Terminal(command, environ, 200, 30)
    try:
        app.wait(lambda shown: "Ask anything" in shown or "baton: " in shown, 60)
        shown = "".join(app.text.split())
    finally:
        app.close()
    assert "Traceback" not in shown
    assert "hit a bug" not in shown
    if "baton:" in shown:
        assert odd.place
        assert named_place(odd, copied).rstrip("/.").replace(" ", "") in shown


def test_every_command_is_among_them() -> None:
    assert {args[0] for args, _ in CALLS.values()} >= set(COMMANDS)
