"""Private files are private from their first moment, and whole at any moment."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from baton.bench.strategy_bench import QuestionResult, ResultsFile
from baton.cli.config import _create_file
from baton.core.errors import ConfigError
from baton.history import Store
from baton.models.store.store_files import replace_json
from baton.money import Ledger
from baton.platform import durable_files
from baton.platform.durable_files import (
    STALE_SECONDS,
    create_file,
    expand_home,
    folder_fault,
    make_folder,
    open_replacement,
    replace_file,
)
from baton.platform.secrets import save_key
from baton.platform.settings import write_settings
from baton.platform.sqlite import create_database_file
from baton.tui import desktop
from baton.tui.crash_report import write_report
from baton.tui.desktop import edit_text
from support.file_modes import baton_watched, open_to_others, record_modes

RESULT = QuestionResult("2 + 2", 1.0)


def there(folder: Path) -> Path:
    """Make a folder and return it."""
    make_folder(folder)
    return folder


async def list_conversations(database: Path) -> None:
    """Open a history, which is made with its first use."""
    store = Store(database)
    await store.conversations()
    await store.aclose()


async def list_charges(database: Path) -> None:
    """Open a ledger, which is made with its first use."""
    ledger = Ledger(database)
    await ledger.charges()
    await ledger.aclose()


WRITERS: dict[str, Callable[[Path], object]] = {
    "keys": lambda folder: save_key("openai", "sk-0123456789", file=folder / "keys.toml"),
    "settings": lambda folder: write_settings(folder / "config.toml", {"offline": True}),
    "first settings": lambda folder: _create_file(folder / "config.toml"),
    "history": lambda folder: asyncio.run(list_conversations(folder / "baton.db")),
    "ledger": lambda folder: asyncio.run(list_charges(folder / "ledger.db")),
    "database": lambda folder: create_database_file(folder / "some.db"),
    "export": lambda folder: desktop.save_export(folder / "talk.md", "# Talk"),
    "crash report": lambda folder: write_report(folder, ValueError()),
    "editor": lambda folder: edit_text("a draft", environ={"EDITOR": "true"}),
    "model record": lambda folder: replace_json(there(folder) / "a.json", b"{}"),
    "bench": lambda folder: ResultsFile(there(folder) / "a.jsonl", "0", ("small",)).append(
        "single", RESULT
    ),
    "text": lambda folder: replace_file(there(folder) / "a.txt", "a"),
    "new text": lambda folder: create_file(there(folder) / "a.txt", "a"),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_nothing_is_open_to_others_at_the_moment_of_making(kind: str, tmp_path: Path) -> None:
    WRITERS[kind](tmp_path / "before")  # libraries that are loaded make files of their own
    with record_modes() as modes:
        WRITERS[kind](tmp_path / "new" / "folder")
    assert modes, "nothing was watched"
    assert open_to_others(modes, Path("/")) == {}


def test_nothing_of_a_first_start_is_open_to_others_at_the_moment_of_making(home: Path) -> None:
    modes = baton_watched("ask", "-q", "-m", "calculator", "2 + 2")
    made_at_home = {path.name for path in modes if path.is_relative_to(home)}
    assert {"baton.db", "ledger.db"} <= made_at_home
    assert open_to_others(modes, home) == {}


def test_folders_above_are_private_too(tmp_path: Path) -> None:
    with record_modes() as modes:
        make_folder(tmp_path / "a" / "b" / "c")
    assert modes == {tmp_path / "a": 0o700, tmp_path / "a/b": 0o700, tmp_path / "a/b/c": 0o700}


@contextmanager
def no_room() -> Iterator[None]:
    """Have the system refuse what makes a file longer than a few bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


REPLACING: dict[str, tuple[str, Callable[[Path], object]]] = {
    "keys": (
        'openai = "sk-1111111111"\n',
        lambda file: save_key("groq", "sk-0123456789", file=file),
    ),
    "settings": ("# mine\n", lambda file: write_settings(file, {"offline": True})),
    "text": ("old", lambda file: replace_file(file, "a new text")),
}


@pytest.mark.parametrize("kind", REPLACING)
def test_what_is_there_survives_a_full_disk(kind: str, tmp_path: Path) -> None:
    old, change = REPLACING[kind]
    file = tmp_path / "file.toml"
    create_file(file, old)
    with no_room(), pytest.raises((OSError, ConfigError)):
        change(file)
    assert file.read_text() == old
    assert list(tmp_path.iterdir()) == [file]
    change(file)
    assert file.read_text() != old


def test_nothing_of_a_new_file_is_left_by_a_full_disk(tmp_path: Path) -> None:
    with no_room(), pytest.raises(OSError, match="File too large"):
        create_file(tmp_path / "talk.md", "a long text")
    assert list(tmp_path.iterdir()) == []


_WRITE_FOREVER = """
import sys
from pathlib import Path
from baton.platform.durable_files import replace_file
file = Path(sys.argv[1])
print(flush=True)
while True:
    for letter in "ab":
        replace_file(file, letter * 100_000)
"""


