"""Bytes to text: Unicode is read, older encodings are named, nothing is changed in silence."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import ConfigError
from baton.core.sanitiser import remove_terminal_codes
from baton.workers.attachments import decode_text

ENGLISH = "Hello world, this is a plain text.\r\n\tWith three lines.\n"
JAPANESE = "今日は良い天気ですね。明日の会議は午後三時から始まります。\n"
CHINESE = "明天下午三点开项目评审会议，请大家准备好材料。\n"  # noqa: RUF001
TAIWANESE = "明天下午三點開專案評審會議，請大家準備好資料。\n"  # noqa: RUF001
KOREAN = "내일 오후 세 시에 프로젝트 검토 회의가 있습니다. 자료를 준비해 주세요.\n"
RUSSIAN = "Привет, мир! Завтра в три часа дня состоится совещание по проекту.\n"
POLISH = "Zażółć gęślą jaźń, proszę o spotkanie jutro o trzeciej po południu.\n"
GERMAN = "Käse, Brötchen und Äpfel für 3,50 €: schöne Grüße aus München.\n"
TURKISH = "Işık ığdır şoför çağrı güneş.\n"  # noqa: RUF001
HINDI = "यह इस परीक्षा का हिन्दी पाठ है।\n"
ONE = "這是一個中文文本，用於測試編碼識別。今天天氣很好。"  # noqa: RUF001
QUOTES = "Plain “quotes” — dash and €5. " * 6


def refusal(data: bytes) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        decode_text(data, "a.txt")
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize("text", [ENGLISH, JAPANESE, RUSSIAN, GERMAN, "Hi", "Hi, 会议"])
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"],
)
def test_unicode_is_read_with_and_without_its_mark(encoding: str, text: str) -> None:
    assert decode_text(text.encode(encoding), "a.txt") == text


@pytest.mark.parametrize("text", [TURKISH, ONE, ONE[:-1], JAPANESE + "一", HINDI])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_unicode_without_a_mark_is_never_read_the_wrong_way_round(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding), "a.txt") == text


def test_half_a_character_does_not_turn_the_others_round() -> None:
    assert (
        "broken UTF-16LE" in refusal((ENGLISH + "\ud800").encode("utf-16-le", "surrogatepass"))[0]
    )


def test_a_mark_is_not_a_name_that_iconv_knows() -> None:
    assert "`iconv -c -f UTF-8 -t UTF-8`" in refusal("\ufeffGrüße".encode()[:-2])[1]


@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_cut_character_is_said(encoding: str, mark: str) -> None:
    message, hint = refusal((mark + ENGLISH).encode(encoding)[:-1])
    assert message.startswith("a.txt is broken UTF-16")
    assert "iconv -c -f UTF-16" in hint


@pytest.mark.parametrize(
    ("text", "encoding", "name", "converts"),
    [
        (JAPANESE, "shift_jis", "Shift-JIS", "CP932"),
        (JAPANESE, "euc_jp", "EUC-JP", "EUC-JP"),
        (CHINESE, "gbk", "GBK", "GB18030"),
        (TAIWANESE, "big5", "Big5", "BIG5-HKSCS"),
        (KOREAN, "euc_kr", "EUC-KR", "CP949"),
        (RUSSIAN, "koi8-r", "KOI8-R", "KOI8-R"),
        (RUSSIAN, "cp1251", "WINDOWS-1251", "WINDOWS-1251"),
        (RUSSIAN, "cp866", "CP866", "CP866"),
        (POLISH, "cp1250", "WINDOWS-1250", "WINDOWS-1250"),
        (POLISH, "iso8859-2", "ISO-8859-2", "ISO-8859-2"),
        (GERMAN, "cp1252", "WINDOWS-1252", "WINDOWS-1252"),
        (QUOTES, "cp1252", "WINDOWS-1252", "WINDOWS-1252"),
        ("Olé\n", "latin-1", "WINDOWS-1252", "WINDOWS-1252"),
    ],
)
def test_an_older_encoding_is_named_with_the_command_that_converts_it(
    text: str, encoding: str, name: str, converts: str
) -> None:
    data = text.encode(encoding)
    message, hint = refusal(data)
    assert f"seems to be {name}, so none of it was sent." in message
    assert f"`iconv -f {converts} -t UTF-8`" in hint
    assert data.decode(converts) == text


def test_a_japanese_mail_says_itself_what_it_is() -> None:
    assert decode_text(JAPANESE.encode("iso-2022-jp"), "a.txt") == JAPANESE


def test_a_korean_mail_says_itself_what_it_is() -> None:
    assert decode_text(KOREAN.encode("iso-2022-kr"), "a.txt") == KOREAN


def test_a_strange_terminal_code_makes_utf8_no_japanese_mail() -> None:
    assert decode_text("\x1b$BKäse".encode(), "a.txt").endswith("Käse")


def test_too_few_bytes_are_not_guessed_at() -> None:
    message, hint = refusal("Привет\n".encode("koi8-r"))
    assert message == "a.txt is not UTF-8 text (byte 0), so none of it was sent."
    assert "iconv -f ENCODING" in hint


def test_a_bad_byte_in_utf8_makes_it_no_other_encoding() -> None:
    message, hint = refusal(GERMAN.encode() * 3 + b"\xff\n")
    assert message.startswith("a.txt is broken UTF-8 text (byte ")
    assert "iconv -c -f UTF-8" in hint


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\0\0\1",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0",
        b"./a.md\0./longer.md\0",
        b"ab\0cd\0",
        b"SQLite format 3\0\x10\0",
        b"\0",
    ],
)
def test_what_is_not_text_is_not_taken_for_utf16(data: bytes) -> None:
    assert refusal(data)[0] == "a.txt is not text."


@given(st.text().filter(lambda text: "\0" not in text and not text.startswith("\ufeff")))
def test_reading_utf8_removes_terminal_codes_only(text: str) -> None:
    assert decode_text(text.encode(), "x") == remove_terminal_codes(text)


@given(st.binary())
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        assert not {"\0", "\x1b"} & set(decode_text(data, "x"))
