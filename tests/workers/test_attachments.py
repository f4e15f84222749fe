"""Attachments: what is read, what is refused, and that nothing hangs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import ConfigError
from baton.workers.attachments import decode_text, mentioned_files, missing_files, read_attachment

MB = 2**20


def refusal(path: Path, limit: int = MB) -> str:
    with pytest.raises(ConfigError) as caught:
        read_attachment(path, limit)
    assert caught.value.hint
    return caught.value.message


def pdf(text: str, path: Path, password: str = "") -> Path:
    """Write a one-page PDF by hand, so that its text is known."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if text:
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password:
        writer.encrypt(password)
    with path.open("wb") as file:
        writer.write(file)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_in_the_encodings_that_say_what_they_are(
    tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "notes.md"
    file.write_bytes("# Lisboa\r\n\tManhã, 3 €".encode(encoding))
    attachment = read_attachment(file)
    assert attachment.text == "# Lisboa\r\n\tManhã, 3 €"
    assert (attachment.name, attachment.size) == ("notes.md", file.stat().st_size)


@given(st.text().filter(lambda text: "\0" not in text and not text.startswith("\ufeff")))
def test_no_utf8_text_is_changed_by_reading_it(text: str) -> None:
    assert decode_text(text.encode(), "x") == text


@given(st.binary())
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        assert "\0" not in decode_text(data, "x")


def test_a_pdf_gives_its_text(tmp_path: Path) -> None:
    assert read_attachment(pdf("Three days in Lisbon", tmp_path / "a.pdf")).text == (
        "Three days in Lisbon"
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: pdf("", p), "no text in it"),
        (lambda p: pdf("secret", p, password="x"), "needs a password"),
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
def test_what_is_no_text_is_refused_in_one_sentence(
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
    whole = pdf("Lisbon", tmp_path / "a.pdf").read_bytes()
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


def test_only_existing_files_are_mentions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "a b.txt", "odd,", "me@example.com"):
        Path(name).write_text("see @notes.txt")
    Path("folder").mkdir()
    found = mentioned_files(
        'Compare @notes.txt, (@notes.txt) and @"a b.txt" with @nobody or @folder, '
        "write to me@example.com, @odd, @~nobody/x @" + "x" * 5000
    )
    assert found == [Path("notes.txt"), Path("a b.txt"), Path("odd,")]


def test_missing_files_are_what_looks_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("x")
    Path("src.d").mkdir()
    text = 'See @notes.txt, @no.txt, @no.txt! @"a b.md" @dir/x @src.d @nobody me@example.com @...'
    assert missing_files(text) == ["no.txt", "a b.md", "dir/x"]


@given(st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    assert all(path.is_file() for path in mentioned_files("@" + text))
    missing_files("@" + text)