def test_a_kill_leaves_the_old_text_or_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    create_file(file, "a" * 100_000)
    for size in range(5):
        command = [sys.executable, "-c", _WRITE_FOREVER, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            for _ in range(size * 20):  # a kill at another moment each time
                file.read_text()
            writer.kill()
        text = file.read_text()
        assert text in ("a" * 100_000, "b" * 100_000)


def test_what_a_kill_left_is_removed_later(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    drafts = []
    with open_replacement(file) as opened:
        drafts += [path for path in tmp_path.iterdir() if path != file]
        opened.write(b"new")
    [draft] = drafts
    create_file(draft, "a key")
    replace_file(file, "newer")
    assert draft.exists(), "another Baton may be writing it"
    os.utime(draft, (0, draft.stat().st_mtime - STALE_SECONDS - 1))
    replace_file(file, "newest")
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    create_file(target, "old")
    link.symlink_to(target)
    replace_file(link, "new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)


def test_the_mode_of_a_replaced_file_is_the_one_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    create_file(file, "")
    file.chmod(0o640)
    write_settings(file, {"offline": True})
    assert file.stat().st_mode & 0o777 == 0o640, "as the person set it"
    replace_file(file, "a secret")
    assert file.stat().st_mode & 0o777 == 0o600


def test_each_new_folder_outlasts_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    make_folder(tmp_path / "one" / "two")
    assert synced == [tmp_path.stat().st_ino, (tmp_path / "one").stat().st_ino]


@pytest.mark.parametrize("make", [create_file, replace_file])
def test_text_and_name_outlast_a_power_cut(
    make: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file holds is on disk before it has its name, and its folder is afterwards."""
    file, synced = tmp_path / "config.toml", dict[int, tuple[bool, int]]()

    def fsync(handle: int) -> None:
        found = os.fstat(handle)
        synced[found.st_ino] = (file.exists(), found.st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    make(file, "day = 5")
    assert synced[file.stat().st_ino][1] == len("day = 5")
    assert make is create_file or not synced[file.stat().st_ino][0], "before it has its name"
    assert synced[tmp_path.stat().st_ino][0]


OWN_WAYS = {
    "platform/durable_files.py",  # where it is done
    "install/installation.py",  # the program, and notes that all may read where root installed it
    "ipc/parent_channel.py",  # /proc
    "cli/fork_server.py",  # the same
    "workers/tools/child/sandbox_guest.py",  # a descriptor
    "doctor/child/network_watch.py",  # /proc
    "routing/child/second_stage.py",  # written by training alone, into the repository
    "routing/child/first_stage.py",  # the same
    "cli/config.py",  # a private folder for the text that an editor changes
    "tui/chat/onboarding.py",  # an empty mark
    "tui/desktop.py",  # a private temporary folder
}
MAKERS = {"write_text", "write_bytes", "touch", "mkdir", "makedirs", "mkstemp", "mkdtemp"}
MAKERS |= {"copy2", "copyfile", "copytree", "NamedTemporaryFile", "TemporaryDirectory"}


def test_files_are_made_in_one_place() -> None:
    """A file that is made in another way could be open to others, or be left half written."""
    folder = Path(durable_files.__file__).parents[1]
    found = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        if any(f"{name}(" in (text := file.read_text()) for name in (*MAKERS, "open"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and makes_files(node)
    }
    assert found <= OWN_WAYS


def makes_files(call: ast.Call) -> bool:
    named = call.func
    name = named.id if isinstance(named, ast.Name) else getattr(named, "attr", "")
    if name == "open":
        arguments = " ".join(map(ast.unparse, call.args))
        private = any(ast.unparse(one) == "opener=open_private" for one in call.keywords)
        modes = {one.value for one in call.args if isinstance(one, ast.Constant)}
        return not private and ("O_CREAT" in arguments or bool(modes & {"w", "wb", "x", "xb", "a"}))
    return name in MAKERS


def test_why_a_folder_cannot_be_used(tmp_path: Path) -> None:
    good, file, nowhere, loop = (tmp_path / name for name in ("good", "file", "nowhere", "loop"))
    good.mkdir()
    file.touch()
    nowhere.symlink_to(tmp_path / "gone")
    loop.symlink_to(loop)
    assert folder_fault(good) == folder_fault(good / "new" / "one") == ""
    assert folder_fault(file) == folder_fault(file / "new") == f"{file} isn't a folder"
    assert folder_fault(nowhere) == f"{nowhere} is a link to {tmp_path / 'gone'}, which isn't there"
    assert str(loop) in folder_fault(loop)
    for wrong in (file, nowhere, loop):
        with pytest.raises(OSError, match=re.escape(str(wrong))):
            make_folder(wrong)


def test_a_home_of_an_unknown_user_stays_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert expand_home("~/a") == Path("/somewhere/a")
    assert expand_home("~unknown-user/a") == Path("~unknown-user/a")
