"""The catalogue of models: what ships, what the user adds, and the script that looks after it."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from baton.core.catalogue_types import ModelRole, Source, ThinkingMode
from baton.core.errors import ModelFileError
from baton.models import catalogue
from support.fake_hub import Hub

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import catalogue as script  # noqa: E402
import catalogue_hub  # noqa: E402

MINE = """
[[model]]
id = "mine"
name = "Mine"
repo = "me/mine-GGUF"
file = "mine-Q4_K_M.gguf"
licence = "mit"
parameters = 1_000_000_000
context = 4096
roles = ["coder", "chat", "coder"]
thinking = "always"
skills = { code = 3 }
scores = [["HumanEval", 90, "me"]]
note = "Mine."
"""


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", SCRIPTS / "catalogue.py", *arguments],
        env=os.environ | {"HF_HUB_OFFLINE": "0"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_what_ships_is_sound_and_sets_are_possible() -> None:
    entries = catalogue.read_catalogue()
    assert 25 <= len(entries) <= 35
    free = [entry for entry in entries if entry.is_free]
    assert 3 <= len(entries) - len(free) <= 5
    for role in ModelRole:
        assert any(role in entry.roles for entry in free)
    for entry in entries:
        assert entry.licence, entry.id
        assert entry.note, entry.id
        assert entry.active <= entry.parameters
    pinned = [e for e in entries if e.size and e.sha256 and len(e.source.revision) == 40]
    assert len(pinned) >= 30
    checked = run("check")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_own_entries_are_added_and_replace(tmp_path: Path) -> None:
    theirs = catalogue.read_catalogue()
    own = MINE + MINE.replace('"mine"', f'"{theirs[0].id}"')
    (tmp_path / "catalogue.toml").write_text(own, "utf-8")
    entries = {entry.id: entry for entry in catalogue.read_catalogue(tmp_path / "catalogue.toml")}
    assert list(entries) == [*(entry.id for entry in theirs), "mine"]
    assert entries[theirs[0].id].name == "Mine"
    mine = entries["mine"]
    assert mine.source == Source("me/mine-GGUF", "mine-Q4_K_M.gguf")
    assert (mine.size, mine.sha256, mine.kv_bytes) == (0, "", 0)
    assert (mine.active, mine.roles) == (10**9, (ModelRole.CODER, ModelRole.CHAT))
    assert (mine.thinking, mine.skills) == (ThinkingMode.ALWAYS, {"code": 3})
    (tmp_path / "catalogue.toml").write_text(MINE.replace('"Mine"', '"Yours"'), "utf-8")
    assert catalogue.read_catalogue(tmp_path / "catalogue.toml")[-1].name == "Yours"
    assert catalogue.read_catalogue(tmp_path / "nothing") == theirs


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('id = "mine"', 'id = "../mine"', "model[0].id"),
        ('id = "mine"', 'id = "Mine"', "model[0].id"),
        ('id = "mine"', "", "id"),
        ("mine-Q4_K_M.gguf", "../../mine.gguf", "model[0].file"),
        ("mine-Q4_K_M.gguf", "/etc/mine.gguf", "model[0].file"),
        ("mine-Q4_K_M.gguf", "mine.safetensors", "model[0].file"),
        ("me/mine-GGUF", "me/../mine", "model[0].repo"),
        ("me/mine-GGUF", "https://example.org/mine", "model[0].repo"),
        ('repo = "me/mine-GGUF"', "", "needs either a `repo` or a `url`"),
        ('repo = "me/mine-GGUF"', 'repo = "me/mine"\nurl = "https://x.org/a.gguf"', "needs either"),
        ('repo = "me/mine-GGUF"', 'url = "file:///etc/passwd"', "model[0].url"),
        ('licence = "mit"', 'revision = "main"', "model[0].revision"),
        ('licence = "mit"', 'sha256 = "ABC"', "model[0].sha256"),
        ('licence = "mit"', "size = -1", "model[0].size"),
        ('licence = "mit"', "size = 10000000000000000000", "model[0].size"),
        ('licence = "mit"', "active = 2_000_000_000", "more active parameters"),
        ('licence = "mit"', "colour = 1", "colour"),
        ("code = 3", "code = 6", "model[0].skills"),
        ("code = 3", "singing = 3", "'singing', which isn't a task kind"),
        ('["coder", "chat", "coder"]', '["cook"]', "model[0].roles"),
        ('"always"', '"sometimes"', "model[0].thinking"),
        ('"HumanEval", 90', '"HumanEval", 900', "model[0].scores"),
        ('"Mine."', '"A \\u001b[31m note"', "model[0].note"),
        ("4096", '"much"', "model[0].context"),
        ("[[model]]", "[model]", "array"),
        ("[[model]]", "[[model]", "line 2"),
        (MINE, MINE + MINE, "two models are called 'mine'"),
        (MINE, "a = " + "[" * 5000, "line 1|nested"),
    ],
)
def test_a_broken_file_is_reported_in_a_sentence(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in MINE
    file = tmp_path / "catalogue.toml"
    file.write_text(MINE.replace(old, new, 1), "utf-8")
    with pytest.raises(ModelFileError, match=said.replace("[", r"\[")) as raised:
        catalogue.read_catalogue(tmp_path / "catalogue.toml")
    assert str(file) in raised.value.message
    assert "\n" not in raised.value.message
    assert str(file) in raised.value.hint


def test_what_is_not_text_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.toml"
    for content in (b"\xff\xfe", b"\0", b"#" * 5_000_000):
        file.write_bytes(content)
        with pytest.raises(ModelFileError, match=re.escape(str(file))):
            catalogue.read_catalogue(tmp_path / "catalogue.toml")
    file.unlink()
    file.mkdir()
    with pytest.raises(ModelFileError, match="can't be read"):
        catalogue.read_catalogue(tmp_path / "catalogue.toml")


def test_a_file_cut_or_flipped_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    dice = random.Random(6)
    file = tmp_path / "catalogue.toml"
    whole = (MINE * 2).replace('"mine"', '"mine2"', 1).encode()
    read = 0
    for _ in range(300):
        raw = bytearray(whole[: dice.randrange(1, len(whole))] if dice.random() < 0.3 else whole)
        for _ in range(dice.randint(0, 2)):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        file.write_bytes(raw)
        try:
            entries = catalogue.read_catalogue(tmp_path / "catalogue.toml")
        except ModelFileError:
            continue
        read += 1
        for entry in entries:
            assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", entry.id)
            assert ".." not in entry.source.file.split("/")
            assert all(1 <= level <= 5 for level in entry.skills.values())
    assert 0 < read < 300


CHECKED = """
[[model]]
id = "m"
name = "M"
repo = "user/repo"
file = "m-Q4_K_M.gguf"
REST
licence = "apache-2.0"
parameters = 2_000
context = 4096
roles = ["chat", "conductor", "coder", "reasoning"]
scores = [["HumanEval", 90, "its maker"], ["MBPP, thinking", 80, "its maker"]]
thinking = "switch"
skills = { code = 2.4 }
note = "# A note of its own."
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("code = 2.4", "code = 4.4", "its skill in code must be 2.4, not 4.4"),
        ("code = 2.4", "code = 2.4, math = 2", "its skill in math must be None, not 2"),
        ('"apache-2.0"', '"my own"', "nobody has read the licence 'my own'"),
        ('"switch"', '"none"', "has scores with thinking, and can't think"),
        ("2_000", "20_000", "0.5 bits per parameter are not Q4_K_M"),
        ("m-Q4_K_M.gguf", "m-Q3_K_S.gguf", "nothing is known of how m-Q3_K_S.gguf is packed"),
        (
            "4096",
            "4096\nattention = [[2, 2, 4]]\nkv_bytes = 65",
            "makes 64 bytes per token, not 65",
        ),
        (', "coder"', "", "no free model of known size is for coder"),
        ("\nnote", "\nrevision = '" + "a" * 40 + "'\nnote", "has a revision, and no hash"),
        (CHECKED, CHECKED + CHECKED.replace('"m"', '"n"'), "n: has the same name as m"),
    ],
)
def test_the_script_reports_what_does_not_hold_together(old: str, new: str, said: str) -> None:
    right = CHECKED.replace("REST", "size = 1_200")
    assert list(script.problems(catalogue.parse_models(right))) == []
    old, new = (part.replace("REST", "size = 1_200") for part in (old, new))
    changed = right.replace(old, new)
    assert changed != right
    problems = "\n".join(script.problems(catalogue.parse_models(changed)))
    assert said in problems


