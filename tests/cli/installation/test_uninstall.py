"""`baton self uninstall`: Baton goes, what is the user's stays unless they say otherwise."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from baton.platform.paths import find_paths
from support.command_line import Call
from support.packaged_machine import Machine, machine
from support.past_prompts import PastPrompt, live
from support.sample_models import stock, tiny
from support.sample_releases import PLATFORM
from support.terminal import Terminal
from support.update_processes import OLD

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is a folder build")

HASH = "0123456789abcdef"

_HOLDS = """
import fcntl, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which Baton has been used for a while, among things of others."""
    own = machine(tmp_path, monkeypatch)
    world = own.world
    put_down = [
        "share/bash-completion/completions/baton",
        "share/zsh/site-functions/_baton",
        "share/fish/vendor_completions.d/baton.fish",
        "share/applications/baton.desktop",
    ]
    for name in put_down:
        (world.prefix / name).parent.mkdir(parents=True)
        (world.prefix / name).write_text("ours")
    noted = world.receipt()
    noted["files"] = [str(world.target), *(str(world.prefix / name) for name in put_down)]
    (world.share / "install.json").write_text(json.dumps(noted))
    (world.share / "previous.json").write_text(json.dumps({**noted, "version": "0.0.9"}))
    (world.prefix / "bin/vim").write_text("theirs")
    unpacked = find_paths().cache / "app" / HASH / "_internal"
    unpacked.mkdir(parents=True)
    (unpacked / "library.so").write_bytes(b"x" * 5000)
    (unpacked.parents[1] / f"{HASH}.lock").touch()
    (unpacked.parents[1] / "lock").touch()
    (unpacked.parents[1] / f"{HASH[::-1]}.part.aB3xY_").mkdir()
    (unpacked.parents[1] / f"{HASH[::-1]}.part.aB3xY_" / "half").touch()
    asyncio.run(live([PastPrompt("Who wrote Faust?")]))
    find_paths().config.mkdir(parents=True, exist_ok=True)
    find_paths().config_file.write_text('mode = "local"\n')
    return own


def everything(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def test_what_is_the_users_stays(call: Call, own: Machine) -> None:
    model = stock("own", tiny(60_000))
    before = everything(own.world.home)
    done = call("self", "uninstall", "--yes")
    assert done.code == 0, done.err
    assert str(own.world.target) in done.err
    assert "Baton is uninstalled, which frees" in done.err
    assert everything(own.world.prefix) == {"bin/vim"}
    assert not own.world.share.exists()
    gone = before - everything(own.world.home)
    assert gone == {name for name in before if name.startswith("cache/app/")}
    assert not find_paths().cache.exists()
    assert model.exists()
    assert find_paths().database.exists()


def test_models_and_history_go_if_that_is_said(call: Call, own: Machine) -> None:
    stock("own", tiny(60_000))
    done = call("self", "uninstall", "-y", "--models", "remove", "--history", "remove", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["status"], report["stays"]) == ("finished", [])
    assert report["freed_bytes"] > 60_000
    assert everything(own.world.prefix) == {"bin/vim"}
    assert everything(own.world.home) == set()
    assert not find_paths().data.exists()


def test_nothing_of_anybody_else_goes(call: Call, own: Machine, tmp_path: Path) -> None:
    """Links are never followed, folders with other things in them stay, receipts may be wrong."""
    paths = find_paths()
    thesis = tmp_path / "thesis.doc"
    thesis.write_text("years of work")
    for name in ("on baton twirling.doc", "baton/main.py", "bin/baton"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("theirs")
    linked = tmp_path / "theirs.gguf"
    linked.write_bytes(tiny(70_000))
    assert call("models", "import", str(linked), "--link").code == 0
    stock("own", tiny(60_000))
    (paths.models / "own" / "notes.txt").write_text("mine")
    (paths.models / "loose").mkdir()
    (paths.models / "loose" / "other.gguf").write_bytes(b"theirs")
    (paths.data / "photo.jpg").write_text("mine")
    (paths.config / "templates").mkdir()
    (paths.config / "templates" / "letter.odt").write_text("mine")
    (paths.cache / "app" / "not-a-hash").mkdir()
    (paths.cache / "app" / "not-a-hash" / "x").write_text("mine")
    (paths.cache / "app" / ("f" * 16)).symlink_to(tmp_path)
    (paths.data / "ledger.db-link").symlink_to(thesis)
    (own.world.share / "README").write_text("mine")
    own.world.staging.mkdir()
    (own.world.staging / "mine").write_text("mine")
    noted = own.world.receipt()
    noted["files"] += [
        str(thesis),
        str(tmp_path),
        "/etc/hostname",
        "relative/baton",
        str(tmp_path / "on baton twirling.doc"),
        str(tmp_path / "baton" / "main.py"),
        str(tmp_path / "bin" / "baton"),
        str(paths.data),
    ]
    (own.world.share / "install.json").write_text(json.dumps(noted))
    done = call("self", "uninstall", "-y", "--models", "remove", "--history", "remove", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert thesis.read_text() == "years of work"
    for name in ("on baton twirling.doc", "baton/main.py", "bin/baton"):
        assert (tmp_path / name).exists()
    assert linked.stat().st_size >= 70_000
    assert Path("/etc/hostname").exists()
    assert everything(own.world.prefix) == {
        "bin/vim",
        "bin/.baton-update/mine",
        "share/baton/README",
    }
    assert everything(own.world.home) == {
        "data/photo.jpg",
        "data/models/own/notes.txt",
        "data/models/loose/other.gguf",
        "data/models/.lock",
        "config/templates/letter.odt",
        "cache/app/not-a-hash/x",
    }
    assert str(paths.data) in report["stays"]


def test_folders_that_were_not_there_before_go_when_they_are_empty(
    call: Call, own: Machine, tmp_path: Path
) -> None:
    prefix, noted = own.world.prefix, own.world.receipt()
    (prefix / "share/applications/other.desktop").write_text("theirs")
    (prefix / "theirs").mkdir()
    (tmp_path / "linked").mkdir()
    (prefix / "link").symlink_to(tmp_path / "linked")
    made = ["", "share", "share/zsh", "share/zsh/site-functions", "share/applications", "link"]
    noted["folders"] = [*(str(prefix / name) for name in made), "relative", "/nowhere"]
    (own.world.share / "install.json").write_text(json.dumps(noted))
    done = call("self", "uninstall", "-y")
    assert done.code == 0, done.err
    left = {str(path.relative_to(prefix)) for path in prefix.rglob("*")}
    others = {"share/bash-completion/completions", "share/fish/vendor_completions.d"}
    assert left == {
        *("bin", "bin/vim", "link", "theirs", "share"),
        *("share/applications", "share/applications/other.desktop"),
        *(others | {str(Path(name).parent) for name in others}),  # made by an unknown program
    }
    assert (tmp_path / "linked").is_dir()


def test_the_program_that_was_there_before_baton_stays(call: Call, own: Machine) -> None:
    """The installer keeps what it finds in its place; a version of Baton is noted, or known."""
    previous = own.world.share / "previous"
    previous.with_name("previous.json").unlink()
    previous.write_text("#!/bin/sh\n# somebody else's")
    done = call("self", "uninstall", "-y")
    assert f"{previous} stays: it was {own.world.target} before Baton came" in done.err
    assert everything(own.world.prefix) == {"bin/vim", "share/baton/previous"}
    own.world.target.write_text("again")
    (own.world.share / "install.json").write_text("{}")
    previous.write_bytes(b"\x7fELF" + b"\0Baton's payload" + bytes(136))
    assert call("self", "uninstall", "-y").code == 0
    assert everything(own.world.prefix) == {"bin/vim"}


def test_what_another_baton_runs_from_stays(call: Call, own: Machine) -> None:
    lock = find_paths().cache / "app" / f"{HASH}.lock"
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        done = call("self", "uninstall", "-y")
        assert done.code == 0, done.err
        assert "another Baton runs from it" in done.err
        assert (lock.with_suffix("") / "_internal" / "library.so").exists()
        assert not own.world.target.exists()
        other.kill()


def test_its_own_handle_of_the_lock_is_not_another_baton(call: Call, own: Machine) -> None:
    """The launcher leaves one to the program that it starts."""
    lock = find_paths().cache / "app" / f"{HASH}.lock"
    handle = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        done = call("self", "uninstall", "-y")
        assert done.code == 0, done.err
        assert "runs from it" not in done.err
        assert not lock.with_suffix("").exists()
        assert not lock.exists()
    finally:
        os.close(handle)


def test_a_binary_without_a_receipt_goes_with_all_that_belongs_to_it(
    call: Call, own: Machine
) -> None:
    for path in own.world.share.iterdir():
        path.unlink()
    own.world.share.rmdir()
    assert call("self", "update", "--from", str(own.publish())).code == 0
    assert list((find_paths().state / "self").iterdir())
    done = call("self", "uninstall", "-y")
    assert done.code == 0, done.err
    assert not own.world.target.exists()
    assert (own.world.prefix / "bin/vim").exists()
    assert not (find_paths().state / "self").exists()


def test_what_was_kept_for_a_binary_that_was_moved_goes_too(call: Call, own: Machine) -> None:
    """It was found by the place where the binary lay: 124.5 MB stayed, and weren't named."""
    for path in own.world.share.iterdir():
        path.unlink()
    own.world.share.rmdir()
    assert call("self", "update", "--from", str(own.publish())).code == 0
    [home] = (find_paths().state / "self").iterdir()
    other = home.with_name("0123456789abcdef")
    other.mkdir()
    (other / "previous").write_bytes(b"another's")
    there = own.world.root / "another"
    there.touch()
    (other / "install.json").write_text(json.dumps({"schema": 1, "files": [str(there)]}))
    moved = home.with_name("fedcba9876543210")
    home.rename(moved)
    gone = json.loads((moved / "install.json").read_text()) | {"files": ["/no/longer/baton"]}
    (moved / "install.json").write_text(json.dumps(gone))
    done = call("self", "uninstall", "-y")
    assert done.code == 0, done.err
    assert not moved.exists()
    assert (other / "previous").read_bytes() == b"another's", "that Baton is there"


