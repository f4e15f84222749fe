"""Database files that Baton found damaged."""

from __future__ import annotations

from pathlib import Path


def broken_files(path: Path) -> list[Path]:
    """Return what was kept aside of the database at this path, without side files."""
    found = path.parent.glob(f"{path.name}.broken-*")
    return [file for file in found if not file.name.endswith(("-wal", "-shm"))]