def compare(file: Path) -> str:
    return "\n".join(catalogue_hub.compare(catalogue.parse_models(file.read_text("utf-8"))))


def pin(file: Path) -> str:
    return "\n".join(catalogue_hub.pin(file, catalogue.parse_models(file.read_text("utf-8"))))


def test_the_hub_is_compared_and_fills_in_what_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "catalogue.toml"
    with Hub() as hub:
        for name, value in hub.environ.items():
            monkeypatch.setenv(name, value)
        old = hub.add("user/repo", {"m-Q4_K_M.gguf": b"GGUF" * 300, "README.md": b"hello"})
        sha256 = hub.sha256("user/repo", "m-Q4_K_M.gguf")
        file.write_text("# Mine.\n" + CHECKED.replace("REST\n", "") + "# End.\n", "utf-8")
        assert pin(file) == ""
        text = file.read_text("utf-8")
        known = f'revision = "{old}"\nsize = 1_200\nsha256 = "{sha256}"\n'
        assert text == "# Mine.\n" + CHECKED.replace("REST\n", known) + "# End.\n"
        before = len(hub.log)
        assert pin(file) == ""
        assert (len(hub.log), file.read_text("utf-8")) == (before, text), "nothing was lacking"

        hub.add("user/repo", {"m-Q4_K_M.gguf": b"GGUF" * 400}, licence="mit")
        assert compare(file) == "m: the hub's licence is mit, not apache-2.0"
        hub.add("user/repo", {"m-Q4_K_M.gguf": b"GGUF" * 400})
        assert compare(file) == "", "it is pinned"

        loose = text.replace(f'revision = "{old}"\n', "")
        file.write_text(loose, "utf-8")
        for output in (compare(file), pin(file)):
            assert "m: the hub's size is 1600, not 1200" in output
            assert f"not {sha256}" in output
            assert file.read_text("utf-8") == loose, "another file isn't pinned"

        file.write_text(text.replace("user/repo", "user/other"), "utf-8")
        assert compare(file).startswith("m: the hub says: ")
        file.write_text(text.replace("m-Q4_K_M", "x-Q4_K_M"), "utf-8")
        assert compare(file) == "m: the hub's user/repo has no x-Q4_K_M.gguf"
        assert not hub.served(), "no content is needed for that"


def test_without_a_hub_that_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.toml"
    file.write_text(CHECKED.replace("REST", "size = 1_200"), "utf-8")
    ran = run("check", "--hub", "--file", file, HF_ENDPOINT="http://127.0.0.1:9")
    assert ran.returncode == 1
    assert ran.stderr.startswith("No hub answers at http://127.0.0.1:9, so nothing was compared: ")
    assert ran.stderr.count("\n") == 1
