"""Builds the packaged binary for the platform it runs on: `scripts/build --help`.

Makes build/venv hold what requirements.lock and packaging/requirements.lock ask for, with llama.cpp
for any processor (packaging/llama.py), then lets PyInstaller make dist/folder/baton and
dist/folder/baton-slim (pyinstaller.spec), and packs each into a single file beside `folder`
(packaging/launcher). The same checkout, Python and compiler give the same bytes. All of it is made
in a folder aside first: what is in dist/ stays as it was unless all went well.

Run by scripts/build with a Python that the machine has, hence standard library only; the second
half, distinguished by its interpreter, runs in build/venv.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
DIST = ROOT / "dist"
VENV = BUILD / "venv"
LOG = BUILD / "freeze.log"
LOCKS = ["requirements.lock", "packaging/requirements.lock"]
FLAVOURS = {"full": "baton", "slim": "baton-slim"}
QUICK = 9
"""A compression that takes seconds and gives a tenth more."""

for _folder in ("scripts", "packaging", "packaging/launcher"):
    sys.path.insert(0, str(ROOT / _folder))
import setup  # noqa: E402


class BuildError(Exception):
    """The build can't continue; the text says why and what to do."""


@dataclass(frozen=True)
class BuildOptions:
    """What is to be built, and what the binary will say of itself."""

    platform: str
    gpu: str
    commit: str
    """40 hex digits, with "+changes" after them if files of the checkout differ from it."""
    update_key: str
    epoch: int
    """The time that stands wherever one must stand, in seconds since 1970."""
    quick: bool = False


class Environment(setup.Environment):
    """build/venv: like a checkout's, but with a llama.cpp that runs on every processor."""

    def bring_up_to_date(self, names: list[str], held: int) -> None:
        """Install what the lock files ask for, and the portable wheel, compiled if need be."""
        super().bring_up_to_date(names, held)
        import llama

        if not any((BUILD / "wheels").glob("*")):
            setup.say("Compiling llama.cpp for every processor: once, about 10 minutes ...")
        try:
            wheel = llama.wheel(self.python)
        except llama.BuildError as error:
            raise setup.SetupError(str(error)) from error
        note = self.folder / "llama.txt"
        if note.is_file() and note.read_text(encoding="utf-8") == str(wheel):
            return
        install = [str(self.python), "-I", "-m", "pip", "install", "--quiet", "--force-reinstall"]
        subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True)
        note.write_text(str(wheel), encoding="utf-8")

    def to_compile(self, lock: str) -> str:
        """Return nothing: compiling needs the tools of all locks, so it comes last."""
        return ""


def main(arguments: Sequence[str]) -> None:
    """Build what the arguments ask for."""
    asked = _parser().parse_args(arguments)
    wanted = _build_options(asked)
    if asked.portable:
        _build_portably(wanted, asked.check_reproducible)
    elif Path(sys.prefix) != VENV:
        with setup.one_at_a_time() as held:
            Environment(VENV).bring_up_to_date(LOCKS, held)
        python = VENV / "bin" / "python"
        sys.stderr.flush()
        os.execv(python, [str(python), "-I", __file__, *arguments])
    elif asked.check_reproducible:
        _check_reproducible(wanted)
    else:
        started = time.monotonic()
        made = build(wanted, DIST)
        minutes, seconds = divmod(round(time.monotonic() - started), 60)
        setup.say(f"Built in {minutes} min {seconds} s: {', '.join(map(str, made))}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "scripts/build",
        description="Builds the packaged binary, with the starter model and without, into dist/.",
    )
    parser.add_argument(
        "--key",
        metavar="FILE",
        help="the public key that signs its updates (scripts/release keygen)",
    )
    parser.add_argument("--gpu", choices=["cuda", "vulkan"], default="", help="use such a GPU too")
    parser.add_argument(
        "--portable", action="store_true", help="build for Debian 11 and all newer (needs root)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="compress less: seconds, not minutes; not to be released",
    )
    parser.add_argument(
        "--check-reproducible",
        action="store_true",
        help="build twice, in build/, and compare; dist/ stays as it is",
    )
    return parser