def test_keys_are_counted_and_go_only_if_that_is_said(call: Call, own: Machine) -> None:
    assert (
        call("keys", "set", "openai", "--plaintext", "-y", piped=b"sk-1234567890abcdef").code == 0
    )
    done = call("self", "uninstall")
    assert (done.code, "no terminal to ask on" in done.err) == (2, True)
    done = call("self", "uninstall", "-y", "--history", "remove")
    assert "1 key  openai" in done.err
    assert f"The keys for openai stay in the {find_paths().keys_file}" in done.err
    assert find_paths().keys_file.exists()
    own.world.target.parent.mkdir(exist_ok=True)
    own.world.target.write_text("again")
    done = call("self", "uninstall", "-y", "--keys", "remove")
    assert not find_paths().keys_file.exists()
    assert "sk-1234567890abcdef" not in done.err


def test_one_that_was_interrupted_can_be_begun_again(call: Call, own: Machine) -> None:
    """The receipt, and what is started, go last."""
    from baton.install import own_files

    things = own_files(find_paths()).program()
    assert [path.name for path in things.paths[-2:]] == ["install.json", "baton"]
    for path in things.paths[:-1]:
        path.unlink()
    assert call("self", "uninstall", "-y").code == 0
    assert everything(own.world.prefix) == {"bin/vim"}


