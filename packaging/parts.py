"""What a folder build consists of: Baton, and each part by others with its licence and its texts.

Nothing is taken on trust: what was collected is looked up in the installed packages' own lists and
in parts.toml. A file that belongs to neither, or a licence that isn't allowed, ends the build.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote

HERE = Path(__file__).resolve().parent
CONTENTS = "lib"
"""The folder beside the executable that holds everything else."""

_PORTABLE = HERE / "linux" / "build"
_OWN = ("baton/", "baton-", "../MANIFEST")
_TEXT = re.compile(r"(licen[cs]e|copying|notice|thirdpartynotices)[^/]*", re.IGNORECASE)
_NO_TEXT = (".py", ".pyc", ".so", ".pyi")
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_EXPRESSION = re.compile(r"[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*")
_SOURCES = ("source", "source code", "repository", "code", "github", "homepage", "home")


class PartsError(Exception):
    """Something in a build is unknown or may not be passed on; the text says what."""


@dataclass(frozen=True, slots=True)
class Part:
    """One work by others. `licence` is an SPDX expression; `files` are those of a model, hashed.

    `source` is where it is developed, "" if it doesn't say; `purl` names what it was made from.
    """

    name: str
    version: str
    licence: str
    purl: str
    texts: tuple[str, ...]
    kind: str = "library"
    source: str = ""
    files: tuple[tuple[str, str], ...] = ()


def parts(folder: Path, modules: Collection[str], installed: Iterable[Distribution]) -> list[Part]:
    """Return the parts of a folder build, by name.

    `modules` are those in its executable, `installed` the packages it was made of. Raises
    PartsError.
    """
    table = _table()
    held = set(_held(folder))
    found = list(_listed_parts(table, folder, held))
    for package in installed:
        if part := _package_part(table, package, modules, held):
            found.append(part)
    if unknown := sorted(path for path in held if not path.startswith(_OWN)):
        raise PartsError(
            f"Nobody knows whose these are: {', '.join(unknown[:20])}. Say so in"
            " packaging/parts.toml, or leave them out in packaging/contents.py."
        )
    for part in found:
        if not allowed(part.licence, table["allowed"]):
            raise PartsError(f"{part.name} can't be a part of Baton: it is under {part.licence}.")
    return sorted(found, key=lambda part: (part.kind, part.name.lower()))


def allowed(expression: str, licences: Collection[str]) -> bool:
    """Say whether an SPDX expression leaves a way to pass the work on with Baton."""
    choices = re.split(r"\s+OR\s+", expression.strip("()"))
    return any(
        all(one.strip("() ") in licences for one in re.split(r"\s+AND\s+", choice))
        for choice in choices
    )


def modules_of(executable: Path) -> set[str]:
    """Return the Python modules that PyInstaller put into an executable."""
    from PyInstaller.archive.readers import CArchiveReader

    archive = CArchiveReader(str(executable))
    names = [name for name in archive.toc if name.startswith("PYZ")]
    return {module for name in names for module in archive.open_embedded_archive(name).toc}


@functools.cache
def _table() -> dict[str, Any]:
    table = tomllib.loads((HERE / "parts.toml").read_text(encoding="utf-8"))
    for entry in table["parts"]:
        for key in ("files", "inside"):
            entry[key] = [_pattern(text) for text in entry.get(key, ())]
    return table


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(map(re.escape, text.split("*"))), re.IGNORECASE)


def _held(folder: Path) -> Iterator[str]:
    """Yield the files of a build, relative to its contents. Links aren't files of their own."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            inside = path.relative_to(folder).as_posix()
            yield inside.removeprefix(f"{CONTENTS}/") if "/" in inside else f"../{inside}"


# What parts.toml lists


def _listed_parts(table: Mapping[str, Any], folder: Path, held: set[str]) -> Iterator[Part]:
    """Yield the parts of parts.toml that are there, and take their files away from `held`."""
    there = sorted(held)
    for entry in table["parts"]:
        own = [path for path in there if any(one.fullmatch(path) for one in entry["files"])]
        held.difference_update(own)
        inside, shown = _compiled_in(entry, folder, there)
        if not own and not inside:
            continue
        version, purl = _origin(entry, own, shown)
        model = entry.get("kind") == "model"
        yield Part(
            entry["name"],
            version,
            entry["licence"],
            purl,
            tuple(text for name in entry["texts"] for text in _read(name, folder)),
            entry.get("kind", "library"),
            entry.get("source", ""),
            files=tuple((path, _sha256(folder / CONTENTS / path)) for path in own if model),
        )


