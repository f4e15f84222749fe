"""No program that Baton starts is handed a key, but its gateway and its fetcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from baton.platform.secrets import PROVIDERS
from baton.tui.desktop import copy_to_system, edit_text
from support.command_line import Call

CANARY = "canary-4f1d9b7e60c2"
OWN = "LAB_SECRET"
NAMES = (*(name for known in PROVIDERS.values() for name in known.variables), OWN, "HF_TOKEN")
HOLDERS = {"gateway": set(NAMES) - {"HF_TOKEN"}, "fetcher": {"HF_TOKEN"}}
"""Which keys each of the two children may know."""


LAB = f"""
[[workers]]
id = "lab"
kind = "server"
model = "kit-1"
base_url = "http://127.0.0.1:9/v1"
api_key_env = "{OWN}"
"""


class ProcessWatch:
    """Hears of every program that this process starts."""

    def __init__(self) -> None:
        self.starts: list[tuple[str, set[str]]] = []
        self.is_on = False

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
            args, environ = (given[1], given[-1])
            self.note(args, environ)
        elif event in ("os.system", "os.spawn"):
            self.note([event], None)

    def note(self, args: Any, environ: Mapping[Any, Any] | None) -> None:
        known = os.environ if environ is None else environ
        names = {os.fsdecode(name) for name, value in known.items() if CANARY in os.fsdecode(value)}
        words = [args] if isinstance(args, str | bytes) else list(args)
        self.starts.append((" ".join(map(os.fsdecode, words)), names))

    def wrong(self) -> list[tuple[str, set[str]]]:
        """Return the starts with a key that is not for that program."""
        return [
            (line, names)
            for line, names in self.starts
            if names - next((may for who, may in HOLDERS.items() if line.endswith(who)), set())
        ]


WATCH = ProcessWatch()


@pytest.fixture(scope="module", autouse=True)
def _hook() -> None:
    sys.addaudithook(WATCH.hear)  # stays to the end of the process


@pytest.fixture
def watch() -> Iterator[ProcessWatch]:
    WATCH.starts, WATCH.is_on = [], True
    yield WATCH
    WATCH.is_on = False


COMMANDS = {
    ("config", "edit"): "editor",
    ("doctor",): "nvidia-smi",
    ("doctor", "--offline"): "network_watch",
    ("ask", "-q", "-m", "small", "--max-tokens", "4", "hi"): "runner",
    ("ask", "-q", "-m", "lab", "--budget", "1", "hi"): "gateway",
    ("models", "pull", "hf.co/some/model"): "fetcher",
}
"""Commands, and a program that each of them starts."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_started_program_knows_a_key(
    command: tuple[str, ...],
    call: Call,
    home: Path,
    programs: Path,
    watch: ProcessWatch,
) -> None:
    call(*command)
    started = COMMANDS[command]
    assert any(started in line for line, _ in watch.starts), watch.starts
    assert watch.wrong() == []


def test_the_apps_editor_knows_no_key(home: Path, programs: Path, watch: ProcessWatch) -> None:
    edit_text("text")
    assert [names for line, names in watch.starts if "editor" in line] == [set()]


@pytest.mark.skipif(sys.platform != "linux", reason="the others have one clipboard")
@pytest.mark.parametrize(
    ("display", "program"), [("DISPLAY", "xclip"), ("WAYLAND_DISPLAY", "wl-copy")]
)
async def test_the_apps_clipboard_knows_no_key_but_its_display(
    programs: Path, watch: ProcessWatch, monkeypatch: pytest.MonkeyPatch, display: str, program: str
) -> None:
    import pyperclip

    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(display, "screen-7")
    for name in (program, "wl-paste"):
        (programs / name).write_text(f'#!/bin/sh\ncat > "{programs}/copied"\nenv >> "$0.env"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setattr(pyperclip, "copy", pyperclip.lazy_load_stub_copy)  # type: ignore[attr-defined]
    assert await copy_to_system("naïve text")
    assert (programs / "copied").read_text("utf-8") == "naïve text"
    assert f"{display}=screen-7" in (programs / f"{program}.env").read_text()
    assert [names for line, names in watch.starts if program in line] == [set()]


@pytest.fixture
def programs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a canary for each key, and programs that do nothing."""
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(LAB, "utf-8")
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("editor", "nvidia-smi"):
        (folder / name).write_text("#!/bin/sh\nexit 0\n", "utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("EDITOR", str(folder / "editor"))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in NAMES:
        monkeypatch.setenv(name, f"{CANARY}-{name}")
    return folder
