"""Model files on this machine: their headers, and those of other programs or without a record.

Other programs' folders are untrusted: a scan is bounded in number and time, follows no folder
that is a link, and skips what isn't as expected.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from baton.core.catalogue_types import UNKNOWN_SOURCE, Source
from baton.core.errors import ModelFileError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import one_line
from baton.gguf.header import Header, read_header, read_kind, read_part
from baton.gguf.metadata import MalformedHeader
from baton.gguf.split_files import (
    JOIN_PARTS_HINT,
    check_parts,
    is_sha256,
    name_without_part,
    part_paths,
)
from baton.models.ports import ExternalModel, LibraryModel, ModelRecord
from baton.models.store.manifest import UnreadableRecord, decode_json, list_records, read_limited
from baton.models.store.store_files import open_regular_file

MAX_OFFERED = 500
"""The most that are offered."""

MODELS_FOLDER = "the models folder"
"""The program's name for files that the user put into the models folder by hand."""


def find_external_models(
    folder: Path,
    environ: Mapping[str, str],
    held: Iterable[LibraryModel],
    walk: FolderScan,
) -> list[ExternalModel]:
    """Return the models that could be used where they are, but those that are used already."""
    models = [model for model in held if model.state.is_usable]
    known = {model.record.sha256 for model in models} - {""}
    seen = {os.path.realpath(model.path) for model in models}
    seen |= {os.path.realpath(model.record.link) for model in held if model.record.link}
    home = os.path.realpath(folder)
    found: list[ExternalModel] = []
    for candidate in chain(_loose_files(folder, walk), candidates(environ, walk)):
        if len(found) == MAX_OFFERED or walk.is_over():
            break
        real = os.path.realpath(candidate.path)
        own = candidate.program == MODELS_FOLDER
        if real in seen or candidate.sha256 in known or Path(real).is_relative_to(home) is not own:
            continue
        seen.add(real)
        if (offered := _to_external_model(candidate)) is not None:
            found.append(offered)
    return sorted(found, key=lambda model: (model.program, model.name, model.path))


def _to_external_model(candidate: Candidate) -> ExternalModel | None:
    """Return a file as an offer, if it looks like a chat model."""
    path = candidate.path
    size = chat_model_bytes(path, candidate.name) if str(path).isprintable() else 0
    if not size or candidate.size not in (0, size):
        return None
    name, sha256 = one_line(name_without_part(candidate.name), 120), candidate.sha256
    if len(part_paths(path)) > 1:  # it is the first part's alone
        sha256 = ""
    return ExternalModel(name, path, size, candidate.program, sha256, candidate.source)


def _loose_files(folder: Path, walk: FolderScan) -> Iterator[Candidate]:
    """Yield files that the user has put into the models folder, or that lost their record."""
    places = [folder]
    places += [
        model for model, record in list_records(folder) if not isinstance(record, ModelRecord)
    ]
    for place in places:
        for path in walk.models(place, 0):
            yield Candidate(MODELS_FOLDER, path.stem, path)


MAX_ENTRIES = 20_000
"""The most names that one scan looks at."""

MAX_SECONDS = 3.0
"""How long a scan may take; what was found until then is offered."""

SHARED_OLLAMA_FOLDERS = (Path("/usr/share/ollama/.ollama/models"),)
"""Where Ollama keeps models when it runs as a service of the machine."""

