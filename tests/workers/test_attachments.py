"""Attachments: what is read, what is refused, and that nothing hangs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baton.core.errors import ConfigError
from baton.presentation.words import file_text, lack_text
from baton.workers.attachments import read_attachment
from support.sample_pdfs import write_pdf

MB = 2**20


def refusal(path: Path, limit: int = MB) -> str:
    with pytest.raises(ConfigError) as caught:
        read_attachment(path, limit)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_in_the_encodings_that_say_what_they_are(
    tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "notes.md"
    file.write_bytes("# Lisboa\r\n\tManhã, 3 €".encode(encoding))
    attachment = read_attachment(file)
    assert attachment.text == "# Lisboa\r\n\tManhã, 3 €"
    assert (attachment.name, attachment.size) == ("notes.md", file.stat().st_size)


def test_a_pdf_gives_its_text(tmp_path: Path) -> None:
    assert read_attachment(write_pdf("Three days in Lisbon", tmp_path / "a.pdf")).text == (
        "Three days in Lisbon"
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: write_pdf("", p), "no text in it"),
        (lambda p: write_pdf("secret", p, password="x"), "needs a password"),
        (lambda p: p.write_bytes(b"%PDF-1.7\nnonsense"), "broken PDF"),
        (lambda p: p.write_bytes(b"\x7fELF\0\0\1"), "is not text"),
        (lambda p: p.write_bytes("Ol\xe9".encode("latin-1")), "not UTF-8 text (byte 2)"),
        (lambda p: p.write_text(" \n"), "is empty"),
        (lambda p: p.write_bytes(b"x" * (MB + 1)), "more than 1.0 MB"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: os.mkfifo(p), "not an ordinary file"),
        (lambda p: p.symlink_to("/dev/zero"), "not an ordinary file"),
        (lambda p: p.symlink_to(p), "can't be read"),
        (lambda p: None, "There is no file"),
    ],
)
def test_what_is_not_text_is_refused_in_one_sentence(
    tmp_path: Path, make: Callable[[Path], object], sentence: str
) -> None:
    path = tmp_path / "thing.pdf"
    make(path)
    message = refusal(path)
    assert sentence in message
    assert "thing.pdf" in message


def test_a_broken_pdf_says_nothing_on_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = write_pdf("Lisbon", tmp_path / "a.pdf").read_bytes()
    (tmp_path / "a.pdf").write_bytes(whole.replace(b"endobj", b"endbjo", 2)[:-20])
    with contextlib.suppress(ConfigError):
        read_attachment(tmp_path / "a.pdf")
    assert capfd.readouterr() == ("", "")


def test_a_file_that_fails_while_it_is_read_is_refused() -> None:
    assert "mem can't be read: Input/output error" in refusal(Path("/proc/self/mem"))


def test_a_name_can_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b]0;x\x07\nb.txt"
    path.write_text("x")
    name = read_attachment(path).name
    assert name.isprintable()


def unreadable_pdf(path: Path, meanings: str) -> Path:
    """Write a PDF of one line, whose font says what each of its letters means."""
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import DecodedStreamObject, NameObject

    letters = "abcdefghij"[: len(meanings)]
    writer = PdfWriter(clone_from=PdfReader(write_pdf(letters, path)))
    lines = "".join(
        f"<{ord(letter):02x}> <{meaning.encode('utf-16-be').hex()}>\n"
        for letter, meaning in zip(letters, meanings, strict=True)
    )
    table = DecodedStreamObject()
    table.set_data(
        f"begincmap\n1 begincodespacerange\n<00> <ff>\nendcodespacerange\n"
        f"{len(meanings)} beginbfchar\n{lines}endbfchar\nendcmap\n".encode()
    )
    font: Any = writer.pages[0]["/Resources"]["/Font"]["/F1"]  # type: ignore[index]
    font[NameObject("/ToUnicode")] = writer._add_object(table)
    with path.open("wb") as file:
        writer.write(file)
    return path


@pytest.mark.parametrize(
    ("meanings", "text", "note"),
    [
        ("O\0ce\ue000w", "O\ufffdce\ufffdw", "2 characters that can't be read"),
        ("\uf0b7ne\U000f1234", "•ne\ufffd", "1 character that can't be read"),
        ("O\ufb03ce", "O\ufb03ce", ""),
        ("a\x1b[1mb", "ab", ""),
    ],
)
def test_glyphs_without_meaning_are_marked_and_counted(
    tmp_path: Path, meanings: str, text: str, note: str
) -> None:
    file = read_attachment(unreadable_pdf(tmp_path / "a.pdf", meanings))
    assert (file.text, lack_text(file)) == (text, note)


def test_glyphs_that_are_names_only_are_marked(tmp_path: Path) -> None:
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject

    writer = PdfWriter(clone_from=PdfReader(write_pdf("abcde and/or /b2", tmp_path / "a.pdf")))
    font: Any = writer.pages[0]["/Resources"]["/Font"]["/F1"]  # type: ignore[index]
    names = [*map(NameObject, ("/g12", "/g3", "/g45", "/gid00017"))]
    given = {"/Type": NameObject("/Encoding"), "/Differences": [NumberObject(97), *names]}
    given["/Differences"] = ArrayObject(given["/Differences"])
    font[NameObject("/Encoding")] = DictionaryObject(
        {NameObject(name): value for name, value in given.items()}
    )
    writer.write(tmp_path / "a.pdf")
    text = read_attachment(tmp_path / "a.pdf").text
    assert text.startswith("\ufffd\ufffd\ufffd\ufffde ")


def test_a_pdf_of_nothing_but_such_glyphs_is_refused(tmp_path: Path) -> None:
    assert "fonts don't say" in refusal(unreadable_pdf(tmp_path / "a.pdf", "\0\ue001"))


def test_pages_without_text_are_said_to_reader_and_worker(tmp_path: Path) -> None:
    from pypdf import PdfWriter

    writer = PdfWriter()
    for name, text in {"a": "", "b": "Lisbon", "c": ""}.items():
        writer.append(write_pdf(text, tmp_path / name))
    with (tmp_path / "mixed.pdf").open("wb") as file:
        writer.write(file)
    attachment = read_attachment(tmp_path / "mixed.pdf")
    assert attachment.text == "[Page 1 has no text.]\n\nLisbon\n\n[Page 3 has no text.]"
    assert file_text(attachment).endswith("tokens); 2 pages without text (1, 3)")


def test_a_page_about_pdf_is_not_a_pdf(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A PDF begins with %PDF-1.7.\n")
    assert read_attachment(tmp_path / "a.md").text == "A PDF begins with %PDF-1.7.\n"


def test_colours_of_a_log_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "build.log").write_text("\x1b[31merror\x1b[0m: no\n")
    assert read_attachment(tmp_path / "build.log").text == "error: no\n"
