"""What a prompt names: files in all the ways people write them, once each, and what isn't there."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.workers.file_mentions import find_mentions

DECOMPOSED = unicodedata.normalize("NFD", "Größe.md")
FILES = [
    *("notes.md", "a b.md", "Car Kit/x.md", DECOMPOSED, "Tom's list.md", "会议.md", "README"),
    *("[id].tsx", "(group)/page.tsx", "~draft.md", "@types.md", "report final (2).md"),
    *("Makefile", "odd,", "me@example.com", "src.d/y", "Screen\u202fshot.md"),
]
IN_SIGNS = """
    `@notes.md` | @`notes.md` | “@notes.md” | „@notes.md“ | »@notes.md« | «@notes.md» | '@notes.md'
    **@notes.md** | *@notes.md* | _@notes.md_ | ~~@notes.md~~ | <@notes.md> | [x](@notes.md)
    @<notes.md> | @{notes.md} | @「notes.md」 | see:@notes.md | a—@notes.md | {@notes.md}
    @notes.md's | @notes.md’s | @notes.md: | @notes.md… | @notes.md... | @notes.md!? | @notes.md,
    - @notes.md | @notes.md;x | @notes.md，谢谢 | 请总结@notes.md的内容 | @notes.md。 | ＠notes.md
    @notes.md-style | @notes.md-Datei.
    ＠ｎｏｔｅｓ．ｍｄ | @notes.md#L10-20 | @notes.md:12 | (@notes.md) | "@notes.md is long"
"""  # noqa: RUF001


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("see @notes.md")
    return tmp_path


def named(text: str) -> list[str]:
    return [str(path) for path in find_mentions(text).files]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", IN_SIGNS.strip().replace("\n", "|").split("|"))
def test_a_name_is_found_whatever_stands_around_it(text: str) -> None:
    assert find_mentions(f"Summarise {text.strip()} now") == ((Path("notes.md"),), ())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((text, "a b.md") for text in ('@"a b.md"', "@'a b.md'", "@“a b.md”", "@„a b.md“")),
        *((text, "a b.md") for text in ("@«a b.md»", "@`a b.md`", '"@a b.md"', "„@a b.md“")),
        ("@a\\ b.md, please", "a b.md"),
        ("@Car\\ Kit/x.md", "Car Kit/x.md"),
        ("@'Car Kit/x.md'", "Car Kit/x.md"),
        ("@Größe.md", DECOMPOSED),
        ("@Tom’s\\ list.md", "Tom's list.md"),  # noqa: RUF001
        ('@"Screen shot.md"', "Screen\u202fshot.md"),
        ("@会议.md里有什么", "会议.md"),
        ("@Makefile?", "Makefile"),
        ("@odd,", "odd,"),
        ("Is @[id].tsx, or", "[id].tsx"),
        ("@(group)/page.tsx", "(group)/page.tsx"),
        ("@~draft.md", "~draft.md"),
        ("@'@types.md' it", "@types.md"),
        ("Sum @a b.md, please", "a b.md"),
        ("Sum @report final (2).md", "report final (2).md"),
        ("@src.d/y.", "src.d/y"),
    ],
)
def test_spaces_quotes_and_composed_characters_are_understood(text: str, name: str) -> None:
    assert find_mentions(text) == ((Path(name),), ())


def test_a_file_is_named_once_by_whatever_way(folder: Path) -> None:
    Path("link.md").symlink_to("notes.md")
    os.link("notes.md", "hard.md")
    ways = f"@notes.md @./notes.md @src.d/../notes.md @link.md @hard.md @{folder}/notes.md"
    assert named(ways) == ["notes.md"]
    assert named("@notes.md,@README|@notes.md") == ["notes.md", "README"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "text",
    [
        "@app.route('/x')\ndef f(): pass\n@functools.cache\ndef g(): pass",
        'NSLog(@"Hello")',
        "you@example.com @nobody x@notes.md @gmail.com @... @",
        "https://x.org/@user/notes.md",
        "curl -d@notes.md -F x=@notes.md",
        "\\@notes.md",
        "10 pieces @1.50, at @5.30, with @v1.2.4 on @127.0.0.1",
        "@nobody says that x.md is long",
    ],
)
def test_what_is_not_a_name_stays_text(text: str) -> None:
    assert find_mentions(text) == ((), ())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(@no.md) @no.md!", "no.md"),
        ("`@no.md`", "no.md"),
        ("@no.md's", "no.md"),
        ("@no.md…", "no.md"),
        ("@no.md，谢谢", "no.md"),  # noqa: RUF001
        ("@No\\ Kit/x.md", "No Kit/x.md"),
        ('@"a c.md"', "a c.md"),
        ("@“dir/a c.md”", "dir/a c.md"),
        ("@dir/x", "dir/x"),
        ("@README.md", "README.md"),
        ("@~nobody/x", "~nobody/x"),
        ("@.bashrc", ".bashrc"),
        ('from "@/x/Button.vue"', "/x/Button.vue"),
        ("@notes.md-old.md", "notes.md-old.md"),
    ],
)
def test_what_looks_like_a_file_and_is_not_there_is_said_once(text: str, name: str) -> None:
    assert find_mentions(text) == ((), (f"There is no file {name}.",))


@pytest.mark.usefixtures("folder")
def test_a_folder_is_said() -> None:
    assert find_mentions("@src.d") == ((), ("src.d isn't a file, and wasn't attached.",))


@given(st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    assert all(path.is_file() for path in find_mentions("@" + text).files)


@pytest.mark.parametrize("part", ['@"', "@x,", "@a.b ", "＠x.y/z "])  # noqa: RUF001
def test_a_text_of_nothing_but_signs_is_looked_through(part: str) -> None:
    assert find_mentions(part * 1_500).files == ()
