"""Models that come in several files: all parts are fetched, verified, loaded and removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.gguf.split_files import part_names
from baton.platform.paths import find_paths
from support.command_line import Call
from support.fake_hub import Fault, Hub
from support.gguf_splitter import split_gguf, write_parts
from support.sample_models import models, tiny

WHOLE = tiny(60_000)
PARTS = split_gguf(WHOLE, 3)
FILES = dict(zip(part_names("Tiny-Q8_0-00001-of-00003.gguf"), PARTS, strict=True))
FOLDER = "tiny-q8_0"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as hub:
        for name, value in hub.environ.items():
            monkeypatch.setenv(name, value)
        hub.add("u/split", FILES | {"Tiny-Q4_K_M.gguf": tiny(70_000, seed=2)})
        yield hub


def held(id: str = FOLDER) -> dict[str, bytes]:
    """The model files in a model's folder."""
    return {path.name: path.read_bytes() for path in (find_paths().models / id).glob("*.gguf")}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", ["u/split:Q8_0", *(f"u/split/Tiny-Q8_0-0000{n}-of-00003.gguf" for n in (1, 3))]
)
def test_all_parts_are_fetched_by_tag_or_by_name_of_any(call: Call, hub: Hub, name: str) -> None:
    done = call("models", "pull", f"hf.co/{name}", "--agree")
    assert done.code == 0, done.err
    assert held() == FILES
    size = sum(map(len, PARTS))
    shown = models(call("models", "ls", "--json"))[FOLDER]
    assert (shown["state"], shown["size"], shown["bytes"]) == ("here", size, size)
    assert "as it should be" in call("models", "verify", FOLDER).out
    assert "baton: " not in call("models", "prune", "--yes").err
    assert held() == FILES
    again = call("models", "pull", f"hf.co/{name}", "--agree")
    assert (again.code, "is here already" in again.err) == (0, True)
    assert call("models", "rm", "--yes", FOLDER).code == 0
    assert held() == {}


def test_an_address_leads_to_all_parts(call: Call, hub: Hub) -> None:
    url = f"{hub.url}/u/split/resolve/main/Tiny-Q8_0-00002-of-00003.gguf"
    done = call("models", "pull", url, "--agree")
    assert done.code == 0, done.err
    assert held() == FILES


def test_an_interrupted_download_continues_with_the_part_it_was_at(call: Call, hub: Hub) -> None:
    last = "00003-of-00003"
    hub.fault(Fault(status=503, retry_after=1_000), on="store", file=last, times=0)
    broken = call("models", "pull", "hf.co/u/split:Q8_0", "--agree")
    assert broken.code != 0
    assert len(held()) == 2
    there = models(call("models", "ls", "--json"))[FOLDER]
    assert there["state"] == "coming"
    assert there["bytes"] == len(PARTS[0]) + len(PARTS[1])
    hub.clear_faults()
    before = hub.served()
    done = call("models", "pull", FOLDER)
    assert done.code == 0, done.err
    assert held() == FILES
    assert hub.served() - before == len(PARTS[2])


def test_a_part_that_the_hub_lacks_is_said_by_its_number(call: Call, hub: Hub) -> None:
    some = {name: data for name, data in FILES.items() if "00002-of" not in name}
    hub.add("u/some", some)
    for name in ("u/some:Q8_0", "u/some/Tiny-Q8_0-00001-of-00003.gguf"):
        done = call("models", "pull", f"hf.co/{name}", "--agree")
        assert done.code == 5
        assert "Part 2 of the 3 parts" in done.err
    assert held() == {}


def test_a_part_that_is_wrong_or_missing_is_said_by_its_number_and_fetched_again(
    call: Call, hub: Hub
) -> None:
    assert call("models", "pull", "hf.co/u/split:Q8_0", "--agree").code == 0
    path = find_paths().models / FOLDER / "Tiny-Q8_0-00002-of-00003.gguf"
    path.write_bytes(PARTS[1][:-1] + b"?")
    assert "the contents of part 2 of 3 aren't what" in call("models", "verify", FOLDER).out
    before = hub.served()
    again = call("models", "pull", FOLDER)
    assert again.code == 0, again.err
    assert held() == FILES
    assert hub.served() - before == len(PARTS[1])
    path.unlink()
    assert "part 2 of 3 isn't there any more" in call("models", "show", FOLDER).out


@pytest.mark.parametrize("link", [False, True])
def test_all_parts_are_imported_whichever_is_named(call: Call, tmp_path: Path, link: bool) -> None:
    paths = write_parts(tmp_path, "Tiny-Q8_0", WHOLE, 3)
    options = ["--link"] if link else []
    done = call("models", "import", *options, str(paths[1]))
    assert done.code == 0, done.err
    assert held() == ({} if link else FILES)
    shown = models(call("models", "ls", "--json"))[FOLDER]
    assert (shown["state"], shown["size"]) == ("linked" if link else "here", sum(map(len, PARTS)))
    assert call("models", "rm", "--yes", FOLDER).code == 0
    assert all(path.is_file() for path in paths)
    assert held() == {}