def _build_options(asked: argparse.Namespace) -> BuildOptions:
    commit = os.environ.get("BATON_COMMIT") or _commit()
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git("show", "-s", "--format=%ct", "HEAD")
    return BuildOptions(
        platform=_platform(),
        gpu=asked.gpu,
        commit=commit,
        update_key=_key(asked.key),
        epoch=int(epoch) if epoch.isdigit() else 315532800,
        quick=asked.quick,
    )


def _platform() -> str:
    system = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
    machine = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}
    try:
        return f"{system[platform.system()]}-{machine[platform.machine()]}"
    except KeyError:
        kind = f"{platform.system()} on {platform.machine()}"
        raise BuildError(f"There is no packaged binary for {kind}.") from None


def _commit() -> str:
    """Return the commit of this checkout, marked if what is built isn't what it holds."""
    return _git("rev-parse", "HEAD") + "+changes" * bool(_git("status", "--porcelain"))


def _git(*command: str) -> str:
    """Return what git says of this checkout, "" where there is no git or no checkout."""
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *command]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _key(file: str | None) -> str:
    """Return the public key in a file. Raises BuildError."""
    if file is None:
        return os.environ.get("BATON_UPDATE_KEY", "")
    try:
        key = Path(file).read_text("ascii").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it isn't text"
        raise BuildError(f"The key {file} can't be read: {reason}.") from None
    if not re.fullmatch("[0-9a-f]{64}", key):
        raise BuildError(
            f"{file} isn't a public key: it has 64 hex digits (scripts/release keygen)."
        )
    return key


def _build_portably(wanted: BuildOptions, twice: bool) -> None:
    """Continue in a root file system of Debian 11, where this script runs again."""
    os.environ["BATON_UPDATE_KEY"] = wanted.update_key
    os.environ["BATON_COMMIT"] = wanted.commit
    os.environ["SOURCE_DATE_EPOCH"] = str(wanted.epoch)
    options = [f"--gpu={wanted.gpu}"] * bool(wanted.gpu) + ["--quick"] * wanted.quick
    options += ["--check-reproducible"] * twice
    program = ROOT / "packaging" / "linux" / "build"
    os.execv(program, [str(program), *options])


# In build/venv


def build(wanted: BuildOptions, dist: Path) -> list[Path]:
    """Make the folders and the single files. Raises BuildError."""
    import sizes

    with open_staging_folder(dist) as new:
        folders = freeze(wanted, new)
        setup.say("Packing the single files ...")
        names = [_pack(wanted, new, folder).name for folder in folders]
        sizes.main(new, names)
    return [dist / name for name in names]


