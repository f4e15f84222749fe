"""Names that are safe to use in the models folder: they never lead out of it, on any system."""

from __future__ import annotations

import re

from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line

RECORD_FILE = "model.json"
"""The file in a model's folder that says what the model is."""

LOCK_FILE = ".lock"
"""The file that whoever changes the models folder holds locked."""

DRAFT_PREFIX = ".model-"
"""How the name begins of a record that is being written."""

PARTIAL_SUFFIX = ".partial"
"""How the name ends of a file that is on its way. Before that stands its sha256, or what it comes
from as a hash of its own; beside it lie notes about it (`.partial.etag`) and its lock (`.lock`)."""

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BATON_FILE = re.compile(
    rf"{re.escape(DRAFT_PREFIX)}[0-9a-f]+\.json|.+{re.escape(PARTIAL_SUFFIX)}(\..+)?|.+\.lock"
)
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)
_MAX_NAME_BYTES = 200


def is_model_id(name: str) -> bool:
    """Tell whether a name may be a model's id, and so its folder's name."""
    return _ID.fullmatch(name) is not None and not _is_device(name)


def check_model_id(id: str) -> None:
    """Raise ConfigError if that can't be a model's id."""
    if not is_model_id(id):
        raise ConfigError(
            f"{one_line(id, 80)!r} can't be a model's id.",
            "An id has up to 64 of a-z, 0-9, dot, dash and underscore, and begins with a letter"
            " or digit.",
        )


def is_plain_name(file: str) -> bool:
    """Tell whether a name is one file's, that any system and any terminal can take."""
    return (
        file.isprintable()
        and not set(file) & set('/\\<>:"|?*')
        and not file.startswith(".")
        and file == file.strip()
        and 0 < len(file.encode()) <= _MAX_NAME_BYTES
        and not _is_device(file.lower())
    )


def is_model_file(file: str) -> bool:
    """Tell whether a name may be that of a model's file in its folder."""
    return is_plain_name(file) and file.lower().endswith(".gguf")


def check_model_file(file: str) -> None:
    """Raise ConfigError if that can't be the name of a model's file in its folder."""
    if not is_model_file(file):
        raise ConfigError(
            f"A model's file can't be named {one_line(file, 80)!r} here.",
            "It needs a plain name that ends with .gguf.",
        )


def is_sha256(text: str) -> bool:
    """Tell whether that is a sha256 in hex."""
    return _SHA256.fullmatch(text) is not None


def is_baton_file(name: str) -> bool:
    """Tell whether Baton gives such names to what it writes besides records and models."""
    return _BATON_FILE.fullmatch(name) is not None


def _is_device(name: str) -> bool:
    """Tell whether Windows takes a name for a device's, whatever follows its first dot."""
    return name.partition(".")[0].strip() in _DEVICE_NAMES