def _read(text: str, folder: Path) -> list[str]:
    """Return a licence's texts: a file of licences/, of the build itself, or a package's own."""
    kind, _, name = text.rpartition(":")
    if kind == "bundle":
        return [(folder / CONTENTS / name).read_text(encoding="utf-8", errors="replace")]
    if kind == "package":
        return _texts(distribution(name))
    return [(HERE / "licences" / name).read_text(encoding="utf-8")]


def _compiled_in(entry: Mapping[str, Any], folder: Path, there: Iterable[str]) -> tuple[bool, str]:
    """Say whether a part is compiled into a file of somebody else's, and what this shows of it."""
    inside = [path for path in there if any(one.fullmatch(path) for one in entry["inside"])]
    if sys.platform not in entry.get("systems", [sys.platform]):
        return False, ""
    if "shows" not in entry:
        return bool(inside), ""
    pattern = re.compile(entry["shows"].encode())
    seen = (pattern.search((folder / CONTENTS / path).read_bytes()) for path in inside)
    shown = next((one[1].decode() for one in seen if one), "")
    return bool(shown), shown


def compiled() -> dict[str, tuple[str, str]]:
    """Return what packaging/linux/cpython compiled for this Python: Debian's source packages.

    By what parts.toml calls them: the package, and its version with Debian's fixes. Empty for any
    other Python.
    """
    note = Path(sys.base_prefix, "sources")
    lines = note.read_text(encoding="utf-8").splitlines() if note.is_file() else []
    rows = [line.split() for line in lines]
    return {package.rstrip("0123456789."): (package, version) for package, version in rows}


def _origin(entry: Mapping[str, Any], own: Iterable[str], shown: str) -> tuple[str, str]:
    """Return a part's version, and a purl that names what it was made from. Raises PartsError.

    Debian's version tells which holes are fixed, so it comes first.
    """
    known_by = entry.get("version", "")
    if known_by in (built := compiled()):
        release = re.search(r"^sources=(\w+)", _PORTABLE.read_text(encoding="utf-8"), re.MULTILINE)
        assert release
        return _of_debian(*built[known_by], "debian", release[1])
    system = own if entry["purl"].startswith("pkg:generic/") else []
    packages = [entry.get("debian", ""), *map(_package_of, system)]
    if found := next(filter(None, map(_source_of, filter(None, packages))), None):
        this = platform.freedesktop_os_release()
        return _of_debian(*found, this["ID"], this.get("VERSION_CODENAME", ""))
    version = shown or _version(entry)
    return version, f"{entry['purl']}@{version}" if version else entry["purl"]


def _of_debian(package: str, version: str, system: str, release: str) -> tuple[str, str]:
    distro = f"&distro={release}" if release else ""
    return version, f"pkg:deb/{system}/{package}@{quote(version)}?arch=source{distro}"


def _version(entry: Mapping[str, Any]) -> str:
    """Return a part's version by whom parts.toml names. Raises PartsError."""
    known_by = entry.get("version", "")
    kind, _, name = known_by.rpartition(":")
    if kind == "package":
        try:
            return distribution(name).version
        except PackageNotFoundError:
            return ""
    if "commit" in entry:
        return _vendored(entry)
    return _VERSIONS[known_by]() if known_by else ""


def _vendored(entry: Mapping[str, Any]) -> str:
    """Return the commit of what a package brings, known for one version only. Raises PartsError."""
    package, _, version = entry["within"].partition("==")
    if (installed := distribution(package).version) != version:
        raise PartsError(
            f"packaging/parts.toml knows which {entry['name']} was in {package} {version}, and this"
            f" is {installed}: look it up in its CHANGELOG.md."
        )
    return str(entry["commit"])


def _openssl() -> str:
    import ssl

    return ssl.OPENSSL_VERSION.split()[1]


def _sqlite() -> str:
    import sqlite3

    return sqlite3.sqlite_version


def _pysqlite3() -> str:
    import pysqlite3

    return str(pysqlite3.sqlite_version)


def _cryptography() -> str:
    from cryptography.hazmat.backends.openssl import backend

    return backend.openssl_version_text().split()[1]


def _zlib() -> str:
    import zlib

    return zlib.ZLIB_RUNTIME_VERSION


def _expat() -> str:
    import pyexpat

    return pyexpat.EXPAT_VERSION.removeprefix("expat_")


def _openblas() -> str:
    from numpy.__config__ import CONFIG

    return str(CONFIG["Build Dependencies"]["blas"]["version"])