@contextmanager
def open_staging_folder(dist: Path) -> Iterator[Path]:
    """Give a folder to build in, whose files take their places in dist once all are made.

    What they replace goes before the first of them comes, so that at no moment old and new are side
    by side. What a killed build left goes first of all.
    """
    (dist / "folder").mkdir(parents=True, exist_ok=True)
    for left in dist.glob("new-*"):
        _remove(left)
    with tempfile.TemporaryDirectory(dir=dist, prefix="new-") as aside:
        new = Path(aside)
        folders = new / "folder"
        folders.mkdir()
        yield new
        made = [*folders.iterdir(), *(path for path in new.iterdir() if path != folders)]
        moves = [(path, dist / path.relative_to(new)) for path in made]
        for _, place in moves:
            _remove(place)
        for path, place in moves:
            path.rename(place)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def freeze(wanted: BuildOptions, dist: Path) -> list[Path]:
    """Make the folders, full and slim, and return them. Raises BuildError."""
    plugin = _plugin(wanted.gpu)
    work = dist / "freeze"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    description = work / "build.json"
    description.write_text(
        json.dumps({**wanted.__dict__, "plugin": str(plugin or "")}, indent=1), encoding="utf-8"
    )
    setup.say("Freezing ...")
    _renew_bootloader()
    command = [sys.executable, "-P", "-s", "-m", "PyInstaller", "--noconfirm", "--clean"]
    command += ["--distpath", str(work / "made"), "--workpath", str(work / "work")]
    with LOG.open("w", encoding="utf-8") as log:
        ran = subprocess.run(
            [*command, str(ROOT / "pyinstaller.spec"), "--", str(description)],
            env=_environment(wanted, work),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if ran.returncode:
        raise BuildError(f"{_tail(LOG)}PyInstaller failed; the whole log is {LOG}.")
    folders = [_finish(work / "made" / name, wanted, dist) for name in FLAVOURS.values()]
    shutil.rmtree(work)
    return folders


def _renew_bootloader() -> None:
    """Have the executable begin with a program compiled here. Raises BuildError."""
    if sys.platform != "linux":
        return
    import bootloader
    import building

    try:
        bootloader.install(BUILD)
    except building.BuildError as error:
        raise BuildError(str(error)) from error


def _finish(made: Path, wanted: BuildOptions, dist: Path) -> Path:
    """Add what can only be said of a whole folder, and put it where it belongs."""
    import notices
    import pack
    import parts
    import sbom

    suffix = f"-{wanted.gpu}" if wanted.gpu else ""
    try:
        notices.main(made)
        sbom.main(made, dist / f"{made.name}{suffix}.cdx.json", wanted.epoch)
    except parts.PartsError as error:
        raise BuildError(str(error)) from error
    _check_portable(made)
    (made / pack.MANIFEST).write_bytes(pack.manifest(made))
    folder = dist / "folder" / f"{made.name}{suffix}"
    made.rename(folder)
    return folder


def _check_portable(folder: Path) -> None:
    """In packaging/linux's root, end the build if its result wouldn't run on other machines."""
    import parts

    if parts.compiled():
        from linux import check

        setup.say(f"{folder.name} needs glibc {check.main(folder)}.")


def _environment(wanted: BuildOptions, work: Path) -> Mapping[str, str]:
    """Return the environment of the freeze: nothing in it is this machine's or this minute's."""
    names = ("PATH", "HOME", "TMPDIR", "BATON_SIGN_IDENTITY")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(wanted.epoch),
        "ORT_DISABLE_TELEMETRY": "1",
        "PYINSTALLER_CONFIG_DIR": str(work / "cache"),
        # Modules are read one by one at each start, and the single file is compressed anyway.
        "PYINSTALLER_ZLIB_COMPRESSION_LEVEL": "0",
    }


def _plugin(gpu: str) -> Path | None:
    """Return the folder with what llama.cpp needs for that GPU. Raises BuildError."""
    if not gpu:
        return None
    import gpu as plugins
    import llama

    setup.say(f"Compiling llama.cpp's part for {gpu}: once, this takes long ...")
    try:
        return plugins.plugin(Path(sys.executable), gpu)
    except llama.BuildError as error:
        raise BuildError(str(error)) from error


def _pack(wanted: BuildOptions, dist: Path, folder: Path) -> Path:
    import pack

    target = dist / folder.name
    launcher = pack.build_launcher(BUILD)
    if wanted.quick:
        pack.pack(folder, target, launcher, level=QUICK)
    else:
        pack.pack(folder, target, launcher)
    return target


def _check_reproducible(wanted: BuildOptions) -> None:
    """Build twice, in two places, and compare all that is made. Raises BuildError."""
    places = [BUILD / "reproducible" / name for name in ("first", "second of two")]
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
        build(wanted, place)
    first, second = places
    for path in sorted(path for path in first.iterdir() if path.is_file()):
        other = second / path.name
        if not filecmp.cmp(path, other, shallow=False):
            raise BuildError(f"{path.name} isn't the same twice{_difference(path, other)}")
    shutil.rmtree(BUILD / "reproducible")
    setup.say("The same twice, byte by byte.")


def _difference(one: Path, other: Path) -> str:
    """Say in which of their files two single files differ."""
    import pack

    try:
        before, after = pack.contents(one), pack.contents(other)
    except pack.PackError:
        return f": compare {one} and {other}."
    inside = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return f": {', '.join(inside[:20])}" if inside else ", though all files in it are."


def _tail(log: Path) -> str:
    return "".join(log.read_text(encoding="utf-8", errors="replace").splitlines(True)[-15:])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (BuildError, setup.SetupError) as error:
        sys.exit(str(error))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Baton could not be built: {error}")
    except KeyboardInterrupt:
        setup.say("Stopped; run this again to continue.")
        sys.exit(130)
