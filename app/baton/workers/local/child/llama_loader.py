"""llama.cpp's C interface, without what the package loads around it, and its backends.

In the packaged binary llama.cpp's computing is compiled several times, once for each generation of
processors, as libraries of which one is loaded. llama.cpp would look for them in the working folder
too, and load what a variable names; here they come from their own folder and from nowhere else.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from baton.platform.build_info import build_info
from baton.platform.import_stubs import skip_package_init

CPP_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")
"""What belongs together, in the order in which they need each other."""

SYSTEM_FOLDERS = (
    f"/usr/lib/{platform.machine()}-linux-gnu",
    f"/lib/{platform.machine()}-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
)

_CPP_VERSION = re.compile(rb"GLIBCXX_3\.4\.(\d+)\0")


def prefer_newer_cpp() -> None:
    """Load the system's C++ library if it is newer. To be called before llama.cpp is loaded.

    A GPU's driver is loaded into the same process, where there can be only one C++ library, and
    drivers are made for the system's. The packaged binary brings one of 2020, with which newer
    drivers can't be loaded; what the binary itself is made of runs with any that is newer.
    """
    build = build_info()
    if sys.platform != "linux" or build is None or not build.gpu:
        return
    folder = newer_cpp_folder(Path(sys.executable).parent / "lib", map(Path, SYSTEM_FOLDERS))
    for name in CPP_LIBRARIES if folder else ():
        try:
            ctypes.CDLL(f"{folder}/{name}")
        except OSError:
            return  # then its own serves, as it does without any GPU


def newer_cpp_folder(own: Path, folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that has both libraries, if they are newer than one's own."""
    for folder in folders:
        if all((folder / name).exists() for name in CPP_LIBRARIES):
            return folder if _cpp_version(folder) > _cpp_version(own) else None
    return None


def _cpp_version(folder: Path) -> int:
    """Return the newest version that a folder's C++ library knows; without one, any other does."""
    try:
        versions = _CPP_VERSION.findall((folder / CPP_LIBRARIES[-1]).read_bytes())
    except OSError:
        return 1 << 30
    return max(map(int, versions), default=0)


skip_package_init("llama_cpp")
prefer_newer_cpp()  # before anything loads the one that this program brings
import llama_cpp.llama_cpp as c  # noqa: E402

__all__ = ["LlamaError", "c", "gpu_kinds", "library_folder", "load_backends", "suitable_variants"]

_AVX2 = frozenset({"sse4_2", "avx", "f16c", "fma", "avx2", "bmi2"})
_AVX512 = _AVX2 | {"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"}

_CPU_VARIANTS = {
    "sapphirerapids": _AVX512
    | {"avx512vbmi", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8"},
    "zen4": _AVX512 | {"avx512vbmi", "avx512_vnni", "avx512_bf16"},
    "cooperlake": _AVX512 | {"avx512_vnni", "avx512_bf16"},
    "icelake": _AVX512 | {"avx512vbmi", "avx512_vnni"},
    "cascadelake": _AVX512 | {"avx512_vnni"},
    "cannonlake": _AVX512 | {"avx512vbmi"},
    "skylakex": _AVX512,
    "alderlake": _AVX2 | {"avx_vnni"},
    "haswell": _AVX2,
    "piledriver": frozenset({"sse4_2", "avx", "f16c", "fma"}),
    "ivybridge": frozenset({"sse4_2", "avx", "f16c"}),
    "sandybridge": frozenset({"sse4_2", "avx"}),
    "sse42": frozenset({"sse4_2"}),
    "x64": frozenset[str](),
}
"""llama.cpp's variants for x86-64, the fastest first, with what each needs as Linux names it.

Linux leaves out what a processor has but the system doesn't save between threads; llama.cpp itself,
which asks the processor only, would take that variant and end with an illegal instruction.
"""

_CPUINFO = Path("/proc/cpuinfo")
_GPUS = ("cuda", "vulkan", "hip", "metal", "sycl")
_PREFIX = "ggml-" if sys.platform == "win32" else "libggml-"
_SUFFIX = ".dll" if sys.platform == "win32" else ".so"


_unusable: dict[str, str] = {}
"""Kinds of GPUs that this build is made for and that can't be used here, with why."""


class LlamaError(Exception):
    """llama.cpp refused; the text is a sentence's second half."""


def library_folder() -> Path:
    """Return where llama.cpp's libraries are."""
    return Path(c.__file__).parent / "lib"


@cache
def load_backends() -> str:
    """Load what llama.cpp computes with; return the processor it is made for.

    That is "" for a build that has it linked in, and for that very machine. To be called before
    llama.cpp does anything. Raises LlamaError when nothing here suits the processor.
    """
    plugins = library_folder().glob(f"{_PREFIX}*{_SUFFIX}")
    found = {path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX): path for path in plugins}
    made = [name.removeprefix("cpu-") for name in found if name.startswith("cpu-")]
    for gpu in () if c.llama_supports_gpu_offload() else _GPUS:
        if gpu in found:
            _load_gpu(gpu, found[gpu])
    if not made:
        return ""
    for processor in suitable_variants(made, _cpu_features()):
        if _load(found[f"cpu-{processor}"]):
            return processor
    raise LlamaError("none of its libraries is made for this processor")


def gpu_kinds() -> dict[str, str]:
    """Return the kinds of GPUs that this build is made for, each with why it can't be used."""
    load_backends()
    there = [gpu for gpu in _GPUS if (library_folder() / f"{_PREFIX}{gpu}{_SUFFIX}").exists()]
    return {gpu: _unusable.get(gpu, "") for gpu in there}


def suitable_variants(made: Iterable[str], abilities: Collection[str] | None) -> list[str]:
    """Return the processors among `made` whose code can run, the fastest first.

    `abilities` is what the system says that the processor can do, None where it doesn't say.
    """
    order = {name: place for place, name in enumerate(_CPU_VARIANTS)}
    # Those of other families count upwards (armv8.2_1, armv8.6_1).
    ordered = sorted(sorted(made, reverse=True), key=lambda name: order.get(name, 0))
    if abilities is None:
        return ordered
    return [name for name in ordered if _CPU_VARIANTS.get(name, frozenset()) <= set(abilities)]


def _cpu_features() -> list[str] | None:
    """Return what Linux says that an x86 processor can do and that may be used."""
    try:
        with _CPUINFO.open("rb", buffering=0) as file:  # long on machines with many cores
            flags = re.search(rb"^flags\s*:(.*)$", file.read(8192), re.MULTILINE)
    except OSError:
        return None
    return flags[1].decode().split() if flags else None


def _load_gpu(kind: str, path: Path) -> None:
    """Load what computes on GPUs of a kind. It isn't an error that their driver is missing."""
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        _unusable[kind] = str(error.__cause__ or error)  # PyInstaller's own words hide what it was
    else:
        if not _load(path):
            _unusable[kind] = "it found no GPU that it can use"


def _load(path: Path) -> bool:
    """Load one backend, unless it finds that the machine isn't one for it."""
    from llama_cpp._ggml import libggml as lib

    lib.ggml_backend_load.argtypes = [ctypes.c_char_p]
    lib.ggml_backend_load.restype = ctypes.c_void_p
    # It reads a path as the system's own programs do, which on Windows isn't UTF-8.
    name = str(path).encode("mbcs") if sys.platform == "win32" else os.fsencode(path)
    return bool(lib.ggml_backend_load(name))