_MAX_MANIFEST_BYTES = 1 << 18
_REPO_FOLDER = re.compile(r"models--([\w.-]+)", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{40}")
_MODEL_TYPE = "application/vnd.ollama.image.model"
_ADAPTER_TYPE = "application/vnd.ollama.image.adapter"


@frozen_dataclass
class Candidate:
    """A file that may be a model, and what its program says of it (`size` 0: nothing)."""

    program: str
    name: str
    path: Path
    sha256: str = ""
    source: Source = UNKNOWN_SOURCE
    size: int = 0


class FolderScan:
    """A scan of folders, bounded in names and seconds."""

    def __init__(self, entries: int = MAX_ENTRIES, seconds: float = MAX_SECONDS) -> None:
        self._left = entries
        self._end = time.monotonic() + seconds

    def is_over(self) -> bool:
        """Count one look; whether that was the last one allowed."""
        self._left -= 1
        return self._left < 0 or time.monotonic() > self._end

    def files(self, folder: Path, depth: int) -> Iterator[Path]:
        """Yield what isn't a folder, at most that many folders deep."""
        folders: list[Path] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self.is_over():
                        return
                    if not entry.is_dir(follow_symlinks=False):
                        yield folder / entry.name
                    elif depth:
                        folders.append(folder / entry.name)
        except (OSError, ValueError):
            return
        for inner in sorted(folders):
            yield from self.files(inner, depth - 1)

    def models(self, folder: Path, depth: int) -> Iterator[Path]:
        """Yield files that are named as models are."""
        for path in self.files(folder, depth):
            if path.suffix.lower() == ".gguf":
                yield path


def candidates(environ: Mapping[str, str], walk: FolderScan) -> Iterator[Candidate]:
    """Yield what the programs that are known here keep as models."""
    home = _absolute_path(environ.get("HOME") or environ.get("USERPROFILE", ""), Path())
    if home is None:
        return
    places = _StoreFolders(environ, home)
    for root in places.hugging_face():
        yield from _hugging_face(root, walk)
    for root in places.ollama():
        yield from _ollama(root, walk)
    for program, root, depth in places.plain_stores():
        for path in walk.models(root, depth):
            name = path.stem if path.stem.lower() != "model" else path.parent.name
            yield Candidate(program, name, path)


class _StoreFolders:
    """Where programs keep their models on this system, by its environment."""

    def __init__(self, environ: Mapping[str, str], home: Path) -> None:
        self._environ = environ
        self._home = home
        self._cache = self._caches = self._variable_path("XDG_CACHE_HOME") or home / ".cache"
        self._data = self._roaming = (
            self._variable_path("XDG_DATA_HOME") or home / ".local" / "share"
        )
        if sys.platform == "darwin":
            self._caches = home / "Library" / "Caches"
            self._data = self._roaming = home / "Library" / "Application Support"
        elif sys.platform == "win32":
            self._data = self._caches = (
                self._variable_path("LOCALAPPDATA") or home / "AppData" / "Local"
            )
            self._roaming = self._variable_path("APPDATA") or home / "AppData" / "Roaming"

    def _variable_path(self, name: str) -> Path | None:
        return _absolute_path(self._environ.get(name, ""), self._home)

    def hugging_face(self) -> list[Path]:
        above = self._variable_path("HF_HOME") or self._cache / "huggingface"
        return [
            self._variable_path("HF_HUB_CACHE")
            or self._variable_path("HUGGINGFACE_HUB_CACHE")
            or above / "hub"
        ]

    def ollama(self) -> list[Path]:
        mine = self._variable_path("OLLAMA_MODELS") or self._home / ".ollama" / "models"
        return [mine, *SHARED_OLLAMA_FOLDERS]

    def plain_stores(self) -> list[tuple[str, Path, int]]:
        """Return programs that keep their files under their names, and how deep."""
        jan = self._roaming / "Jan" / "data"
        return [
            *(("LM Studio", place / "models", 4) for place in self._lm_studio()),
            ("llama.cpp", self._variable_path("LLAMA_CACHE") or self._caches / "llama.cpp", 1),
            ("GPT4All", self._data / "nomic.ai" / "GPT4All", 1),
            ("GPT4All", self._home / ".cache" / "gpt4all", 1),
            ("Jan", jan / "llamacpp" / "models", 4),
            ("Jan", jan / "models", 4),
            ("Jan", self._home / "jan" / "models", 4),
        ]

    def _lm_studio(self) -> list[Path]:
        """Return where LM Studio says that it is, else where it usually is."""
        try:
            pointer = read_limited(self._home / ".lmstudio-home-pointer", 4096) or b""
            place = _absolute_path(pointer.decode().strip(), self._home)
        except (UnreadableRecord, UnicodeDecodeError):
            place = None
        usual = [self._home / ".lmstudio", self._home / ".cache" / "lm-studio"]
        return list(dict.fromkeys([place, *usual] if place is not None else usual))


def _absolute_path(value: str, home: Path) -> Path | None:
    """Return the absolute path that a setting names, if it names one."""
    if not value or not value.isprintable():
        return None
    path = home / value[2:] if value.startswith("~/") else Path(value)
    return path if path.is_absolute() else None


def _hugging_face(root: Path, walk: FolderScan) -> Iterator[Candidate]:
    """Look through huggingface_hub's cache: what a snapshot names links to a blob.

    models--USER--REPO/snapshots/REVISION/FILE -> ../../blobs/SHA256
    """
    for folder in _subfolders(root, walk):
        if (match := _REPO_FOLDER.fullmatch(folder.name)) is None:
            continue
        repo = match[1].replace("--", "/")
        blobs = Path(os.path.realpath(folder / "blobs"))
        for snapshot in _subfolders(folder / "snapshots", walk):
            for path in walk.models(snapshot, 3):
                file = path.relative_to(snapshot).as_posix()
                pinned = _REVISION.fullmatch(snapshot.name) is not None and repo.count("/") == 1
                blob = Path(os.path.realpath(path))
                known = blob.parent == blobs and is_sha256(blob.name)
                yield Candidate(
                    "Hugging Face",
                    path.stem,
                    path,
                    blob.name if known else "",
                    Source(repo, file, snapshot.name) if pinned else UNKNOWN_SOURCE,
                )


def _subfolders(folder: Path, walk: FolderScan) -> list[Path]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if walk.is_over():
                    break
                if entry.is_dir(follow_symlinks=False):
                    found.append(folder / entry.name)
    except OSError:
        pass
    return sorted(found)


@frozen_dataclass
class _Layer:
    mediaType: str
    digest: str
    size: int


@frozen_dataclass
class _Manifest:
    layers: tuple[_Layer, ...]


def _ollama(root: Path, walk: FolderScan) -> Iterator[Candidate]:
    """Look through Ollama's models: a manifest for each, which names the blob.

    manifests/REGISTRY/NAMESPACE/MODEL/TAG -> blobs/sha256-SHA256
    """
    manifests = root / "manifests"
    for path in walk.files(manifests, 3):
        parts = path.relative_to(manifests).parts
        if len(parts) != 4 or (layer := _model_layer(path)) is None:
            continue
        registry, namespace, model, tag = parts
        name = f"{model}:{tag}" if namespace == "library" else f"{namespace}/{model}:{tag}"
        if registry != "registry.ollama.ai":
            name = f"{registry}/{name}"
        sha256 = layer.digest.removeprefix("sha256:")
        blob = root / "blobs" / f"sha256-{sha256}"
        yield Candidate("Ollama", name, blob, sha256, size=layer.size)


def _model_layer(path: Path) -> _Layer | None:
    """Return a manifest's model layer, if it is a single file without an adapter."""
    try:
        data = read_limited(path, _MAX_MANIFEST_BYTES)
        layers = decode_json(data or b"", _Manifest).layers
    except UnreadableRecord:
        return None
    models = [layer for layer in layers if layer.mediaType == _MODEL_TYPE]
    if len(models) != 1 or any(layer.mediaType == _ADAPTER_TYPE for layer in layers):
        return None
    (model,) = models
    whole = model.digest.startswith("sha256:") and is_sha256(model.digest.removeprefix("sha256:"))
    return model if whole else None


_KIND_BYTES = 1 << 16
"""How much of a file is read to see what kind of model it is."""

_OTHER_NAME = re.compile(
    r"mmproj|projector|vocab|embed|imatrix|rerank|incomplete|download"
    r"|(?<![a-z])(lora|clip|whisper|adapter)(?![a-z])",
    re.IGNORECASE,
)
"""Names of files that aren't chat models, or parts of one."""

_OTHER_ARCHITECTURE = re.compile(
    r"bert|clip|embedding|t5encoder|wavtokenizer|whisper", re.IGNORECASE
)
"""Architectures that don't write text."""


def read_file_header(path: Path) -> Header:
    """Return a file's header. Raises ModelFileError, with the path as it was given.

    Of a model in several files, any of them may be named, and all are looked at. A pipe is never
    waited for.
    """
    path = part_paths(path)[0]
    name = one_line(str(path), 300)
    try:
        with open_regular_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise MalformedHeader("it is empty")
            # Not mapped into memory: a file that another program truncates would end this process.
            header = read_header(file.read, size)
        check_parts(path.name, header.parts, lambda part: _read_part(path.with_name(part)))
        return header
    except MalformedHeader as error:
        raise ModelFileError(
            f"{name} isn't a model that can be used: {one_line(str(error))}.",
            error.hint
            or "Baton runs GGUF files: look for one of that kind, or get this one again.",
        ) from error
    except (FileNotFoundError, NotADirectoryError):
        hint = JOIN_PARTS_HINT if len(part_paths(path)) > 1 else "Check its path."
        raise ModelFileError(f"There is no file {name}.", hint) from None
    except OSError as error:
        raise ModelFileError(
            f"{name} can't be read: {error.strerror or error}.",
            "Check its owner and permissions, and its folder's.",
        ) from error


def _read_part(path: Path) -> tuple[int, int]:
    with open_regular_file(path) as file:
        return read_part(file.read, os.fstat(file.fileno()).st_size)


def chat_model_bytes(path: Path, name: str = "") -> int:
    """Return the size of a file that looks like a chat model, 0 of any other.

    Of a model in several files, that is the size of all for the first one, if all are there.
    `name` is what its program calls it. Only its first bytes are read, and a pipe is never waited
    for. Whether it can be loaded shows when it is.
    """
    parts = part_paths(path)
    if _OTHER_NAME.search(path.name) or _OTHER_NAME.search(name) or path != parts[0]:
        return 0
    try:
        with open_regular_file(path) as file:
            kind = read_kind(file.read(_KIND_BYTES))
            is_chat = kind.has_weights and kind.type in ("", "model")
            if not is_chat or _OTHER_ARCHITECTURE.search(kind.architecture):
                return 0
            return sum(part.stat().st_size for part in parts)
    except (OSError, MalformedHeader):
        return 0
