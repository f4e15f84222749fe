"""Saving a conversation as a Markdown file."""

from __future__ import annotations

import re
from pathlib import Path

from baton.core.errors import ConfigError
from baton.platform.durable_files import create_file, make_folder


def unused_path(folder: Path, title: str) -> Path:
    """Return a path in the folder that is named after the title and isn't taken yet."""
    stem = re.sub(r"[^\w]+", "-", title.lower()).strip("-")[:60] or "conversation"
    path, number = folder / f"{stem}.md", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.md", number + 1
    return path


def export_path(typed: str, folder: Path, title: str) -> Path:
    """Return where an export goes: into the typed file or folder, or the usual folder."""
    if not typed:
        return unused_path(folder, title)
    path = Path(typed).expanduser()
    return unused_path(path, title) if path.is_dir() else path


def save_export(path: Path, text: str) -> None:
    """Write a new file, for the owner only. Raises ConfigError; never overwrites anything."""
    if path.exists():
        raise ConfigError(f"{path} is there already.", "Choose another name.")
    try:
        make_folder(path.parent)
        create_file(path, text)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}.", "Try another.") from error
