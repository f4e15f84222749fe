"""Turns a text into numbers: a vector of its meaning by the encoder, and counted figures."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baton.core.routing_types import MAX_VECTOR_TOKENS, VECTOR_WIDTH, TextVector
from baton.routing.child import RouterFileError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

WIDTH = VECTOR_WIDTH
HEAD_CHARS, TAIL_CHARS = 2400, 1200
HEAD_TOKENS, TAIL_TOKENS = 144, 112
"""Of a long text its beginning and its end are read: the task stands in one of them."""

CPU_PROVIDER = "CPUExecutionProvider"
Vectors = NDArray[np.float32]


def readable_excerpt(text: str) -> str:
    """Return what of a text is read, as characters that every library takes."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return text.encode("utf-8", "replace").decode("utf-8")


class Encoder:
    """A sentence encoder. Raises RouterFileError where its files are missing or broken."""

    def __init__(self, folder: Path, provider: str = CPU_PROVIDER) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
            self._session = _load_session(folder / "encoder.onnx", provider)
        except Exception as error:  # both libraries raise bare exceptions of their own
            raise RouterFileError(f"{folder}: {error}") from error

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of length 1 for each text.

        One at a time: the integers' scale is taken over all that is computed at once, so that in
        a batch each would depend on the others.
        """
        found = np.zeros((len(texts), WIDTH), np.float32)
        for number, text in enumerate(texts):
            found[number] = self._vector(text)
        return found

    def embed(self, text: str) -> TextVector:
        """Return the vector of a whole text: of a long one the mean of its parts', by length."""
        ids = self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8")).ids
        if len(ids) > MAX_VECTOR_TOKENS:
            return TextVector(b"", len(ids))
        first, *inner, last = ids
        size = HEAD_TOKENS + TAIL_TOKENS - 2
        parts = [inner[at : at + size] for at in range(0, max(1, len(inner)), size)]
        vectors = [self._vector_of([first, *part, last]) * (len(part) + 2) for part in parts]
        mean = np.sum(vectors, axis=0)
        mean /= max(float(np.linalg.norm(mean)), 1e-12)
        return TextVector(mean.astype("<f4").tobytes(), len(ids))

    def _vector(self, text: str) -> Vectors:
        ids = self._tokenizer.encode(readable_excerpt(text)).ids
        if len(ids) > HEAD_TOKENS + TAIL_TOKENS:
            ids = ids[:HEAD_TOKENS] + ids[-TAIL_TOKENS:]
        return self._vector_of(ids)

    def _vector_of(self, ids: Sequence[int]) -> Vectors:
        fed = np.array([ids], np.int64)
        (vector,) = self._session.run(
            ["embedding"], {"input_ids": fed, "attention_mask": np.ones_like(fed)}
        )
        return np.nan_to_num(np.asarray(vector[0], np.float32))


def _load_session(file: Path, provider: str) -> InferenceSession:
    """Load an ONNX file for a provider if it is available, else for the processor."""
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    chosen = {provider, CPU_PROVIDER} & {*onnxruntime.get_available_providers()}
    ordered = sorted(chosen, key=lambda name: name == CPU_PROVIDER)
    return onnxruntime.InferenceSession(str(file), options, providers=ordered)


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_OPTION = re.compile(r"^[ \t]{0,8}\(?([A-J])[.):][ \t]+(.*)$", re.MULTILINE)
_SENTENCE = re.compile(r"[.!?。！？]+(?:\s|$)")  # noqa: RUF001
_DIGIT, _CAPITAL = re.compile(r"\d"), re.compile(r"[A-Z]")
_NESTED = re.compile(r"[\[({][^\])}]{0,80}[\[({]")

