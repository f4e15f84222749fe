"""Measures what takes the room in the builds: `sizes.py DIST` writes DIST/sizes.md."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import contents
import zstandard
from PyInstaller.archive.readers import CArchiveReader

_FEW = 0.2
"""Megabytes below which parts are counted together."""


def table(dist: Path, names: Sequence[str]) -> str:
    """Return the table for the builds of these names, the largest part first."""
    lines = [
        "What takes the room, in MB: unpacked, and compressed by itself (together it is less).",
        "",
    ]
    for name in names:
        parts = _parts(dist / "folder" / name)
        small = [part for part, (_, packed) in parts.items() if packed < _FEW]
        rows = {part: sizes for part, sizes in parts.items() if part not in small}
        rows[f"{len(small)} others"] = _sum(parts[part] for part in small)
        lines += [f"## {name}", "", "| part | unpacked | compressed |", "|---|--:|--:|"]
        for part, (unpacked, packed) in sorted(rows.items(), key=lambda row: -row[1][1]):
            lines.append(f"| {part} | {unpacked:.1f} | {packed:.1f} |")
        unpacked, _ = _sum(parts.values())
        file = (dist / name).stat().st_size / 1e6
        lines += [f"| **the folder, the single file** | **{unpacked:.1f}** | **{file:.1f}** |", ""]
    return "\n".join(lines)


def _parts(folder: Path) -> dict[str, tuple[float, float]]:
    """Return each part's size, unpacked and compressed."""
    held: defaultdict[str, list[bytes]] = defaultdict(list)
    for part, data in (*_modules(folder), *_files(folder)):
        held[part].append(data)
    compressor = zstandard.ZstdCompressor(level=9)
    sizes = {}
    for part, pieces in held.items():
        whole = b"".join(pieces)
        sizes[part] = len(whole) / 1e6, len(compressor.compress(whole)) / 1e6
    return sizes


def _modules(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the Python modules inside the executable, by package."""
    archive = CArchiveReader(str(folder / "baton"))
    name = next(name for name in archive.toc if name.startswith("PYZ"))
    modules = archive.open_embedded_archive(name)
    for module in modules.toc:
        if data := modules.extract(module, raw=True):
            package = module.partition(".")[0]
            yield ("Python's library" if package in sys.stdlib_module_names else package), data


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the other files, by the package that they are in."""
    inner = folder / contents.FOLDER
    for path in sorted(inner.rglob("*")):
        if path.is_file() and not path.is_symlink():
            first, *rest = path.relative_to(inner).parts
            part = first.removesuffix(".libs") if rest else "libraries of the system's"
            if first.endswith(".dist-info"):
                part = "packages' metadata"
            if first.startswith(("python3", "base_library", "libpython")):
                part = "Python's library"
            if first == "baton" and rest[0] == "models":
                part = "baton's conductor, router and catalogue"
            yield part, path.read_bytes()


def _sum(sizes: Iterable[tuple[float, float]]) -> tuple[float, float]:
    unpacked = packed = 0.0
    for one, other in sizes:
        unpacked, packed = unpacked + one, packed + other
    return unpacked, packed


def main(dist: Path, names: Sequence[str]) -> None:
    """Write the table beside the builds."""
    (dist / "sizes.md").write_text(table(dist, names), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ["baton-slim", "baton"])