def _zstd() -> str:
    import zstandard

    return ".".join(map(str, zstandard.ZSTD_VERSION))


def _glibc() -> str:
    return platform.libc_ver()[1]


def _cuda() -> str:
    lock = (HERE / "cuda.lock").read_text(encoding="utf-8")
    found = re.search(r"^nvidia-cuda-runtime==(\S+)", lock, re.MULTILINE)
    return found[1] if found else ""


_VERSIONS: dict[str, Callable[[], str]] = {
    "python": platform.python_version,
    "openssl": _openssl,
    "sqlite": _sqlite,
    "pysqlite3": _pysqlite3,
    "cryptography": _cryptography,
    "zlib": _zlib,
    "expat": _expat,
    "openblas": _openblas,
    "zstd": _zstd,
    "glibc": _glibc,
    "cuda": _cuda,
}


def _package_of(path: str) -> str:
    """Return Debian's package of a library that was taken from the system.

    "" where dpkg doesn't know it, and for what a Python of its own brought.
    """
    if "/" in path or (sys.base_prefix != "/usr" and Path(sys.base_prefix, "lib", path).exists()):
        return ""
    owned = _dpkg("--search", f"*/{path}")
    package = re.search(r"^([a-z0-9][a-z0-9+.-]+(?::\w+)?)(?:, .*)?: /", owned, re.MULTILINE)
    return package[1] if package else ""


def _source_of(package: str) -> tuple[str, str] | None:
    """Return the source package of one of Debian's packages, and that one's version."""
    shown = _dpkg("--show", "--showformat=${source:Package} ${source:Version}", package)
    source, _, version = shown.partition(" ")
    return (source, version) if version else None


def _dpkg(*asked: str) -> str:
    """Return what dpkg says, "" where it has no answer, or isn't there."""
    command = ["dpkg-query", *asked]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Python packages


def _package_part(
    table: Mapping[str, Any], package: Distribution, modules: Collection[str], held: set[str]
) -> Part | None:
    """Return a package as a part, None if none of it is in the build."""
    files = [file.as_posix() for file in package.files or [] if ".." not in file.parts]
    own = held.intersection(files)
    held.difference_update(own)
    code = {path for path in own if not re.match(r"[^/]+\.(dist|egg)-info/", path)}
    if not code and not any(_module(file) in modules for file in files if file.endswith(".py")):
        return None
    name = re.sub(r"[-_.]+", "-", package.name).lower()
    licence = licence_of(package, table["packages"])
    texts = _texts(package)
    if not texts and licence == "Apache-2.0":
        texts = [(HERE.parent / "LICENSE").read_text(encoding="utf-8")]
    if not texts:
        raise PartsError(f"{name} brings no text of its licence, which has to go along.")
    purl = f"pkg:pypi/{name}@{package.version}"
    return Part(name, package.version, licence, purl, tuple(texts), source=_source(package))


def licence_of(package: Distribution, known: Mapping[str, str]) -> str:
    """Return a package's licence as an SPDX expression: its own word, or what parts.toml says."""
    name = re.sub(r"[-_.]+", "-", package.name).lower()
    data: Any = package.metadata  # a message of email's, whose type hides most of it
    if name in known:
        return known[name]
    if expression := data.get("License-Expression"):
        return str(expression)
    classes = [line.rpartition(" :: ")[2] for line in data.get_all("Classifier") or []]
    named = [_CLASSIFIERS[one] for one in classes if one in _CLASSIFIERS]
    licence = named[0] if len(named) == 1 else str(data.get("License") or "").strip()
    if not _EXPRESSION.fullmatch(licence):
        raise PartsError(f"{name} doesn't tell its licence: look it up for packaging/parts.toml.")
    return licence


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _texts(package: Distribution) -> list[str]:
    """Return the texts of its licence and the notices that a package brings."""
    found = []
    for file in package.files or []:
        if not _TEXT.fullmatch(file.name) or file.suffix in _NO_TEXT or "__pycache__" in file.parts:
            continue
        path = Path(str(package.locate_file(file)))
        if path.is_file():
            found.append(path.read_text(encoding="utf-8", errors="replace"))
    return found


def _source(package: Distribution) -> str:
    """Return where a package's source is kept, as it says itself."""
    data: Any = package.metadata
    rows = [line.partition(",") for line in data.get_all("Project-URL") or []]
    urls = {name.strip().lower(): url.strip() for name, _, url in rows}
    best = next((urls[name] for name in _SOURCES if name in urls), "")
    return best or data.get("Home-page") or next(iter(urls.values()), "")