_SIGN_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.MULTILINE))
    for name, pattern in (
        ("formula", r"\\[a-zA-Z]+|\$[^$\n]{1,80}\$|[\^_]\{"),
        ("operator", r"[=<>≤≥±×÷√∑∫∞≠]|\d ?[-+*/^] ?\d"),  # noqa: RUF001
        ("money", r"[$€£¥] ?\d"),
        ("percent", r"%"),
        ("measure", r"\d ?(?:[kcm]?m|k?g|s|ms|mol|[kmM]?[Hh]z|V|W|J|N|Pa|K|C|ft|lb|km/h|mph|°)\b"),
        (
            "code",
            r"[{};]$|^def |^class |^import |^from \w|=>|->|==|!=|\w\(\w{0,9}\)|#include|</\w|```",
        ),
        ("blank", r"__+|\.\.\.|…"),
        ("quote", r"[\"“”«»„]"),
        ("contracted", r"n['’]t\b"),  # noqa: RUF001
        ("year", r"\b1[5-9]\d\d\b|\b20\d\d\b"),
        ("bullet", r"^[ \t]{0,8}(?:[-*•]|\d{1,2}[.)])[ \t]"),
        ("listed", r"\bI{1,3}\b(?: and|,? only|[.):])|(?:[Tt]rue|[Ff]alse|[Ww]rong),"),
    )
)
_LEXICON = {
    "pay": (
        "dollar dollars cent cents euro euros price cost costs profit paid pay pays sold buy buys"
    ),
    "unit": (
        "hour hours minute* day days week* year years mile* feet inch* meter* metre* gram* percent"
    ),
    "program": (
        "python java javascript function code program* script sql regex api bug compil* "
        "algorithm* array loop string"
    ),
    "negation": "not never except least false incorrect unlikely without no neither nor cannot",
    "superlative": "most best greatest highest lowest main primary likely major principal",
    "statement": "statement* assertion true false correct",
    "following": "following below above",
    "logic": (
        "if then all some every therefore hence implies unless only either or and "
        "conclusion premise* argument* valid"
    ),
    "howmany": "many much total altogether often",
    "explain": "explain* why describe discuss compare analy* reason* prove show derive how",
    "compute": (
        "calculat* comput* evaluat* solve find determin* estimat* simplif* integra* "
        "derivative probabilit* average sum"
    ),
    "write": (
        "write draft compose story poem essay email letter blog article sentence slogan speech"
    ),
    "rewrite": (
        "rewrite rephrase paraphrase improve proofread grammar edit correct shorten formal tone"
    ),
    "summary": "summar* tldr brief outline passage article according author paragraph text",
    "translate": "translat* english german french spanish italian chinese japanese",
    "extract": "extract* list json csv table field* format entities names",
    "plan": "plan plans schedule itinerary steps strategy organi* roadmap agenda checklist",
    "chat": "hi hello hey thanks thank please you your i'm i my me",
    "who": "who whom whose when where which capital named",
    "what": "what define* meaning means term",
    "law": (
        "court* law laws legal* statute* plaintiff* defendant* contract* liab* "
        "constitution* jury crime* guilty convicted"
    ),
    "medicine": (
        "patient* disease* clinical* symptom* treat* diagnos* blood drug* therap* cell* "
        "gene* protein* dose*"
    ),
    "physics": (
        "force* energy mass velocity speed accelerat* volt* current charge* magnet* "
        "temperature pressure wave* electron* reaction acid* molecul*"
    ),
    "algebra": (
        "group* ring* field* matrix vector* polynomial* integer* prime* theorem set "
        "graph equation* triangle* circle* angle* square* modulo"
    ),
    "market": (
        "tax* income interest market* demand supply inflation gdp bond* stock* account* "
        "revenue asset* audit* insur*"
    ),
    "moral": "moral* ethic* virtue* duty duties right rights good evil justice wrong",
    "history": (
        "century centuries war wars empire* king* queen president revolution* treaty "
        "ancient colon* bce"
    ),
    "steps": ("twice half third quarter times more less each remain* left rest after before next"),
    "psychology": (
        "behavior* behaviour* cognit* memory emotion* child* personalit* psycholog* "
        "anxiety social* theory"
    ),
    "religion": "god church buddh* islam* muslim* christian* jesus hindu* jew* religio*",
    "computer": (
        "computer* network* memory data* process* cache protocol* encrypt* server* software"
    ),
    "pronoun": "he she his her they their him them it its",
    "scenario": "suppose consider given assume imagine let",
}
_CLASS_NAMES = tuple(_LEXICON)


@lru_cache(maxsize=20_000)
def _classes(word: str) -> tuple[int, ...]:
    """Return the places of the classes that a word belongs to."""
    return tuple(
        place
        for place, entries in enumerate(_CLASS_ENTRIES)
        if word in entries[0] or word.startswith(entries[1])
    )


