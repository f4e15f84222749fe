"""Models' names: family, version, size and variant, independent of the packager; unused ids.

The same model is called `Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf` here and `llama3.1:8b` there;
measurements under one name must be found by the other.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from functools import lru_cache
from itertools import chain, count, takewhile
from typing import NamedTuple

from baton.core.lazy_loading import lazy_pattern


class ModelName(NamedTuple):
    """What a model's name says of it; a number is 0 where it says none.

    `billions` counts all parameters, or an equal dense model's where the name is of experts.
    """

    family: str
    version: float
    billions: float
    variant: str
    tuned: bool


_FAMILIES = (
    # Where a name holds two, it is of the first of these.
    "chatqa", "nemotron", "tinyllama", "codellama", "deepseek", "llama", "codegemma", "gemma",
    "gemini", "qwq", "qwen", "mathstral", "codestral", "ministral", "magistral", "mixtral",
    "mistral", "phi", "command", "claude", "gpt-oss", "gpt", "grok", "reka", "smollm", "granite",
    "olmo", "glm", "yi", "o",
)  # fmt: skip
_FAMILY_PATTERNS = {
    "phi": r"(?<![a-z])phi",
    "yi": r"(?<![a-z])yi(?![a-z])",
    "o": r"(?<![a-z0-9])o(?=\d)",
}
_FAMILY = lazy_pattern("|".join(_FAMILY_PATTERNS.get(name, name) for name in _FAMILIES))
_SIZE = lazy_pattern(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)(b|m)(?![a-z])")
_NOISE = lazy_pattern(
    r"@.*$|\.gguf$|-\d{5}-of-\d{5}"
    # How it is packed, when it was made, how much it can read.
    r"|-(?:i?q\d\w*(?:-(?:[kmsl]|[01]|x{0,2}[sml]))*|[bf]?f(?:16|32)|fp\d+|int\d|awq|gptq|gguf|mlx)(?=-|$)"
    r"|-20\d\d-?\d\d-?\d\d(?=-|$)|-2\d-\d\d-\d\d(?=-|$)|-(?:0[1-9]|1[0-2]|2\d)\d\d(?=-|$)"
    r"|-00\d(?=-|$)|-\d{1,4}k(?=-|$)"
)
_VERSION = lazy_pattern(r"(?<![\d.])(\d{1,2})(?:[.-](\d)(?!\d))?")
_VARIANT = lazy_pattern(
    r"(?<![a-z])(nano|mini|small|medium|large|plus|max|pro|flash|lite|turbo|opus|sonnet|haiku"
    r"|core|super|coder|math|nemo|thinking|r)(?![a-z])|(?<=\d)(o)(?![a-z])"
)
_BASE = lazy_pattern(r"(?<![a-z])(?:base|pt)(?![a-z])")


@lru_cache(maxsize=1024)
def plain_name(model: str) -> str:
    """Return a model's name without its maker, in small letters, its words joined by hyphens."""
    name = model.strip().lower()[-200:].rsplit("/", 1)[-1]
    return re.sub(r"[\s_:]+", "-", name).strip("-")


@lru_cache(maxsize=1024)
def parse_model_name(model: str) -> ModelName:
    """Return what a model's name says: `Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf`, `qwen2.5:7b`."""
    name = plain_name(model)
    for _ in range(4):  # one may hide another
        name = _NOISE.sub("", name)
    found = list(_FAMILY.finditer(name))
    family = min((m[0] for m in found), key=_FAMILIES.index, default="")
    rest = name[found[0].end() :] if found else name
    billions = 0.0
    if size := _SIZE.search(name):
        billions = float(size[2]) / (1000.0 if size[3] == "m" else 1.0)
        billions *= float(size[1] or 1) ** 0.5  # eight experts of 7 do what a dense 20 does
        rest = rest.replace(size[0], "", 1)
    version = _VERSION.search(rest) if family != "mixtral" else None
    variants = sorted({m[1] or m[2] for m in _VARIANT.finditer(name)})
    return ModelName(
        family,
        float(f"{version[1]}.{version[2] or 0}") if version else 0.0,
        round(billions, 3 if billions < 1 else 1),
        "-".join(variants),
        not _BASE.search(name),
    )


def matching_model(model: str, known: Iterable[str]) -> str | None:
    """Return which of the known workers a model is, or None.

    Where several are (releases of different days), it is the one whose name is most like it.
    A name that says no more than a family (the user's `gpt`) is of none of its models.
    """
    name, seen = plain_name(model), parse_model_name(model)
    best: tuple[int, str] | None = None
    for worker in known:
        other = plain_name(worker)
        if other == name:
            return worker
        if (seen.version or seen.billions or seen.variant) and _is_same_model(
            seen, parse_model_name(worker)
        ):
            best = max(best or (-1, ""), (_shared_prefix_length(name, other), worker))
    return best[1] if best else None


def _shared_prefix_length(a: str, b: str) -> int:
    """Return how many letters two names begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _is_same_model(a: ModelName, b: ModelName) -> bool:
    """Whether two names are of one model; what only one of them says doesn't matter."""
    if not a.family or (a.family, a.variant, a.tuned) != (b.family, b.variant, b.tuned):
        return False
    same_size = a.billions == b.billions or 0.0 in (a.billions, b.billions)
    return same_size and (a.version == b.version or 0.0 in (a.version, b.version))


def unused_id(wanted: str, taken: Container[str]) -> str:
    """Return an id, with the first number behind it that isn't taken where it is: "small-2"."""
    numbered = (f"{wanted}-{number}" for number in count(2))
    return next(id for id in chain([wanted], numbered) if id not in taken)
