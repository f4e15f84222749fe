"""Installs the programs of `programs.toml`: `python tests/programs/install.py [ENVIRONMENT...]`.

Those for Node.js come from package-lock.json; each lock file for Python gets an environment of its
own, since what they need contradicts. Everything is checked against its hash.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "build" / "programs"
"""Where they are installed."""


def install_python(lock: Path) -> None:
    """Make the environment of a lock file hold what it asks for."""
    folder = TARGET / lock.stem
    copy = folder / lock.name
    if copy.exists() and copy.read_bytes() == lock.read_bytes():
        return
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--require-hashes"]
    subprocess.run([*pip, "--no-deps", "--quiet", "-r", str(lock)], check=True)
    copy.write_bytes(lock.read_bytes())


def main(names: list[str]) -> None:
    """Install the environments of these names, all without any."""
    locks = {lock.stem: lock for lock in sorted(HERE.glob("*.lock"))}
    for name in names or ["node", *locks]:
        print(f"Installing {name} ...", flush=True)
        if name == "node":
            TARGET.mkdir(parents=True, exist_ok=True)
            for file in ("package.json", "package-lock.json"):
                shutil.copyfile(HERE / file, TARGET / file)
            # Not `npm ci`: of packages for other systems than this one the lock may know nothing.
            subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=TARGET, check=True)
        else:
            install_python(locks[name])


if __name__ == "__main__":
    main(sys.argv[1:])
