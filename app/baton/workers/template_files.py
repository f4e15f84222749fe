"""Reads workflow templates: those that come with Baton, and the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

from baton.core.errors import ConfigError
from baton.core.planning.templates import Workflow, parse_workflow

_SUFFIX = ".toml"
_MAX_BYTES = 256 * 1024


def read_templates(folder: Path | None = None) -> Mapping[str, Workflow]:
    """Return all templates by name; one in the user's folder replaces Baton's of that name.

    Taking one that is wrong raises ConfigError, naming file and step; the others can be taken.
    """
    found: dict[str, Workflow | ConfigError] = {
        n: parse_workflow(text, n) for n, text in _built_in_texts()
    }
    if folder is not None and folder.is_dir():
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            try:
                found[path.stem] = _read_template(path)
            except ConfigError as error:
                found[path.stem] = error
    return _Templates(found)


class _Templates(Mapping[str, Workflow]):
    """Templates by name, and what is wrong with those that can't be taken."""

    def __init__(self, found: Mapping[str, Workflow | ConfigError]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> Workflow:
        template = self._found[name]
        if isinstance(template, ConfigError):
            raise template
        return template

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _built_in_texts() -> Iterator[tuple[str, str]]:
    files = resources.files("baton.workers").joinpath("templates").iterdir()
    for file in sorted(files, key=lambda file: file.name):  # a folder's own order differs
        if file.name.endswith(_SUFFIX):
            yield file.name.removesuffix(_SUFFIX), file.read_text(encoding="utf-8")


def _read_template(path: Path) -> Workflow:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} is too large for a template.", "Take it out of the folder.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", "Check it.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text.", "Save it as UTF-8.") from error
    return parse_workflow(text, str(path))