def test_the_user_is_asked(own: Machine) -> None:
    stock("own", tiny(60_000))
    code = (
        "from baton.platform import build_info as b; from pathlib import Path;"
        " from baton.cli import main;"
        f" w = b.BuildInfo({OLD!r}, 'full', {PLATFORM!r}); b.build_info = lambda: w;"
        f" b.binary_path = lambda: Path({str(own.world.target)!r}); main(['self', 'uninstall'])"
    )

    def answer(*typed: str) -> int:
        screen = Terminal([sys.executable, "-P", "-c", code], os.environ)
        for question, text in zip(
            ("Your models", "Your history", "Uninstall Baton"), typed, strict=True
        ):
            screen.wait_for(question)
            screen.answer(text)
        return screen.wait_end()

    assert answer("r\r", "\r", "\r") == 1
    assert own.world.version() == OLD
    assert (find_paths().models / "own").exists()
    assert answer("r\r", "\r", "y\r") == 0
    assert not own.world.target.exists()
    assert not (find_paths().models / "own").exists()
    assert find_paths().database.exists()


def test_a_pipe_under_the_name_of_the_version_before_is_not_waited_for(
    call: Call, own: Machine
) -> None:
    previous = own.world.share / "previous"
    previous.unlink()
    (own.world.share / "previous.json").unlink()
    os.mkfifo(previous)
    assert call("self", "uninstall", "--yes").code == 0
    assert not own.world.target.exists()
