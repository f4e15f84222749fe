"""Compiles the launcher, with zstd's decoder from a source package that the lock pins."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_SOURCES = ("folder.c", "launcher.c", "payload.c", "previous.c", "say.c", "sha256.c", "tree.c")
_LOCK = _HERE.parent / "requirements.lock"


class BuildError(Exception):
    """The launcher can't be compiled, or what it needs can't be fetched."""


def build_launcher(build: Path, cc: Sequence[str] = ()) -> Path:
    """Compile the launcher, once; return it. `build` keeps it and what it's made of.

    `cc` is the compiler with arguments of its own, by default what CC says. Raises BuildError.
    """
    compiler = [*(cc or shlex.split(os.environ.get("CC", "cc"))), *_flags()]
    version = run([compiler[0], "--version"])
    zstd = _zstd(build)
    key = hashlib.sha256(repr((compiler, version, zstd.name)).encode())
    for source in sorted((*_HERE.glob("*.c"), *_HERE.glob("*.h"))):
        key.update(source.name.encode() + source.read_bytes())
    launcher = build / "launcher" / key.hexdigest()[:16]
    if not launcher.exists():
        decoder = _decoder(compiler, version, zstd)
        sources = [str(_HERE / name) for name in _SOURCES]
        with making(launcher) as made:
            strict = [*compiler, *_STRICT, f"-I{zstd}", f"-ffile-prefix-map={_HERE}=."]
            run([*strict, *sources, str(decoder), *_link(), "-o", str(made)])
    return launcher


_STRICT = shlex.split(
    "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wcast-qual -Wformat=2"
    " -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror"
)


def _flags() -> list[str]:
    hardened = "-D_FORTIFY_SOURCE=2 -fstack-protector-strong -ffunction-sections -fdata-sections"
    return ["-O2", "-fPIE", *hardened.split()]


def _link() -> list[str]:
    """On Linux, nothing of the system is needed that not every one has."""
    if sys.platform == "darwin":
        return ["-Wl,-dead_strip"]
    safe = "-Wl,-z,relro,-z,now,-z,noexecstack,--gc-sections,--build-id=none,--fatal-warnings"
    # Before glibc 2.34 locks, which the unwinder takes, are in a library of their own.
    return ["-static-pie", "-s", "-pthread", safe]


def _decoder(compiler: Sequence[str], version: bytes, zstd: Path) -> Path:
    """Compile zstd, which takes a while, once for each compiler."""
    key = hashlib.sha256(repr((compiler, version)).encode()).hexdigest()[:16]
    decoder = zstd / f"{key}.o"
    if not decoder.exists():
        with making(decoder) as made, tempfile.TemporaryDirectory() as temporary:
            source = Path(temporary) / "zstd_decoder.c"
            whole = (zstd / "zstd.c").read_text(encoding="utf-8")
            source.write_text(_without_compressor(whole), encoding="utf-8")
            run([*compiler, "-w", "-g0", "-c", str(source), "-o", str(made)])
    return decoder


def _without_compressor(source: str) -> str:
    """Return zstd's single file without what compresses, which takes a compiler half a minute.

    The file says where each of the files that it was made of starts and ends.
    """
    kept: list[str] = []
    depth, left_out = 0, False
    for line in source.splitlines(keepends=True):
        if line.startswith("/**** start inlining "):
            if depth == 0:
                left_out = line.split()[3].startswith(("compress/", "dictBuilder/"))
            depth += 1
        if not left_out:
            kept.append(line)
        if line.startswith("/**** ended inlining "):
            depth -= 1
            left_out = left_out and depth > 0
    return "".join(kept)


def _zstd(build: Path) -> Path:
    """Return the folder with zstd's own source, which zstandard's source package carries.

    Which bytes these are is said by the lock, and pip sees to it.
    """
    pinned, name = lock_entry("zstandard")
    folder = build / "launcher" / name
    if not folder.exists():
        with making(folder) as made, tempfile.TemporaryDirectory() as temporary:
            archive = fetch_source(pinned, Path(temporary))
            with tarfile.open(archive) as opened:
                _extract_zstd(opened, made)
    return folder


def _extract_zstd(archive: tarfile.TarFile, folder: Path) -> None:
    folder.mkdir()
    for member in archive.getmembers():
        path = Path(member.name)
        data = archive.extractfile(member) if path.parent.name == "zstd" else None
        if data and path.suffix in (".c", ".h"):
            (folder / path.name).write_bytes(data.read())


def lock_entry(package: str) -> tuple[str, str]:
    """Return a package's entry in the lock, and a name that changes with it."""
    lock = _LOCK.read_text(encoding="utf-8")
    found = re.search(rf"^{package}==([^ ]+) (?:.*\\\n)+.*\n", lock, re.MULTILINE)
    if not found:
        raise BuildError(f"{_LOCK} doesn't name {package}: run scripts/lock.")
    return found[0], f"{package}-{found[1]}-{hashlib.sha256(found[0].encode()).hexdigest()[:8]}"


_BACKEND = """\
from pathlib import Path

def get_requires_for_build_wheel(settings=None):
    return []

def prepare_metadata_for_build_wheel(folder, settings=None):
    info = Path(folder, "{name}-{version}.dist-info")
    info.mkdir()
    metadata = "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    (info / "METADATA").write_text(metadata)
    return info.name
"""
"""pip asks a source package what it is before it keeps it; this answers, and executes nothing."""


def fetch_source(pinned: str, folder: Path, backend: str = "setuptools.build_meta") -> Path:
    """Fetch a source package, with pip, which checks its hash; none of it is executed.

    `backend` is what the package says that it is built with.
    """
    wanted = folder / "wanted"
    wanted.write_text(pinned, encoding="utf-8")
    package, module = backend.split(".")
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    name, version = pinned.split()[0].split("==")
    answers = _BACKEND.format(name=name, version=version)
    (folder / package / f"{module}.py").write_text(answers, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    exact = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes"]
    run([*pip, *exact, f"--requirement={wanted}", f"--dest={folder}"], PYTHONPATH=str(folder))
    return next(folder.glob("*.tar.gz"))


def run(command: Sequence[str], cwd: Path | None = None, **environment: str) -> bytes:
    """Run a step and return what it says. Raises BuildError with what it says if it fails."""
    try:
        ran = subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True)
    except OSError as error:
        raise BuildError(f"{command[0]} can't be started: {error.strerror}.") from error
    if ran.returncode:
        said = (ran.stderr or ran.stdout).decode(errors="replace")
        raise BuildError(f"{shlex.join(command)} failed:\n{said}")
    return ran.stdout


@contextmanager
def making(path: Path) -> Iterator[Path]:
    """Give a place to make something in; it appears at `path` once it's whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:
        made = Path(folder) / path.name
        yield made
        if not path.exists():
            made.rename(path)
