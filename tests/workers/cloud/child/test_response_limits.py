"""The fewest tokens of a text: never more than a real tokenizer counts."""

from __future__ import annotations

import importlib.util
import itertools
import math
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer

from baton.workers.cloud.child.response_limits import FewestTokens, fewest_tokens

SAMPLES = (
    "The quick brown fox jumps over the lazy dog, and by the way it does so 12 times. ",
    "Über den Wolken muß die Freiheit wohl grenzenlos sein. ",
    "我今天在图书馆看了一本关于历史的书，然后去喝咖啡。",  # noqa: RUF001
    "日本語の文章には空白がありません。",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ ",
    "हिन्दी में शब्दों के बीच रिक्त स्थान होता है। ",
    "اللغة العربية تُكتب من اليمين إلى اليسار. ",
    "Все счастливые семьи похожи друг на друга. ",  # noqa: RUF001
    "def add(a, b):\n    return a + b  # 1 + 1 == 2\n\n\n",
    "TG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQsIGNvbnNlY3RldHVy",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "🙂👩‍👩‍👧‍👦🇩🇪 ",
    "a b c d e f g 1 2 3 4 ",
    " " * 130,
    "\t" * 20 + "\n" * 20,
    "=" * 90 + "-=" * 40,
    "\u3000\xa0\u2028\x1f\u200b",
)
TEXTS = st.lists(st.sampled_from(SAMPLES) | st.text(max_size=20), max_size=6).map("".join)


def library_folder() -> Path:
    """Return where litellm keeps the tokenizers that it ships."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"


@pytest.fixture(scope="module", params=["cl100k_base", "o200k_base"])
def openais(request: pytest.FixtureRequest) -> Iterator[tiktoken.Encoding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(library_folder()))
        yield tiktoken.get_encoding(request.param)


@pytest.fixture(scope="module")
def anthropics() -> Tokenizer:
    return Tokenizer.from_file(str(library_folder() / "anthropic_tokenizer.json"))


@given(TEXTS)
@settings(max_examples=40)
def test_openais_tokenizers_count_no_fewer(openais: tiktoken.Encoding, text: str) -> None:
    assert fewest_tokens(text) <= len(openais.encode(text, disallowed_special=()))


@given(TEXTS)
@settings(max_examples=40)
def test_anthropics_tokenizer_counts_no_fewer(anthropics: Tokenizer, text: str) -> None:
    assert fewest_tokens(text) <= len(anthropics.encode(text).ids)


def test_no_token_of_a_vocabulary_is_two(openais: tiktoken.Encoding) -> None:
    """With the test below it: no text has a bound above its number of tokens."""
    tokens = (token.decode("utf-8", "replace") for token in openais.token_byte_values())
    assert [token for token in tokens if fewest_tokens(token) > 1] == []


def test_no_token_of_anthropics_is_two(anthropics: Tokenizer) -> None:
    """But one: a remnant of its training data, of which no answer consists."""
    spaces = str.maketrans("ĠĊĉ", " \n\t")  # how a vocabulary of bytes writes them
    written = {token.translate(spaces): number for token, number in anthropics.get_vocab().items()}
    long = [number for token, number in written.items() if fewest_tokens(token) > 1]
    tokens = [anthropics.decode([number]) for number in long]
    found = [token for token in tokens if fewest_tokens(token) > 1]
    assert found == ["qhievofjucdnmbpxazrlktwsgy" * 4]


@given(TEXTS, TEXTS)
def test_two_texts_have_no_more_together(one: str, other: str) -> None:
    assert fewest_tokens(one + other) <= fewest_tokens(one) + fewest_tokens(other)


@given(TEXTS, st.lists(st.integers(0, 400)))
def test_pieces_count_as_their_text(text: str, cuts: list[int]) -> None:
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    fewest = FewestTokens()
    for start, end in itertools.pairwise(borders):
        fewest.add(text[start:end])
    assert fewest.count == fewest_tokens(text)


@given(st.text("a1 \n,éЯ中文のカ한국ไทလာ", max_size=200))
def test_each_run_and_each_word_counts_once(text: str) -> None:
    runs = [character for character, _ in itertools.groupby(text)]
    words = sum(any(map(str.isalnum, word)) for word in text.split())
    unparted = sum(Fraction(1, fullness(character)) for character in runs if fullness(character))
    assert fewest_tokens(text) == max(-(-len(runs) // 64), -(-words // 2), math.ceil(unparted))


def fullness(character: str) -> int:
    """Return how many such characters a token can hold; 0 for scripts that part their words."""
    return 16 if character in "中文のカ한국" else 20 if character in "ไทလာ" else 0


@pytest.mark.parametrize(
    "longest",
    [
        "习近平新时代中国特色社会主义思想",  # DeepSeek V3, Aquila
        "了您的學業和身心健康請不要沉迷於",  # XLM-RoBERTa
        "承担一切因您的行为而直接或间接",  # Qwen 3.6
        " 洛厄尔天文台近地小行星搜寻计划",  # Command R
        "ありがとうございました",  # Gemini, Gemma, Qwen, Mistral
        "させていただいております",  # XLM-RoBERTa
        " 조선민주주의인민공화국",  # Command R
        "แมนเชสเตอร์ซิตี",  # Gemma 4
        "ຜະລິດຕະພັນ",  # Gemma 4
        "ព័ត៌មានអន្តរជាតិ",  # XLM-RoBERTa
        "စည်းကမ်းချက်များ",  # XLM-RoBERTa
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("times", [1, 2, 1000])
def test_the_longest_tokens_of_other_vocabularies(longest: str, form: str, times: int) -> None:
    """A tokenizer may join what a text takes apart, hence both forms."""
    text = unicodedata.normalize(form, longest)  # type: ignore[arg-type]  # mypy wants a literal
    assert fewest_tokens(text * times) <= times


@pytest.mark.parametrize(
    ("text", "characters"),
    [("图书馆在城市的中心，周围有许多老建筑。", 17), ("ห้องสมุดตั้งอยู่ใจกลางเมือง", 21)],  # noqa: RUF001
)
def test_text_without_spaces_is_not_a_token_for_64_characters(text: str, characters: int) -> None:
    assert fewest_tokens(text * 64) >= 64 * len(text) // characters


def test_a_tenth_of_the_words_is_too_few() -> None:
    assert fewest_tokens("word " * 64) == 32
