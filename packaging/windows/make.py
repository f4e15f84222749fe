"""Builds Baton on Windows: `make.py [ARGUMENTS OF scripts/build]`, started by build.ps1.

Makes build/venv as scripts/setup.py does elsewhere, freezes with scripts/build.py, and packs each
folder into a .zip, which takes the single file's place. NOT YET RUN on Windows.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / "build" / "venv"
PYTHON = VENV / "Scripts" / "python.exe"
WHEN = (1980, 1, 1, 0, 0, 0)
"""The oldest time that an archive can tell: the same build gives the same bytes."""

sys.path[:0] = [str(ROOT / name) for name in ("scripts", "packaging", "packaging/launcher")]


def make_environment() -> None:
    """Make build/venv hold what the locks ask for, and llama.cpp for every processor."""
    import llama
    import setup

    venv.create(VENV, clear=True, with_pip=True)
    (VENV / "Lib" / "site-packages" / "baton.pth").write_text(str(ROOT / "app"), encoding="utf-8")
    pip = [str(PYTHON), "-I", "-m", "pip", "install", "--quiet", "--no-deps"]
    for number, name in enumerate(("requirements.lock", "packaging/requirements.lock")):
        wanted = VENV / f"wanted{number}.lock"
        lock = (ROOT / name).read_text(encoding="utf-8")
        wanted.write_text(setup.COMPILED.sub("", lock), encoding="utf-8")
        locked = ["--require-hashes", "--only-binary=:all:", "-r", str(wanted)]
        subprocess.run([*pip, *locked], check=True)
    subprocess.run([*pip, "--no-index", str(llama.wheel(PYTHON))], check=True)


def pack(folder: Path, archive: Path) -> None:
    """Pack a folder build, the same way each time."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = path.relative_to(folder.parent).as_posix()
                entry = zipfile.ZipInfo(name, WHEN)
                packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def main(arguments: Sequence[str]) -> None:
    """Build what the arguments ask for."""
    if Path(sys.prefix) != VENV:
        make_environment()
        command = [str(PYTHON), "-I", str(Path(__file__).resolve()), *arguments]
        sys.exit(subprocess.run(command).returncode)
    import build

    wanted = build._build_options(build._parser().parse_args(arguments))
    with build.open_staging_folder(build.DIST) as new:
        for folder in build.freeze(wanted, new):
            pack(folder, new / f"{folder.name}.zip")


if __name__ == "__main__":
    main(sys.argv[1:])
