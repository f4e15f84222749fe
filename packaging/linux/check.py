#!/usr/bin/env python3
"""Checks that a folder of programs and libraries runs on another Linux: `check.py FOLDER [GLIBC]`.

Every library that one needs is in the folder or belongs to every system; what they want of glibc
was there in the given version (else 2.31, Debian 11's); they find each other by relative paths; and
no stack is executable. Prints what is wrong and fails, or prints the glibc that the folder needs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

GLIBC = "2.31"

SYSTEM = re.compile(
    r"(libc|libm|libdl|libpthread|librt|libutil|libresolv|libanl|libmvec|libnsl)\.so\.\d+"
    r"|ld-linux[-\w]*\.so\.\d+|linux-vdso\.so\.1"
)
"""glibc's own libraries: they can't come from anywhere but the system."""

DRIVERS = {"libcuda.so.1", "libvulkan.so.1"}
"""What comes with a GPU's driver, and may be missing where there is none."""


@dataclass
class Elf:
    """What one program or library says of itself; `wants` is of the form (library, version)."""

    path: Path
    name: str = ""
    machine: str = ""
    needs: list[str] = field(default_factory=list)
    runpaths: list[str] = field(default_factory=list)
    wants: set[tuple[str, str]] = field(default_factory=set)
    gives: set[str] = field(default_factory=set)
    executable_stack: bool = False
    is_program: bool = False


def main(folder: Path, glibc: str = GLIBC) -> str:
    """Return the glibc that the folder needs. Raises SystemExit with what is wrong."""
    files = look(folder)
    if not files:
        raise SystemExit(f"No programs and libraries in {folder}.")
    if wrong := sorted(faults(files, glibc)):
        raise SystemExit("\n".join(wrong))
    versions = {version for file in files for _, version in file.wants if _is_glibc(version)}
    return max(versions, key=_number, default="GLIBC_2").removeprefix("GLIBC_")


def look(folder: Path) -> list[Elf]:
    """Return what the programs and libraries in a folder say, by their paths there."""
    return [replace(read(path), path=path.relative_to(folder)) for path in elf_files(folder)]


def elf_files(folder: Path) -> Iterator[Path]:
    """Yield the programs and libraries in a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def read(path: Path) -> Elf:
    """Ask binutils what a file needs and gives."""
    asked = ["readelf", "--wide", "--file-header", "--dynamic", "--program-headers"]
    done = subprocess.run(
        [*asked, "--version-info", str(path)],
        env=os.environ | {"LC_ALL": "C"},  # else it speaks this machine's language
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    (machine,) = re.findall(r"^ *Machine: +(.+)$", done.stdout, re.MULTILINE)
    elf, library, giving = Elf(path, path.name, machine), "", False
    for line in done.stdout.splitlines():
        if tag := re.search(r"\((NEEDED|RPATH|RUNPATH|SONAME)\).*\[(.*)\]", line):
            match tag[1]:
                case "NEEDED":
                    elf.needs.append(tag[2])
                case "SONAME":
                    elf.name = tag[2]
                case _:
                    elf.runpaths += tag[2].split(":")
        elif segment := re.match(r"\s*(INTERP .*|GNU_STACK.* RWE )", line):
            elf.is_program |= segment[1].startswith("INTERP")
            elf.executable_stack |= segment[1].startswith("GNU_STACK")
        elif section := re.match(r"Version (definition|needs|symbols) section", line):
            giving = section[1] == "definition"
        elif file := re.search(r"\bFile: (\S+)", line):
            library = file[1]
        elif version := re.search(r"\bName: (\S+)", line):
            if giving:
                elf.gives.add(version[1])
            else:
                elf.wants.add((library, version[1]))
    return elf


def faults(files: Sequence[Elf], glibc: str) -> Iterator[str]:
    """Yield a sentence for each file that would fail on other machines."""
    here = {elf.name: elf for elf in files} | {elf.path.name: elf for elf in files}
    for elf in files:
        wrong = [f"looks for libraries in {path or 'the working folder'}" for path in _fixed(elf)]
        wrong += [
            f"needs {name}, which it doesn't find in the folder" for name in _missing(elf, here)
        ]
        wrong += [f"needs {version}" for version in _too_new(elf, here, glibc)]
        if elf.executable_stack:
            wrong.append("its stack is executable")
        if wrong:
            yield f"{elf.path}: {'; '.join(wrong)}."


def _fixed(elf: Elf) -> Iterator[str]:
    """Yield the folders in which it looks for libraries that aren't those beside it."""
    for path in elf.runpaths:
        beside = re.fullmatch(r"\$(?:ORIGIN|\{ORIGIN\})((?:/.*)?)", path)
        if not beside or os.path.normpath(f"{elf.path.parent}{beside[1]}").startswith(".."):
            yield path


def _missing(elf: Elf, here: Container[str]) -> Iterator[str]:
    """Yield the libraries that it won't find: a program knows the folder only by its own paths."""
    lost = elf.is_program and not elf.runpaths
    for name in elf.needs:
        if (lost or name not in here) and name not in DRIVERS and not SYSTEM.fullmatch(name):
            yield name


def _too_new(elf: Elf, here: Mapping[str, Elf], glibc: str) -> Iterator[str]:
    """Yield the versions that it wants of libraries and that these may not have."""
    for library, version in sorted(elf.wants):
        if SYSTEM.fullmatch(library):
            # One that isn't a number is a feature of glibc, all of them newer: GLIBC_ABI_DT_RELR.
            if not _is_glibc(version) or _number(version) > _number(glibc):
                yield version
        elif library in here and version not in here[library].gives:
            yield f"{version} of {library}"


def _is_glibc(version: str) -> bool:
    return bool(re.fullmatch(r"GLIBC_[\d.]+", version))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


if __name__ == "__main__":
    print(f"Needs glibc {main(Path(sys.argv[1]), *sys.argv[2:])}.")
