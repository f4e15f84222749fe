"""Builds llama-cpp-python so that it runs on any processor: `llama.py PYTHON [OPTION=VALUE ...]`.

The version and its hash come from requirements.lock, as do the build tools: PYTHON is an
environment that has them. llama.cpp's computing is compiled once for each generation of processors,
as libraries of which llama_loader loads one. Further options are llama.cpp's own, such as
GGML_VULKAN=ON. Prints the wheel's path under build/wheels, at once if the same was built before.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SETTINGS = ROOT / "packaging" / "llama.cmake"
LOCKED = re.compile(r"^llama-cpp-python==\S+.*\n(?:[ \t].*\n)*", re.MULTILINE)

OPTIONS = (
    "GGML_NATIVE=OFF",
    "GGML_BACKEND_DL=ON",
    "GGML_CPU_ALL_VARIANTS=ON",
    "GGML_CCACHE=OFF",
    "LLAVA_BUILD=OFF",  # reads images, which Baton doesn't
)

VARIANTS = "vendor/llama.cpp/ggml/src/CMakeLists.txt"
NEEDS_COMPILER = {"alderlake": "-mavxvnni", "sapphirerapids": "-mamx-int8"}
"""Processors that not every compiler knows, and by what one is known that does: GCC since 11.

Without their own variant they are served by the next lower one, haswell and zen4.
"""

UNWANTED = (
    "include/**",
    "llama_cpp/lib/cmake/**",
    "llama_cpp/lib/pkgconfig/**",
    "llama_cpp/lib/*.h",
)
"""What ggml installs for those who compile against it."""


TOOLS = """
import importlib.metadata, platform
tools = ("cmake", "ninja", "scikit-build-core")
print(platform.libc_ver(), *map(importlib.metadata.version, tools))
"""
"""Asks an environment which tools it builds with, for which system."""


class BuildError(Exception):
    """The wheel can't be built; the text says why."""


def wheel(python: Path, options: Sequence[str] = ()) -> Path:
    """Return the wheel that this environment's build tools make with these options.

    It is built unless that was done before. Raises BuildError.
    """
    lock = locked()
    folder = BUILD / "wheels" / _key(python, lock, options)
    if not (built := sorted(folder.glob("*.whl"))):
        _build(python, lock, options, folder)
        built = sorted(folder.glob("*.whl"))
    return built[0]


