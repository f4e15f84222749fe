"""Which model a person means: an id of the catalogue, a hub's repository, or an address."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from baton.core.catalogue_types import CatalogueEntry, ModelOffer, Source
from baton.core.errors import ConfigError

HUB_HOSTS = ("huggingface.co", "hf.co")
"""Names of the hub in addresses; where it really is, HF_ENDPOINT says."""

PREFERRED_QUANTS = ("Q4_K_M", "Q4_K_S", "Q4_0", "MXFP4", "Q5_K_M", "Q4_1", "IQ4_XS", "Q8_0")
"""What is taken of a repository unless the person says: small, and hardly worse than the rest."""

_REPO_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_REPO_FILE = re.compile(r"([\w.-]+/[\w.-]+)/(.+\.gguf)", re.ASCII | re.IGNORECASE)
_HUB_PATH = re.compile(
    r"/([\w.-]+/[\w.-]+)(?:/(?:resolve|blob|tree)/([^/]+)(?:/(.+))?)?/?", re.ASCII
)
_NO_MODEL = re.compile(r"mmproj|imatrix|-vocab", re.IGNORECASE)
_NOT_IN_IDS = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ModelRef:
    """What was asked for. `entry` is set where the catalogue knows it.

    Else a `source` whose file is "" is a whole repository, of which `quant` says which file ("":
    the usual).
    """

    source: Source
    quant: str = ""
    entry: CatalogueEntry | None = None


def parse_ref(text: str, entries: Mapping[str, CatalogueEntry]) -> ModelRef:
    """Read what a person typed. Raises ConfigError that names the nearest."""
    typed = text.strip()
    if (entry := entries.get(typed.lower())) is not None:
        return ModelRef(entry.source, entry=entry)
    if "://" in typed and not typed.startswith("hf://"):
        return _parse_address(typed)
    name = typed.removeprefix("hf://")
    for hub in HUB_HOSTS:
        name = name.removeprefix(f"{hub}/")
    repo, _, quant = name.partition(":")
    if _REPO_NAME.fullmatch(repo):
        return ModelRef(Source(repo=repo), quant)
    if (found := _REPO_FILE.fullmatch(name)) is not None:
        return ModelRef(Source(repo=found[1], file=found[2]))
    near = difflib.get_close_matches(typed.lower(), entries, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ConfigError(
        f"There is no model {typed!r} in the catalogue.",
        f"{hint}`baton models ls --all` lists it; hf.co/USER/REPO takes any other.",
    )


def _parse_address(typed: str) -> ModelRef:
    try:
        url = urlsplit(typed)
    except ValueError as error:
        raise ConfigError(f"{typed!r} is no address.", "Check its brackets.") from error
    if (url.hostname or "").removeprefix("www.") in HUB_HOSTS:
        if (found := _HUB_PATH.fullmatch(unquote(url.path))) is None:
            raise ConfigError(f"{typed} is no model's address.", "Name it as hf.co/USER/REPO.")
        return ModelRef(Source(found[1], found[3] or "", found[2] or ""))
    file = PurePosixPath(unquote(url.path)).name
    if url.scheme not in ("http", "https") or not file.lower().endswith(".gguf"):
        raise ConfigError(f"{typed} doesn't lead to a GGUF file.", "Its address ends with .gguf.")
    return ModelRef(Source(file=file, url=typed))


def choose_file(offers: Sequence[ModelOffer], quant: str, repo: str) -> ModelOffer:
    """Return the file that a person means of a repository's. Raises ConfigError."""
    files = [o for o in offers if not _NO_MODEL.search(o.source.file)]
    if not files:
        raise ConfigError(
            f"{repo} has no GGUF files.", "Look for the same model in a repository that has."
        )
    for wanted in [quant] if quant else [*PREFERRED_QUANTS, ""]:
        marks = [o for o in files if _is_match(o.source.file, wanted)]
        if marks:
            return min(marks, key=lambda offer: (offer.size, offer.source.file))
    known = ", ".join(sorted(offer.source.file for offer in files)[:12])
    raise ConfigError(f"{repo} has no file {quant!r}.", f"There are: {known}.")


def _is_match(file: str, quant: str) -> bool:
    """Tell whether a file is the one named, or of that quantisation ("": of any)."""
    name, wanted = file.lower(), quant.lower()
    if not wanted or wanted in (name, name.rpartition("/")[2]):
        return True
    return re.search(rf"(?<![a-z0-9]){re.escape(wanted)}(?![a-z0-9_])", name) is not None


def make_id(file: str, taken: Mapping[str, object]) -> str:
    """Make an id of a file's name that isn't taken: "Qwen3-8B-Q5_K_M.gguf" is "qwen3-8b-q5_k_m"."""
    name = PurePosixPath(file).name.lower().removesuffix(".gguf")
    short = _NOT_IN_IDS.sub("-", name).strip("-._")[:60].rstrip("-._") or "model"
    number, suggestion = 1, short
    while suggestion in taken:
        number += 1
        suggestion = f"{short}-{number}"
    return suggestion