def _entries(words: str) -> tuple[frozenset[str], tuple[str, ...]]:
    whole = frozenset(word for word in words.split() if not word.endswith("*"))
    return whole, tuple(word[:-1] for word in words.split() if word.endswith("*"))


_CLASS_ENTRIES = tuple(map(_entries, _LEXICON.values()))


def _spread(numbers: Sequence[int]) -> float:
    if len(numbers) < 2:
        return 0.0
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((n - mean) ** 2 for n in numbers) / len(numbers)) / (mean + 1)


def _characters(text: str, length: int) -> list[float]:
    size = max(1, len(text))
    return [
        math.log1p(length),
        math.log1p(text.count("\n")),
        len(_DIGIT.findall(text)) / size,
        len(_CAPITAL.findall(text)) / size,
        text.count(" ") / size,
        1.0 - len(text.encode("ascii", "ignore")) / size,
        math.log1p(text.count("?")),
        math.log1p(text.count(",")),
        math.log1p(sum(text.count(sign) for sign in "()[]{}")),
        math.log1p(text.count(":") + text.count(";")),
        float(text.rstrip().endswith("?")),
    ]


def _words(text: str, words: Sequence[str]) -> list[float]:
    numbers = _NUMBER.findall(text)
    count = max(1, len(words))
    sizes = [len(word) for word in words]
    sentences = len(_SENTENCE.findall(text))
    return [
        math.log1p(len(words)),
        sum(sizes) / count,
        sum(size > 8 for size in sizes) / count,
        math.log1p(max(sizes, default=0)),
        len(set(words)) / count,
        len(_NAME.findall(text)) / count,
        math.log1p(sentences),
        math.log1p(len(words) / max(1, sentences)),
        math.log1p(len(numbers)),
        len(numbers) / count,
        math.log1p(max((len(number) for number in numbers), default=0)),
        math.log1p(len(set(numbers))),
        math.log1p(sum("." in number for number in numbers)),
        float(bool(_NESTED.search(text))),
    ]


def _options(text: str) -> list[float]:
    options = [match.group(2) for match in _OPTION.finditer(text)]
    sizes = [len(option) for option in options]
    first = _OPTION.search(text)
    stem = text[: first.start()] if first and len(options) > 1 else text
    numeric = sum(bool(_NUMBER.search(option)) for option in options)
    shared = set(_WORD.findall(stem.casefold()))
    inside = set(_WORD.findall(" ".join(options).casefold()))
    return [
        math.log1p(len(options)),
        math.log1p(sum(sizes) / max(1, len(sizes))),
        _spread(sizes),
        math.log1p(len(stem)),
        numeric / max(1, len(options)),
        len(shared & inside) / max(1, len(inside)),
        float(any("of the above" in o.casefold() for o in options)),
    ]


def _lexical(words: Sequence[str]) -> list[float]:
    counts = [0] * len(_CLASS_NAMES)
    for word in words:
        for place in _classes(word[:24]):
            counts[place] += 1
    size = math.sqrt(max(1, len(words)))
    return [figure for count in counts for figure in (float(count > 0), count / size)]


def _signs(text: str) -> list[float]:
    counts = [len(pattern.findall(text)) for _, pattern in _SIGN_PATTERNS]
    return [figure for count in counts for figure in (float(count > 0), math.log1p(count))]


FEATURE_NAMES = (
    *("length", "lines", "digits", "capitals", "spaces", "foreign", "questions", "commas"),
    *("brackets", "colons", "asks", "words", "word", "long words", "longest", "variety"),
    *("names", "sentences", "sentence", "numbers", "number share", "number length"),
    *("distinct numbers", "decimals", "nested", "options", "option", "option spread", "stem"),
    *("numeric options", "repeated", "of the above"),
    *(f"{name} {what}" for name in _CLASS_NAMES for what in ("there", "share")),
    *(f"{name} {what}" for name, _ in _SIGN_PATTERNS for what in ("there", "count")),
)
"""What the figures are, in their order."""


def text_features(text: str) -> NDArray[np.float64]:
    """Return the figures of a text: finite, and of a size of about 0 to 10."""
    shown = readable_excerpt(text)
    words = _WORD.findall(shown.casefold())
    figures = _characters(shown, len(text)) + _words(shown, words) + _options(shown)
    return np.array(figures + _lexical(words) + _signs(shown), np.float64)
