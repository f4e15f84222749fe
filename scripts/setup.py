"""Makes .venv hold exactly what the given lock files ask for: `setup.py LOCK...`.

Run by scripts/environment.sh with a Python that the machine has, hence standard library only. Talks
on stderr in a few plain lines; what pip says goes to a log. Every package is checked against its
hash in the lock, and the tools that compile llama.cpp come from the lock as well.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":  # where packaging/windows/make.py uses what needs no lock
    import fcntl

ROOT = Path(__file__).resolve().parent.parent

# The one package without wheels: compiled here, once the build tools are installed.
COMPILED = re.compile(r"^llama-cpp-python==(?P<version>\S+).*\n(?:[ \t].*\n)*", re.MULTILINE)
RECIPE = "scripts/llama-cpp.cmake"
BUILD_SETTINGS = ";".join(
    [
        "LLAVA_BUILD=OFF",  # reads images, which Baton doesn't
        f"CMAKE_PROJECT_INCLUDE={ROOT / RECIPE}",
    ]
)
NINJA_PROGRESS = re.compile(r"^\s*\[(\d+)/(\d+)\] ")


class SetupError(Exception):
    """The set-up can't continue; the text says why and what to do."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment of this checkout, holding what lock files ask for and app/."""

    folder: Path = ROOT / ".venv"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def log(self) -> Path:
        """What pip said."""
        return self.folder / "setup.log"

    @property
    def installed(self) -> Path:
        """A folder with a copy of each lock file whose packages are all there."""
        return self.folder / "installed"

    @property
    def unfinished(self) -> Path:
        """A file that is here while packages are being written, and after a crash then."""
        return self.folder / "unfinished"

    def bring_up_to_date(self, names: list[str], held: int) -> None:
        """Installs the packages of the lock files of these names, relative to the checkout."""
        self.discard_unfinished()
        locks = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
        missing = {name: lock for name, lock in locks.items() if not self.is_installed(name, lock)}
        if not missing:
            return
        started = time.monotonic()
        if any(self.to_compile(lock) for lock in missing.values()):
            require_compiler()
        self.folder.mkdir(exist_ok=True, parents=True)
        self.unfinished.touch()
        if not self.python.exists():
            self.create()
        for name, lock in missing.items():
            self.install(name, lock, held)
        self.unfinished.unlink()
        minutes, seconds = divmod(round(time.monotonic() - started), 60)
        say(f"Ready after {minutes} min {seconds} s.")

    def discard_unfinished(self) -> None:
        """Removes what a set-up left that broke off: half-written packages look whole to pip.

        That costs little, what was downloaded and compiled is in pip's cache.
        """
        if self.unfinished.exists() or not self.python.exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def is_installed(self, name: str, lock: str) -> bool:
        """Says whether the packages of this lock are all there."""
        return self.has_copy(name, lock) and not self.to_compile(lock)

    def has_copy(self, name: str, text: str) -> bool:
        """Says whether what the file of this name asks for was done when it held this text."""
        copy = self.installed / name
        return copy.is_file() and copy.read_text(encoding="utf-8") == text

    def keep_copy(self, name: str, text: str) -> None:
        """Remembers that what the file of this name asks for is done."""
        copy = self.installed / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")

    def to_compile(self, lock: str) -> str:
        """Returns the part of the lock to be compiled, empty when it is here and compiled so."""
        compiled = COMPILED.search(lock)
        if compiled is None:
            return ""
        there = f"lib/python3*/site-packages/llama_cpp_python-{compiled['version']}.dist-info"
        here = any(self.folder.glob(there)) and self.has_copy(RECIPE, recipe())
        return "" if here else compiled[0]

    def create(self) -> None:
        """Creates it with pip and the path to app/ in it."""
        if importlib.util.find_spec("ensurepip") is None:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            raise SetupError(
                f"Python {version} here can't make virtual environments: install its venv package"
                f" (Debian, Ubuntu: apt install python{version}-venv) and run this again."
            )
        say("Setting up Baton: once, about 5 minutes.")
        venv.create(self.folder, symlinks=True, with_pip=True)
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(self.folder)}))
        # A relative path, so that the whole folder can be moved.
        (packages / "baton.pth").write_text(os.path.relpath(ROOT / "app", packages) + "\n")

    def install(self, name: str, lock: str, held: int) -> None:
        """Installs the packages of the lock file `name`, whose text is `lock`, and remembers it."""
        (self.installed / name).unlink(missing_ok=True)
        say(f"Installing the packages of {name} ...")
        self.pip_install(COMPILED.sub("", lock), "--only-binary=:all:", held=held)
        if compiled := self.to_compile(lock):
            self.install_compiled(compiled, held)
        self.keep_copy(name, lock)

    def install_compiled(self, compiled: str, held: int) -> None:
        """Compiles and installs llama.cpp, of which this is the part of the lock."""
        say("Compiling llama.cpp for this processor ...")
        options = ["--no-build-isolation", "--force-reinstall", "--verbose"]
        self.pip_install(compiled, *options, *self.own_cache(), held=held)
        self.keep_copy(RECIPE, recipe())

    def own_cache(self) -> list[str]:
        """Returns pip's option for a cache of what is compiled by this recipe.

        In its usual one pip would find what another recipe made, and take it.
        """
        asked = [str(self.python), "-I", "-m", "pip", "cache", "dir"]
        answer = subprocess.run(asked, capture_output=True, text=True)
        made = hashlib.sha256(recipe().encode()).hexdigest()[:12]
        return (
            [f"--cache-dir={answer.stdout.strip()}/baton-{made}"] if not answer.returncode else []
        )

    def pip_install(self, requirements: str, *options: str, held: int) -> None:
        """Runs pip, whose output goes to the log; raises SetupError with its end if it fails."""
        wanted = self.folder / "wanted.lock"
        wanted.write_text(requirements, encoding="utf-8")
        install = [str(self.python), "-I", "-m", "pip", "install", "--require-hashes", "--no-deps"]
        settings = {"SKBUILD_CMAKE_DEFINE": BUILD_SETTINGS, "PIP_USER": "0"}
        with (
            self.log.open("a", encoding="utf-8") as log,
            subprocess.Popen(
                [*install, *options, "-r", str(wanted)],
                env=os.environ | settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                pass_fds=[held],  # should this process be killed, the lock lasts as long as pip
            ) as pip,
        ):
            for line in pip.stdout or ():
                log.write(line)
                show_progress(line)
        if pip.returncode:
            tail = "".join(self.log.read_text(encoding="utf-8").splitlines(keepends=True)[-15:])
            raise SetupError(
                f"{tail}The set-up failed; the whole log is {self.log}."
                " Fix the cause (no network? a full disk?) and run this again to continue."
            )