def locked() -> str:
    """Return what requirements.lock says of llama-cpp-python: its version and hashes."""
    lock = LOCKED.search((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    if lock is None:
        raise BuildError("requirements.lock doesn't hold llama-cpp-python")
    return lock[0]


def _key(python: Path, lock: str, options: Sequence[str]) -> str:
    """Return a name for all that the wheel depends on."""
    compilers = [_output([*_compiler(name), "--version"]) for name in ("CC", "CXX")]
    parts = [lock, *OPTIONS, *options, *UNWANTED, *NEEDS_COMPILER, *compilers]
    parts += [_output([str(python), "-I", "-c", TOOLS])]
    parts += [f"{name}={value}" for name, value in _reproducible(Path("work")).items()]
    parts += [path.read_text("utf-8") for path in (SETTINGS, ROOT / "scripts/llama-cpp.cmake")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(python: Path, lock: str, options: Sequence[str], folder: Path) -> None:
    """Compile the wheel into `folder`, which appears when it is whole."""
    work = BUILD / "llama"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = _source(python, lock, work)
    _fit_to_compiler(source)
    environ = (
        os.environ
        | {
            "SKBUILD_BUILD_DIR": str(work / "compiled"),
            "SKBUILD_CMAKE_DEFINE": ";".join(
                [*OPTIONS, *options, f"CMAKE_PROJECT_INCLUDE={SETTINGS.as_posix()}"]
            ),
            "SKBUILD_WHEEL_EXCLUDE": ";".join(UNWANTED),
            "GIT_DIR": str(work / "none"),  # else it takes this checkout's commit for llama.cpp's
        }
        | _reproducible(work)
    )
    made = work / "wheel"
    make = [str(python), "-I", "-m", "pip", "wheel", "--no-index", "--no-deps", "--verbose"]
    _run([*make, "--no-build-isolation", "-w", str(made), str(source)], work / "log", environ)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    made.rename(folder)
    shutil.rmtree(work)


def _source(python: Path, lock: str, work: Path) -> Path:
    """Return the unpacked source package, checked against its hash."""
    wanted = work / "wanted.lock"
    wanted.write_text(lock, encoding="utf-8")
    get = [str(python), "-I", "-m", "pip", "download", "--require-hashes", "--no-deps"]
    get += ["--no-binary=llama-cpp-python", "--no-build-isolation", "-r", str(wanted)]
    _run([*get, "-d", str(work / "source")], work / "log", dict(os.environ))
    archive = next((work / "source").glob("*.tar.gz"))
    with tarfile.open(archive) as packed:
        # Older Pythons have no filter; then the hash that was checked is enough.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(work)
    return work / archive.name.removesuffix(".tar.gz")


def _fit_to_compiler(source: Path) -> None:
    """Leave out the processors that the compiler here doesn't know."""
    for variant, flag in NEEDS_COMPILER.items():
        if _accepts(flag):
            continue
        print(f"The compiler has no {flag}: leaving out the variant {variant}.", file=sys.stderr)
        path = source / VARIANTS
        line = re.compile(rf"^ *ggml_add_cpu_backend_variant\({variant} .*\n", re.MULTILINE)
        text, found = line.subn("", path.read_text(encoding="utf-8"))
        if found != 1:
            raise BuildError(f"{VARIANTS} doesn't add the variant {variant} as it used to")
        path.write_text(text, encoding="utf-8")


def _accepts(flag: str) -> bool:
    """Say whether the compiler knows this flag."""
    if sys.platform == "win32":
        return True  # what Microsoft's can't is left out by ggml itself
    with tempfile.TemporaryDirectory() as folder:
        tried = [*_compiler("CXX"), flag, "-x", "c++", "-c", os.devnull, "-o", f"{folder}/tried.o"]
        return subprocess.run(tried, capture_output=True).returncode == 0


def _reproducible(work: Path) -> dict[str, str]:
    """Return the environment in which the same source gives the same bytes, wherever it is."""
    stable = {"SOURCE_DATE_EPOCH": "315532800", "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"}
    if sys.platform == "win32":
        return stable
    flags = shlex.join([f"-ffile-prefix-map={work}=.", *_tuning()])
    # Their own folder first: a variable LD_LIBRARY_PATH can't put other libraries in their place.
    link = "-Wl,--disable-new-dtags -Wl,-z,relro -Wl,-z,now" if sys.platform == "linux" else ""
    return stable | {"CFLAGS": flags, "CXXFLAGS": flags, "LDFLAGS": link}


def _tuning() -> list[str]:
    """Return the options with which an older GCC orders its code for processors of today.

    Which instructions it uses stays as it is. Debian 11's, 10, reads a tenth slower without.
    """
    known = _output([*_compiler("CC"), "-dM", "-E", "-x", "c", os.devnull])
    gcc = re.search(r"^#define __GNUC__ (\d+)", known, re.MULTILINE)
    new = gcc is None or int(gcc[1]) >= 11 or "__clang__" in known
    return [] if new or "__x86_64__" not in known else ["-mtune=icelake-server"]


def _compiler(variable: str) -> list[str]:
    default = {"CC": "cc", "CXX": "c++"}[variable]
    if sys.platform == "win32":
        return [sys.executable, "-I", "-m", "platform"]  # cl has no plain way to tell its version
    return shlex.split(os.environ.get(variable, default))


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def _run(command: list[str], log: Path, environ: dict[str, str]) -> None:
    """Run a step; what it says goes to the log, whose end is shown if it fails."""
    with log.open("ab") as out:
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
        raise BuildError("\n".join([*lines, f"llama.cpp could not be built; all of it: {log}"]))


if __name__ == "__main__":
    try:
        print(wheel(Path(sys.argv[1]), sys.argv[2:]))
    except (BuildError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
