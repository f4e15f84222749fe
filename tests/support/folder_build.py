"""A folder build like PyInstaller's: the names of the packages' files, with nothing in them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))

import contents  # noqa: E402
import notices  # noqa: E402
import parts  # noqa: E402

__all__ = ["build", "bundled_packages", "canonical", "notices", "parts"]

NATIVE = ("libpython3.11.so.1.0", "python3.11/lib-dynload/_ssl.so", "libssl.so.3", "libz.so.1")


def canonical(name: str) -> str:
    """Return a package's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def bundled_packages() -> list[Distribution]:
    """Return the packages of requirements.lock but for those that a build leaves out."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    names = {canonical(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    left_out = {canonical(module) for module in contents.EXCLUDED}
    return [one for one in distributions() if canonical(one.name) in names - left_out]


def build(folder: Path, packages: Iterable[Distribution], *more: str) -> set[str]:
    """Make a build of these packages and further files; return the modules in its executable.

    There is no executable: that is a part of PyInstaller, which only builds are made with.
    """
    facts = {"version": "1.2.3", "flavour": "slim", "platform": "linux-x86_64", "gpu": ""}
    files = {*NATIVE, *more, "baton/build.json"}
    modules = set()
    for package in packages:
        for file in package.files or []:
            if file.suffix == ".py" and ".." not in file.parts:
                name = file.as_posix().removesuffix(".py").removesuffix("/__init__")
                modules.add(name.replace("/", "."))
            elif file.suffix == ".so" or (file.name == "METADATA" and len(file.parts) == 2):
                files.add(file.as_posix())
    for name in files:
        path = folder / parts.CONTENTS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts) if name == "baton/build.json" else name)
    return modules
