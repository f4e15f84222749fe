"""`baton models rm`, `prune`, `export` and `verify`: nothing goes unasked, nothing wrong stays."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from baton.models.ports import ModelState
from baton.models.store import FolderModelStore
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings, write_settings
from baton.workers.local import starter
from support.command_line import Call
from support.sample_models import models, stock, tiny
from support.terminal import Terminal

BATON = [sys.executable, "-I", "-m", "baton"]
TINY = tiny(60_000)


@pytest.fixture
def own() -> Path:
    """A model that answers unless -m says otherwise; return its file."""
    file = stock("own", TINY)
    write_settings(find_paths().config_file, {"worker": "own"})
    return file


def test_removing_says_what_it_frees_and_who_answers_then(call: Call, own: Path) -> None:
    assert load_settings(find_paths().config_file).worker == "own"
    done = call("models", "remove", "own", "-y")
    assert done.code == 0, done.err
    assert "own is removed, which frees 60." in done.err
    assert "From now on small answers" in done.err
    assert not own.exists()
    assert list(models(call("models", "ls", "--json"))) == ["small"]
    assert load_settings(find_paths().config_file).worker == "small"


def test_removing_as_json(call: Call, own: Path) -> None:
    done = call("models", "rm", "own", "-y", "--json")
    [one] = json.loads(done.out)["removed"]
    assert one["id"] == "own"
    assert one["freed_bytes"] >= 60_000


def test_without_a_user_the_answer_is_no(call: Call, own: Path) -> None:
    done = call("models", "rm", "own")
    assert (done.code, "-y" in done.err, own.exists()) == (2, True, True)


def test_the_user_is_asked(own: Path) -> None:
    poet = '[[workers]]\nid = "poet"\nmodel = "own"\n'
    with find_paths().config_file.open("a") as file:
        file.write(poet)
    for typed, left in (("\r", True), ("y\r", False)):
        screen = Terminal([*BATON, "models", "rm", "own"], os.environ)
        screen.wait_for("Remove 1 model (60.0 kB) for good?")
        assert "chat" in screen.text
        assert "poet is a worker with that model" in screen.text
        screen.answer(typed)
        assert screen.wait_end() == (1 if left else 0)
        assert own.exists() == left


def test_what_cannot_be_removed_is_reported(call: Call, own: Path) -> None:
    done = call("models", "rm", "small", "-y")
    assert (done.code, "came with Baton" in done.err) == (2, True)
    done = call("models", "rm", "owns", "-y")
    assert (done.code, "Did you mean 'own'?" in done.err) == (2, True)
    assert own.exists()


def test_a_flipped_byte_is_found(call: Call, own: Path) -> None:
    done = call("models", "verify")
    assert (done.code, "as it should be" in done.out) == (0, True), done.err
    data = bytearray(own.read_bytes())
    data[-100] ^= 1
    own.write_bytes(data)
    done = call("models", "verify", "own", "--json", "-q")
    assert done.code == 5
    report = json.loads(done.out)
    assert report["status"] == "failed"
    assert [(one["id"], one["state"]) for one in report["models"]] == [("own", "broken")]
    assert "broken" in call("models", "ls").out
    assert "State:        broken: " in call("models", "show", "own").out


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that can't be read")
def test_one_that_cannot_be_read_leaves_the_others_to_be_verified(call: Call, own: Path) -> None:
    other = stock("other", tiny(70_000, seed=5))
    own.unlink()
    own.symlink_to("/proc/self/mem")  # may be opened, but not read
    held = {held.id: held for held in FolderModelStore(find_paths().models).models()}["own"]
    assert held.state is ModelState.CHANGED
    done = call("models", "verify", "--json", "-q")
    assert done.code == 5
    report = {one["id"]: one for one in json.loads(done.out)["models"]}
    assert "can't be read" in report["own"]["error"]["message"]
    assert (report["other"]["state"], report["other"]["error"]) == ("here", None)
    assert "as it should be" in call("models", "verify").out
    assert other.exists()


def test_a_folder_whose_name_no_system_takes_is_refused_in_a_sentence(
    call: Call, own: Path, tmp_path: Path
) -> None:
    done = call("models", "export", str(tmp_path / ("a" * 300)))
    assert (done.code, "hit a bug" in done.err) == (5, False)
    assert own.exists()


def test_nothing_to_verify(call: Call) -> None:
    done = call("models", "verify")
    assert (done.code, done.out) == (0, "")
    assert call("models", "verify", "nobody").code == 2


def test_leftovers_are_counted_shown_and_deleted(call: Call, own: Path) -> None:
    left = find_paths().models / "gone" / ("a" * 64 + ".partial")
    left.parent.mkdir()
    left.write_bytes(b"x" * 5000)
    assert "`baton models prune` frees 5.0 kB" in call("models", "ls").err
    assert call("models", "prune").code == 2
    assert left.exists()
    done = call("models", "prune", "-y", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["freed_bytes"] == 5000
    assert not left.exists()
    assert own.exists()
    assert "nothing to clean up" in call("models", "prune").err


def test_export_names_what_is_missing(call: Call, own: Path, tmp_path: Path) -> None:
    done = call("models", "export", "nobody", str(tmp_path / "stick"))
    assert done.code == 2
    assert not (tmp_path / "stick").exists()
    done = call("models", "export", "own", str(tmp_path / "stick"), "--json", "-q")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert [Path(file).read_bytes() for file in report["files"]] == [TINY]


def test_conversations_with_a_removed_model_stay_readable(call: Call, own: Path) -> None:
    import asyncio

    from baton.core.messages import Card
    from support.past_prompts import PastPrompt, live

    asyncio.run(live([PastPrompt("Who wrote Faust?")], cards=[Card("own", "local", "Mine")]))
    assert models(call("models", "ls", "--json"))["own"]["last_used"] is not None
    assert call("models", "rm", "own", "-y").code == 0
    [listed] = json.loads(call("history", "ls", "--json").out)["conversations"]
    assert "Faust" in call("history", "show", listed["id"]).out


def test_a_rotten_model_that_is_asked_by_name_says_what_is_wrong(call: Call, own: Path) -> None:
    write_settings(find_paths().config_file, {"worker": "small"})
    rotten = bytearray(own.read_bytes())
    rotten[-1] ^= 1
    own.write_bytes(bytes(rotten))
    for _ in range(2):  # when it is found out, and when that is known
        done = call("ask", "-m", "own", "hello")
        assert done.code == 5
        assert "its contents aren't what they were" in done.err


def test_a_default_that_is_gone_is_said_once_and_not_beside_another(
    call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "own.gguf"
    shutil.copy(starter().path, file)
    assert call("models", "import", "--link", "-q", str(file)).code == 0
    file.unlink()
    said = "own is gone, so small answers"
    assert said not in call("ask", "-m", "small", "--max-tokens", "1", "Hi").err
    assert said in call("ask", "--max-tokens", "1", "Hi").err
    assert said not in call("ask", "--max-tokens", "1", "Hi").err
    shutil.copy(starter().path, file)
    call("ask", "--max-tokens", "1", "Hi")
    file.unlink()
    assert said in call("ask", "--max-tokens", "1", "Hi").err, "that is news again"