def main(names: list[str]) -> None:
    """Brings .venv up to date with the lock files of these names, relative to the checkout."""
    with one_at_a_time() as held:
        Environment().bring_up_to_date(names, held)


@contextmanager
def one_at_a_time() -> Iterator[int]:
    """Waits for any other set-up of this checkout; yields the descriptor that holds the lock."""
    held = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up is running in this folder; waiting for it ...")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield held
    finally:
        os.close(held)


def recipe() -> str:
    """Returns how llama.cpp is compiled."""
    return (ROOT / RECIPE).read_text(encoding="utf-8")


def require_compiler() -> None:
    """Raises SetupError unless C and C++ can be compiled."""
    compilers = {"CC": "cc", "CXX": "c++"}
    if not all(runs(os.environ.get(name, default)) for name, default in compilers.items()):
        raise SetupError(
            "Baton compiles llama.cpp for your processor and found no C++ compiler: install one"
            " (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select"
            " --install) and run this again."
        )


def runs(compiler: str) -> bool:
    """Says whether this command works; a Mac without its developer tools has a `c++` that fails."""
    try:
        tried = subprocess.run([*shlex.split(compiler), "--version"], capture_output=True)
    except OSError:
        return False
    return tried.returncode == 0


def show_progress(line: str) -> None:
    """Shows a user at a terminal how far the compiler is."""
    step = NINJA_PROGRESS.match(line)
    if step and sys.stderr.isatty():
        end = "\n" if step[1] == step[2] else "\r"
        print(f"  {step[1]} of {step[2]}", end=end, file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Writes to stderr: stdout may be piped."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SetupError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"Baton could not be set up: {error}")
    except KeyboardInterrupt:
        say("Stopped; run this again to continue the set-up.")
        sys.exit(130)
