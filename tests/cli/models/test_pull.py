"""`baton models pull` and `import`: what comes, from a hub, a file, a stick or another program."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.compose import library
from baton.models.model_download import ModelDownload
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings
from support import gguf_writer
from support.adapter_files import write_with_template
from support.command_line import Call
from support.fake_hub import Fault, Hub
from support.sample_models import catalogue_entry, keep_catalogue, models, stock, tiny
from support.terminal import Terminal

pytestmark = pytest.mark.sampled(0.34)

BATON = [sys.executable, "-I", "-m", "baton"]
TINY = tiny(60_000)
OTHER = tiny(90_000, seed=2, name="Other")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as hub:
        for name, value in hub.environ.items():
            monkeypatch.setenv(name, value)
        revision = hub.add("maker/models", {"tiny.gguf": TINY, "other.gguf": OTHER})
        keep_catalogue(
            catalogue_entry("tiny", TINY, revision=revision),
            catalogue_entry("other", OTHER, revision=revision, roles=["coder"]),
        )
        yield hub


def file_of(id: str) -> Path:
    return find_paths().models / id / f"{id}.gguf"


def test_a_model_is_fetched_verified_and_takes_its_role(call: Call, hub: Hub) -> None:
    done = call("models", "pull", "tiny")
    assert done.code == 0, done.err
    assert file_of("tiny").read_bytes() == TINY
    assert "answers from now on" in done.err
    assert done.out == ""
    shown = models(call("models", "ls", "--json"))["tiny"]
    assert (shown["state"], shown["roles"], shown["default"]) == ("here", ["chat"], True)
    assert shown["sha256"] == hashlib.sha256(TINY).hexdigest()
    assert load_settings(find_paths().config_file).worker == "tiny"
    again = call("models", "get", "tiny")
    assert (again.code, "is here already" in again.err) == (0, True)
    assert hub.served("tiny.gguf") == len(TINY)


def test_two_come_side_by_side_and_json_lists_both(call: Call, hub: Hub) -> None:
    done = call("models", "pull", "tiny", "other", "--json", "-q")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["schema"], report["status"], report["error"]) == (1, "finished", None)
    assert [(one["asked"], one["id"], one["state"]) for one in report["models"]] == [
        ("tiny", "tiny", "here"), ("other", "other", "here"),
    ]  # fmt: skip
    assert done.err == ""
    settings = load_settings(find_paths().config_file)
    assert (settings.worker, settings.prefer) == ("tiny", {"code": "other"})


def test_one_that_fails_leaves_the_other_alone(call: Call, hub: Hub) -> None:
    done = call("models", "pull", "tny", "other", "--json")
    assert done.code == 2
    first, second = json.loads(done.out)["models"]
    assert (first["id"], first["error"]["type"]) == (None, "ConfigError")
    assert (second["state"], second["error"]) == ("here", None)
    assert "Did you mean 'tiny'?" in done.err


def test_the_role_can_be_chosen_and_is_not_taken_again_unasked(call: Call, hub: Hub) -> None:
    assert call("models", "pull", "tiny", "--role", "conductor").code == 0
    settings = load_settings(find_paths().config_file)
    assert (settings.worker, settings.conductor) == ("small", "tiny")
    assert call("models", "role", "conductor", "none").code == 0
    assert call("models", "pull", "tiny").code == 0
    assert load_settings(find_paths().config_file).conductor == ""
    done = call("models", "pull", "tiny", "--role", "coder")
    assert (done.code, "writes code from now on" in done.err) == (0, True)
    assert load_settings(find_paths().config_file).prefer == {"code": "tiny"}


def test_wrong_bytes_are_never_a_model(call: Call, hub: Hub) -> None:
    revision = hub.add("maker/models", {"tiny.gguf": tiny(60_000, seed=9)})
    keep_catalogue(catalogue_entry("tiny", TINY, revision=revision))
    done = call("models", "pull", "tiny")
    assert done.code == 5
    assert "hit a bug" not in done.err
    assert not file_of("tiny").exists()
    assert models(call("models", "ls", "--json"))["tiny"]["state"] != "here"


def test_any_model_of_the_hub_can_be_named(call: Call, hub: Hub) -> None:
    hub.add("user/repo", {"Model-Q4_K_M.gguf": TINY, "Model-Q8_0.gguf": OTHER})
    done = call("models", "pull", "hf.co/user/repo:Q8_0", "-q", "--json")
    assert done.code == 0, done.err
    [one] = json.loads(done.out)["models"]
    assert one["id"] == "model-q8_0"
    assert one["sha256"] == hashlib.sha256(OTHER).hexdigest()
    assert Path(one["file"]).read_bytes() == OTHER
    shown = json.loads(call("models", "show", "model-q8_0", "--json").out)
    assert len(shown["revision"]) == 40
    missing = call("models", "pull", "hf.co/user/repo:Q2_K")
    assert (missing.code, "Model-Q4_K_M.gguf" in missing.err) == (2, True)


def test_one_that_the_catalogue_does_not_know_continues_by_its_id(call: Call, hub: Hub) -> None:
    hub.add("user/repo", {"Model-Q8_0.gguf": OTHER})

    async def only_want() -> None:
        held = library(load_settings(find_paths().config_file), find_paths())
        await ModelDownload(held).request("hf.co/user/repo")
        held.pause("model-q8_0")
        await held.aclose()

    asyncio.run(only_want())
    assert "paused 0 %" in call("models", "ls").out
    assert "`baton models pull model-q8_0` resumes it" in call("models", "show", "model-q8_0").out
    done = call("models", "pull", "model-q8_0", "--role", "reasoning")
    assert done.code == 0, done.err
    assert load_settings(find_paths().config_file).prefer == {
        "math": "model-q8_0",
        "reasoning": "model-q8_0",
    }


def test_an_address_will_do(call: Call, hub: Hub) -> None:
    address = f"{hub.url}/maker/models/resolve/main/other.gguf"
    done = call("models", "pull", address, "--agree", "-q", "--json")
    assert done.code == 0, done.err
    [one] = json.loads(done.out)["models"]
    assert one["id"] == "other-2"  # the catalogue's is another one
    assert Path(one["file"]).read_bytes() == OTHER


def test_a_licence_that_is_not_free_wants_a_yes(call: Call, hub: Hub) -> None:
    revision = hub.add("maker/models", {"tiny.gguf": TINY})
    keep_catalogue(catalogue_entry("tiny", TINY, revision=revision, licence="gemma"))
    done = call("models", "pull", "tiny")
    assert done.code == 2
    assert "under the licence gemma. Read it first (hf.co/maker/models)" in done.err
    assert "--agree" in done.err
    assert hub.served("tiny.gguf") == 0
    assert "which you have to agree to" in call("models", "show", "tiny").out
    assert call("models", "pull", "tiny", "--agree").code == 0


def test_at_a_terminal_the_licence_is_asked_about(hub: Hub) -> None:
    revision = hub.add("maker/models", {"tiny.gguf": TINY})
    keep_catalogue(catalogue_entry("tiny", TINY, revision=revision, licence="gemma"))
    for typed, code in (("\r", 2), ("y\r", 0)):
        screen = Terminal([*BATON, "models", "pull", "tiny"], os.environ)
        screen.wait_for("Fetch it under this licence?")
        assert "hf.co/maker/models" in screen.text
        screen.answer(typed)
        assert screen.wait_end(30) == code
        assert file_of("tiny").exists() == (code == 0)


def test_what_will_not_fit_wants_force_and_that_is_remembered(call: Call, hub: Hub) -> None:
    revision = hub.add("maker/models", {"tiny.gguf": TINY})
    keep_catalogue(catalogue_entry("tiny", TINY, revision=revision, kv_bytes=10**10))
    done = call("models", "pull", "tiny")
    assert done.code == 5
    assert "--force" in done.err
    assert "won't fit" in call("models", "show", "tiny").out
    assert "won't fit" in call("models", "ls", "--all").out
    assert hub.served("tiny.gguf") == 0
    assert list(models(call("models", "ls", "--json"))) == ["small"]
    assert call("models", "pull", "tiny", "--force").code == 0
    assert json.loads(call("models", "show", "tiny", "--json").out)["forced"] is True


def test_offline_is_reported_with_the_workaround(call: Call, hub: Hub) -> None:
    done = call("models", "pull", "tiny", "--offline")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "`baton models export" in done.err
    assert "`baton models import" in done.err
    assert hub.log == []


def test_without_a_name_nothing_unwanted_is_fetched(call: Call, hub: Hub) -> None:
    done = call("models", "pull")
    assert (done.code, done.out) == (0, "")
    assert "`baton models recommend`" in done.err
    assert hub.log == []


def test_ctrl_c_keeps_what_came_and_pull_continues(call: Call, hub: Hub) -> None:
    big = tiny(6_000_000, seed=3)
    revision = hub.add("maker/models", {"tiny.gguf": big})
    keep_catalogue(catalogue_entry("tiny", big, revision=revision))
    hub.fault(Fault(cut=4_000_000, stall=True), on="store")
    screen = Terminal([*BATON, "models", "pull", "tiny"], os.environ)
    screen.wait(lambda shown: "66 %" in shown or "63 %" in shown or "65 %" in shown)
    screen.send("\x03")
    assert screen.wait_end() == 130
    assert "are kept" in screen.text
    assert "`baton models pull` resumes" in screen.text
    row = models(call("models", "ls", "--json"))["tiny"]
    assert (row["state"], file_of("tiny").exists()) == ("coming", False)
    assert "coming" in call("models", "ls").out
    before = hub.served("tiny.gguf")
    done = call("models", "pull")
    assert done.code == 0, done.err
    assert file_of("tiny").read_bytes() == big
    assert hub.served("tiny.gguf") - before < 3_500_000


def test_two_batons_that_want_the_same_file_fetch_it_once(hub: Hub) -> None:
    big = tiny(3_000_000, seed=5)
    revision = hub.add("maker/models", {"tiny.gguf": big})
    keep_catalogue(catalogue_entry("tiny", big, revision=revision))
    hub.fault(Fault(rate=3_000_000), on="store")
    pulls = [
        subprocess.Popen([*BATON, "models", "pull", "tiny"], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [pull.communicate(timeout=60)[1] for pull in pulls]
    assert [pull.returncode for pull in pulls] == [0, 0], said
    assert file_of("tiny").read_bytes() == big
    assert hub.served("tiny.gguf") < 1.5 * len(big)


def test_a_broken_model_is_fetched_again(call: Call, hub: Hub) -> None:
    assert call("models", "pull", "tiny").code == 0
    file_of("tiny").write_bytes(TINY[:-1] + b"!")
    assert "changed" in call("models", "ls").out
    done = call("models", "verify", "tiny")
    assert (done.code, "broken" in done.out) == (5, True)
    done = call("models", "pull")
    assert done.code == 0, done.err
    assert file_of("tiny").read_bytes() == TINY
    assert call("models", "verify").code == 0


def test_the_hubs_own_switch_for_offline_holds_too(
    call: Call, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = call("models", "pull", "tiny")
    assert (done.code, "hit a bug" in done.err, hub.log) == (2, False, [])


# From this machine


def test_a_file_is_copied_verified_and_used(call: Call, tmp_path: Path) -> None:
    mine = tmp_path / "My Model.gguf"
    mine.write_bytes(TINY)
    done = call("models", "import", str(mine))
    assert done.code == 0, done.err
    row = models(call("models", "ls", "--json"))["my-model"]
    assert (row["state"], row["sha256"]) == ("here", hashlib.sha256(TINY).hexdigest())
    mine.unlink()
    assert call("models", "verify", "my-model").code == 0


@pytest.mark.parametrize("way", ["import", "import --link", "pull", "pull --recommended"])
def test_no_role_is_taken_from_what_was_set_by_hand(
    call: Call, hub: Hub, tmp_path: Path, way: str
) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(tiny(70_000, seed=3))
    assert call("models", "role", "chat", "small").code == 0
    assert call("models", "role", "conductor", "small").code == 0
    if way == "pull --recommended":
        file = find_paths().state / "recommended.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        picks = [{"id": "tiny", "roles": ["chat", "conductor"]}]
        file.write_text(json.dumps({"at": time.time(), "models": picks}))
    named = {"import": [str(mine)], "pull": ["tiny"]}.get(way.split()[0], [])
    done = call("models", *way.split(), *(named if "--recommended" not in way else []))
    assert done.code == 0, done.err
    assert "is here; `-m " in done.err
    settings = load_settings(find_paths().config_file)
    assert (settings.worker, settings.conductor) == ("small", "small")
    assert models(call("models", "ls", "--json"))["small"]["default"]
    asked = call("models", "pull", "other", "--role", "chat")
    assert (asked.code, load_settings(find_paths().config_file).worker) == (0, "other"), "asked for"


def test_a_linked_file_stays_where_it_is(call: Call, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(TINY)
    done = call("models", "import", "--link", str(mine), "--id", "own", "--json", "-q")
    assert done.code == 0, done.err
    [one] = json.loads(done.out)["models"]
    assert (one["id"], one["state"], one["linked"]) == ("own", "linked", True)
    assert "60.0 kB linked" in call("models", "ls").err
    assert not list(find_paths().models.rglob("*.gguf"))
    gone = call("models", "rm", "own", "-y")
    assert (gone.code, mine.exists()) == (0, True)
    assert "stays where it is" in gone.err


def test_a_linked_file_that_went_away_is_reported_with_the_remedy(
    call: Call, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(TINY)
    assert call("models", "import", "--link", str(mine)).code == 0
    mine.unlink()
    assert models(call("models", "ls", "--json"))["mine"]["state"] == "gone"
    assert call("models", "verify").code == 5
    done = call("models", "pull", "mine")
    assert (done.code, "`baton models import PATH`" in done.err) == (5, True)


def test_outside_names_are_cleaned(call: Call, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(tiny(name="\x1b]0;forged\x07\u202eevil"))
    done = call("models", "import", str(mine))
    assert done.code == 0, done.err
    shown = call("models", "show", "mine")
    assert not {"\x1b", "\x07", "\u202e"} & set(done.err + shown.out + call("models", "ls").out)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all" * 100])
def test_what_is_not_a_model_is_refused(call: Call, tmp_path: Path, content: bytes) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(content)
    done = call("models", "import", str(mine))
    assert (done.code, "hit a bug" in done.err) == (5, False)
    assert list(models(call("models", "ls", "--json"))) == ["small"]


def test_a_file_that_is_not_there_is_reported_and_others_are_taken(
    call: Call, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(TINY)
    done = call("models", "import", str(tmp_path / "no.gguf"), str(mine), "--link", "--json")
    assert (done.code, "hit a bug" in done.err) == (5, False)
    report = json.loads(done.out)
    assert (report["status"], report["error"]["type"]) == ("failed", "ModelFileError")
    assert [one["id"] for one in report["models"]] == [None, "mine"]
    assert call("models", "import").code == 2


@pytest.mark.parametrize("typed", ["no.gguf", "./no.gguf", "deep/no.gguf", "{here}/no.gguf"])
def test_a_path_that_leads_nowhere_is_shown_as_it_was_typed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    typed = typed.format(here=tmp_path)
    for option in ("-q", "--link"):
        done = call("models", "import", option, typed)
        path = str(Path(typed))  # ./no.gguf is no.gguf
        assert (done.code, done.err) == (
            5,
            f"baton: There is no file {path}. Check its path.\n",
        )


def test_each_reason_why_a_file_is_not_taken_is_reported(call: Call, tmp_path: Path) -> None:
    def errors(*args: str) -> str:
        done = call("models", "import", "-q", *args)
        assert (done.code, done.out) == (5, "")
        return done.err

    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"")
    assert f"{mine} isn't a model that can be used: it is empty." in errors(str(mine))
    mine.write_bytes(b"PK" * 100)
    assert "isn't a model that can be used: it isn't a GGUF file, but a" in errors(str(mine))
    mine.unlink()
    os.mkfifo(mine)
    assert f"{mine} can't be read: it isn't an ordinary file." in errors(str(mine))
    mine.unlink()
    mine.symlink_to(mine)  # which the system refuses root, too
    assert f"{mine} can't be read: Too many levels of symbolic links. Check its owner" in errors(
        str(mine)
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    assert errors(str(empty)) == (
        f"baton: {empty} is a folder that `baton models export` didn't make. Name a .gguf file.\n"
    )
    for name in ("b.gguf", "a.gguf"):
        (empty / name).write_bytes(TINY)
    assert "Name the model files in it, such as 'a.gguf' (2 are in it).\n" in errors(str(empty))


@pytest.mark.parametrize("typed", ["tiny", "hf.co/user/repo:Q4_K_M", "https://example.org/a.gguf"])
def test_who_imports_what_is_to_be_fetched_is_led_there(call: Call, hub: Hub, typed: str) -> None:
    done = call("models", "import", typed)
    assert (done.code, hub.log) == (2, [])
    assert f"`baton models pull {typed}` does." in done.err


def test_another_programs_models_are_found_and_linked(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    sha256 = hashlib.sha256(TINY).hexdigest()
    blob = tmp_path / ".ollama/models/blobs" / f"sha256-{sha256}"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(TINY)
    manifest = tmp_path / ".ollama/models/manifests/registry.ollama.ai/library/tiny/1b"
    manifest.parent.mkdir(parents=True)
    layer = {
        "mediaType": "application/vnd.ollama.image.model",
        "digest": f"sha256:{sha256}",
        "size": len(TINY),
    }
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [layer]}))
    done = call("models", "import", "--found")
    assert done.code == 0, done.err
    assert "tiny:1b" in done.out
    assert "Ollama" in done.out
    [one] = json.loads(call("models", "import", "--found", "--json").out)["models"]
    assert (one["file"], one["sha256"]) == (str(blob), sha256)
    near = call("models", "import", "--found", "tiny:1")
    assert (near.code, "Did you mean 'tiny:1b'?" in near.err) == (2, True)
    done = call("models", "import", "--found", "tiny:1b", "--json", "-q")
    assert done.code == 0, done.err
    [held] = json.loads(done.out)["models"]
    assert (held["state"], held["sha256"], held["file"]) == ("linked", sha256, str(blob))
    assert json.loads(call("models", "import", "--found", "--json").out)["models"] == []


def test_a_damaged_stick_is_reported_and_leaves_nothing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock("mine", TINY)
    stick = tmp_path / "stick"
    assert call("models", "export", "mine", str(stick)).code == 0
    file = stick / "mine.gguf"
    file.write_bytes(TINY[:-9] + b"!" + TINY[-8:])
    monkeypatch.setenv("BATON_HOME", str(tmp_path / "other machine"))
    done = call("models", "import", str(stick))
    assert (done.code, "hit a bug" in done.err) == (5, False)
    assert list(models(call("models", "ls", "--json"))) == ["small"]


def test_what_is_here_already_is_not_copied_again(call: Call, tmp_path: Path) -> None:
    stock("mine", TINY)
    before = (find_paths().models / "mine" / "mine.gguf").stat()
    stick = tmp_path / "stick"
    assert call("models", "export", str(stick)).code == 0
    done = call("models", "import", str(stick))
    assert (done.code, "is here already" in done.err) == (0, True)
    assert (find_paths().models / "mine" / "mine.gguf").stat().st_ino == before.st_ino
    assert list(models(call("models", "ls", "--json"))) == ["small", "mine"]


def test_a_stick_takes_models_to_a_machine_without_a_network(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock("tiny", TINY)
    stock("other", OTHER)
    stick = tmp_path / "stick"
    done = call("models", "export", str(stick))
    assert done.code == 0, done.err
    assert "Copied 2 models" in done.err
    monkeypatch.setenv("BATON_HOME", str(tmp_path / "other machine"))
    monkeypatch.setenv("BATON_OFFLINE", "1")
    done = call("models", "import", str(stick))
    assert done.code == 0, done.err
    found = models(call("models", "ls", "--json"))
    assert {id: found[id]["state"] for id in ("tiny", "other")} == {"tiny": "here", "other": "here"}
    assert found["tiny"]["sha256"] == hashlib.sha256(TINY).hexdigest()


UNUSABLE = {
    "no weights": gguf_writer.header(gguf_writer.facts()),
    "one tensor of many": gguf_writer.whole(
        gguf_writer.facts(), [gguf_writer.Tensor("token_embd.weight", (64, 64))]
    ),
    "an unknown kind": gguf_writer.whole(
        gguf_writer.facts("heron"), [gguf_writer.Tensor("token_embd.weight", (64, 64))]
    ),
    "cut short": TINY[:20_000],
}


def test_a_download_that_cannot_be_loaded_gets_no_role(call: Call, hub: Hub) -> None:
    content = UNUSABLE["an unknown kind"]
    revision = hub.add("maker/models", {"heron.gguf": content})
    keep_catalogue(catalogue_entry("heron", content, revision=revision))
    done = call("models", "pull", "heron")
    assert (done.code, "hit a bug" in done.err, "from now on" in done.err) == (5, False, False)
    assert models(call("models", "ls", "--json"))["heron"]["state"] == "broken"
    assert not find_paths().config_file.exists()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("link", [["--link"], []])
@pytest.mark.parametrize("content", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_file_that_cannot_be_loaded_gets_no_role(
    call: Call, tmp_path: Path, content: bytes, link: list[str]
) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(content)
    done = call("models", "import", str(mine), *link)
    assert (done.code, "hit a bug" in done.err, "from now on" in done.err) == (5, False, False)
    assert list(models(call("models", "ls", "--json"))) == ["small"]
    assert not find_paths().config_file.exists()


@pytest.mark.parametrize("way", ["import", "link", "pull"])
def test_one_that_cannot_write_is_kept_without_a_role(
    call: Call, hub: Hub, tmp_path: Path, way: str
) -> None:
    """It became the default, and failed at every prompt."""
    mine = write_with_template(tmp_path / "mine.gguf", "{{ 9 ** 9 }}")
    if way == "pull":
        hub.add("user/repo", {"mine.gguf": mine.read_bytes()})
        done = call("models", "pull", "-q", "hf.co/user/repo")
    else:
        done = call("models", "import", *(["--link"] if way == "link" else []), str(mine))
    assert done.code == 0
    if way != "pull":
        assert "is kept, but it can't answer, so it has no role. The model's chat" in done.err
    assert load_settings(find_paths().config_file).worker == "small"
    shown = call("models", "show", "mine")
    assert "it can't answer: The model's chat template can't be used: it computes powers" in (
        " ".join(shown.out.split())
    )
    assert "mine" not in call("workers", "ls").out
    given = call("models", "role", "chat", "mine")
    assert (given.code, "mine can't answer, so it can't have a role." in given.err) == (2, True)
    assert load_settings(find_paths().config_file).worker == "small"
    asked = call("ask", "-m", "mine", "Hi")
    assert (asked.code, "it computes powers" in asked.err) == (5, True)
    assert json.loads(call("models", "ls", "--json").out)["models"]


def test_one_whose_template_is_broken_says_so(call: Call, tmp_path: Path) -> None:
    mine = write_with_template(tmp_path / "mine.gguf", "{% for %}")
    said = "The model's chat template is broken, so its answers may ramble."
    assert said in call("models", "import", "--link", str(mine)).err
    assert said in call("models", "show", "mine").out
    done = call("ask", "--json", "--max-tokens", "2", "Say hello")
    [warned] = [one for one in json.loads(done.out)["warnings"] if one["kind"] == "chat_template"]
    assert warned["message"] == said
    done = call("ask", "--json", "-m", str(mine), "--max-tokens", "2", "Say hello")
    assert "chat_template" in [one["kind"] for one in json.loads(done.out)["warnings"]]
