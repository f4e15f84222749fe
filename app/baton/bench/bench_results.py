"""A file with a line for each question that was played, so that a bench can go on where it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from baton.bench.strategy_bench import PlayedQuestion
from baton.core.errors import ConfigError, StoreError
from baton.platform.durable_files import open_private


class BenchSetting(msgspec.Struct, frozen=True):
    """What a result belongs to. `terms` are what else changes results: prices and ceilings."""

    dataset: str
    digest: str
    strategy: str
    workers: tuple[str, ...]
    terms: str = ""


class _Line(msgspec.Struct, frozen=True):
    setting: BenchSetting
    played: PlayedQuestion


_LINE_START = b'{"setting":'
"""How every line begins."""


class ResultsFile:
    """What was played before, and what is played now, in one file. Raises StoreError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def played_before(self, setting: BenchSetting) -> dict[str, PlayedQuestion]:
        """Return what is there of a setting, by question.

        Raises ConfigError for another file, or one with results of the dataset as it was before.
        """
        found: dict[str, PlayedQuestion] = {}
        for line in self._lines():
            other = line.setting
            if (other.dataset, other.digest != setting.digest) == (setting.dataset, True):
                raise ConfigError(
                    f"{setting.dataset} has changed since {self.path} was begun.",
                    "Its results can't be told apart: name another file with --out.",
                )
            if other == setting:
                found[line.played.question] = line.played
        return found

    def _lines(self) -> Iterator[_Line]:
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{self.path} can't be read: {error.strerror}.") from error
        *lines, rest = raw.split(b"\n")
        if not (rest.startswith(_LINE_START) or _LINE_START.startswith(rest)):
            raise self._format_error(len(lines) + 1)  # else it was broken off in the middle
        for number, line in enumerate(lines, start=1):
            try:
                yield msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError as error:
                raise self._format_error(number) from error

    def _format_error(self, number: int) -> ConfigError:
        return ConfigError(
            f"Line {number} of {self.path} is no result of a bench.",
            "Name another file with --out; this one is as it was.",
        )

    def append(self, setting: BenchSetting, played: PlayedQuestion) -> None:
        """Write down how one more question went."""
        line = msgspec.json.encode(_Line(setting, played)) + b"\n"
        try:
            with _open_file(self.path) as file:
                _cut_broken_line(file.fileno())
                file.seek(0, os.SEEK_END)
                file.write(line)
        except OSError as error:
            raise StoreError(
                f"{self.path} can't be written: {error.strerror}; what is in it is kept.",
                "Make room, or name another file with --out.",
            ) from error


def _open_file(path: Path) -> BinaryIO:
    mode = "r+b" if path.exists() else "x+b"
    return cast(BinaryIO, open(path, mode, opener=open_private))


def _cut_broken_line(file: int) -> None:
    """Cut off a last line that was not written to its end."""
    size = os.fstat(file).st_size
    if size == 0 or os.pread(file, 1, size - 1) == b"\n":
        return
    data = os.pread(file, size, 0)
    os.ftruncate(file, data.rfind(b"\n") + 1)