def test_a_pipe_or_nothing_in_place_of_a_part_is_said_at_once(call: Call, tmp_path: Path) -> None:
    first, second, third = write_parts(tmp_path, "tiny", WHOLE, 3)
    second.unlink()
    os.mkfifo(second)
    for command in (["models", "import"], ["ask", "Hi", "-m"]):
        done = call(*command, str(third))
        assert (done.code, "part 2 of 3" in done.err) == (5, True)
        assert "it isn't an ordinary file" in done.err
    first.unlink()
    for command in (["models", "import"], ["ask", "Hi", "-m"]):
        done = call(*command, str(third))
        assert (done.code, f"There is no file {first}." in done.err) == (5, True)
        assert "Put all parts into one folder" in done.err


def test_names_of_parts_that_llama_cpp_does_not_know_are_said(call: Call, tmp_path: Path) -> None:
    whole = write_parts(tmp_path, "tiny", WHOLE, 3)
    parts = [part.rename(part.with_name(part.name.upper())) for part in whole]
    done = call("models", "import", str(parts[0]))
    assert (done.code, "Give its files the names that they came with" in done.err) == (5, True)


def test_parts_that_do_not_belong_together_are_not_imported(call: Call, tmp_path: Path) -> None:
    paths = write_parts(tmp_path, "m", WHOLE, 3)

    def refused() -> str:
        done = call("models", "import", str(paths[0]))
        assert done.code == 5
        assert held("m") == {}
        return done.err

    paths[1].write_bytes(PARTS[2])
    assert f"part 2 of 3, {paths[1].name}, is part 3 of 3 by its header" in refused()
    paths[1].write_bytes(PARTS[1][:-40])
    assert f"part 2 of 3, {paths[1].name}, can't be used: it ends after" in refused()
    paths[1].write_bytes(b"<html>")
    assert f"part 2 of 3, {paths[1].name}, can't be used: it isn't a GGUF file, but" in refused()
    paths[1].unlink()
    assert f"part 2 of 3, {paths[1].name}, isn't there" in refused()
    lone = tmp_path / "lone.gguf"
    lone.write_bytes(PARTS[0])
    done = call("models", "import", str(lone))
    assert (done.code, "its header says 3" in done.err) == (5, True)


def test_parts_are_carried_to_another_machine(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, *_) = write_parts(tmp_path, "Tiny-Q8_0", WHOLE, 3)
    assert call("models", "import", str(first)).code == 0
    stick = tmp_path / "stick"
    stick.mkdir()
    assert call("models", "export", FOLDER, str(stick)).code == 0
    assert {path.name for path in stick.glob("*.gguf")} == set(FILES)
    assert call("models", "rm", "--yes", FOLDER).code == 0
    (stick / "Tiny-Q8_0-00003-of-00003.gguf").rename(tmp_path / "away")
    done = call("models", "import", str(stick))
    assert (done.code, "00003-of-00003.gguf isn't there" in done.err) == (5, True)
    (tmp_path / "away").rename(stick / "Tiny-Q8_0-00003-of-00003.gguf")
    done = call("models", "import", str(stick))
    assert done.code == 0, done.err
    assert held() == FILES


def test_another_programs_parts_are_found_as_one_model(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".lmstudio" / "models" / "u" / "split"
    folder.mkdir(parents=True)
    write_parts(folder, "Tiny-Q8_0", WHOLE, 3)
    found = json.loads(call("models", "import", "--found", "--json").out)
    listed = [one for one in found["models"] if one["program"] == "LM Studio"]
    assert [(one["name"], one["size"]) for one in listed] == [("Tiny-Q8_0", sum(map(len, PARTS)))]


def test_a_model_in_parts_answers(call: Call, tmp_path: Path) -> None:
    from baton.workers.local import starter

    paths = write_parts(tmp_path, "small-Q4_1", starter().path.read_bytes(), 2)
    config = find_paths().config_file
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[[workers]]\nid = "two"\nkind = "local"\nmodel = "{paths[0]}"\n')
    how = ("--temperature", "0", "--seed", "1", "--max-tokens", "12", "-s", "Be brief.")
    asked = ("ask", "--no-daemon", *how, "Capital of France?")
    one, two = (call(*asked, "-m", worker) for worker in ("small", "two"))
    assert (one.code, two.code) == (0, 0), two.err
    assert two.out == one.out != ""
    paths[1].unlink()
    gone = call(*asked, "-m", "two")
    assert f"part 2 of 2, {paths[1].name}, isn't there" in gone.err
