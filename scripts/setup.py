"""Makes .venv hold exactly what the given lock files ask for: `setup.py LOCK...`.

Run by scripts/environment.sh with whatever Python 3.11+ the machine has, hence standard library only.
Talks on stderr in a few plain lines; what pip says goes to a log. Every package is checked against
its hash in the lock, and the compiler tools for llama.cpp come from the lock as well.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "setup.log"
INSTALLED = VENV / "installed"  # a copy of each lock file whose packages are all there
UNFINISHED = VENV / "unfinished"  # here while packages are being written, and after a crash then

# The only package without wheels: built for this processor once the build tools are installed.
COMPILED = "llama-cpp-python"
# Leaves out what Baton has no use for: the image encoder and llama.cpp's own command-line library.
BUILD_SETTINGS = {"CMAKE_ARGS": "-DLLAVA_BUILD=OFF", "SKBUILD_BUILD_TARGETS": "llama"}


class SetupError(Exception):
    """The set-up can't go on; the text says why and what to do."""


def main(locks: list[str]) -> None:
    with one_at_a_time() as held:
        wanted = {name: (ROOT / name).read_bytes() for name in locks}
        missing = {name: text for name, text in wanted.items() if not is_installed(name, text)}
        if missing:
            started = time.monotonic()
            prepare_venv()
            UNFINISHED.touch()
            for name, text in missing.items():
                install(name, text, held)
            UNFINISHED.unlink()
            minutes, seconds = divmod(round(time.monotonic() - started), 60)
            say(f"Ready after {minutes} min {seconds} s.")


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


def is_installed(name: str, text: bytes) -> bool:
    copy = INSTALLED / name
    return PYTHON.exists() and not UNFINISHED.exists() and copy.is_file() and copy.read_bytes() == text


def prepare_venv() -> None:
    """Creates .venv, anew when the last set-up broke off: half-written packages look whole to pip.

    Nothing is downloaded or compiled twice for that, pip has it all in its cache.
    """
    if UNFINISHED.exists() or not PYTHON.exists():
        shutil.rmtree(VENV, ignore_errors=True)
    if VENV.exists():
        return
    if importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SetupError(
            f"Python {version} here can't make virtual environments: install its venv package"
            f" (on Debian and Ubuntu: apt install python{version}-venv) and run this again."
        )
    require_compiler()
    say(f"Setting up Baton in {VENV}: once, about 5 minutes.")
    venv.create(VENV, with_pip=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(VENV)}))
    # A relative path, so that the whole folder can be moved.
    (packages / "baton.pth").write_text(os.path.relpath(ROOT / "app", packages) + "\n")


def require_compiler() -> None:
    compiler = [os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")]
    for command in compiler:
        # On a Mac without the developer tools the command exists and fails.
        if subprocess.run(f"{command} --version", shell=True, capture_output=True).returncode:
            raise SetupError(
                "Baton compiles llama.cpp for your processor and found no C++ compiler: install one"
                " (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++;"
                " macOS: xcode-select --install) and run this again."
            )


def install(name: str, lock: bytes, held: int) -> None:
    """Installs the packages of one lock file, whose bytes are `lock`, then remembers it as installed."""
    copy = INSTALLED / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    with_wheels = VENV / "with-wheels.lock"
    with_wheels.write_text(re.sub(rf"(?m)^{COMPILED}==.*\n(?:[ \t].*\n)*", "", lock.decode()))
    say(f"Installing the packages of {name} ...")
    pip("--only-binary", ":all:", "-r", str(with_wheels), held=held)
    if f"\n{COMPILED}==" in lock.decode():
        say("Compiling llama.cpp for this processor ...")
        pip("--no-build-isolation", "-r", str(ROOT / name), held=held)
    copy.write_bytes(lock)


def pip(*arguments: str, held: int) -> None:
    command = [PYTHON, "-I", "-m", "pip", "install", "--require-hashes", "--no-deps", *arguments]
    settings = os.environ | BUILD_SETTINGS | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with LOG.open("ab") as log:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=settings, pass_fds=[held]
        )
    if done.returncode:
        tail = "\n".join(LOG.read_text(errors="replace").splitlines()[-15:])
        raise SetupError(f"{tail}\nThe set-up failed, see above; all that pip said is in {LOG}. Run this again to go on.")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SetupError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        say("Stopped; run this again to go on with the set-up.")
        sys.exit(130)
