"""Builds what lets llama.cpp compute on a GPU: `gpu.py PYTHON vulkan|cuda`.

That is one library more beside those that llama.py makes, from the same sources with the same
compiler: llama.cpp loads it where the GPU's driver is, and does without where not. Prints a folder
under build/plugins whose files belong into llama_cpp/lib, at once when they were built before.

Vulkan needs glslc, Vulkan's and SPIR-V's headers; those in build/shaders (packaging/linux/shaders)
come before the machine's own. CUDA needs nothing but a C++ compiler: NVIDIA's comes from cuda.lock.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import llama

KINDS = ("vulkan", "cuda")
SHADERS = llama.BUILD / "shaders"
CUDA_LOCK = llama.ROOT / "packaging" / "cuda.lock"

OPTIONS = (
    "CMAKE_BUILD_TYPE=Release",
    "BUILD_SHARED_LIBS=ON",
    "GGML_NATIVE=OFF",
    "GGML_BACKEND_DL=ON",
    "GGML_CPU=OFF",  # llama.py builds these
    "GGML_CCACHE=OFF",
    "LLAVA_BUILD=OFF",
    f"CMAKE_PROJECT_INCLUDE={llama.SETTINGS.as_posix()}",
)

CUDA_ARCHITECTURES = ("75-real", "80-real", "86-real", "89-real", "90", "120a-real", "121a-real")
"""Turing to Blackwell, as people have them at home. What comes later, and the data centre's 100,
compiles the general form of 90 for itself at the first start.
"""

CUDA_LIBRARIES = ("cudart", "cublas", "cublasLt")
"""What the plugin needs beside the driver. NVIDIA allows passing these on with a program."""

CUDA_LICENCE = "CUDA-LICENCE.txt"

DRIVER = """\
cuDeviceGet cuDeviceGetAttribute cuGetErrorString cuMemAddressFree cuMemAddressReserve cuMemCreate
cuMemGetAllocationGranularity cuMemMap cuMemRelease cuMemSetAccess cuMemUnmap"""
"""What it calls of the driver, which only machines with such a GPU have: something to link with."""


def plugin(python: Path, kind: str) -> Path:
    """Return the folder that holds the plugin and what it needs. Raises llama.BuildError.

    `python` is an environment with the build tools of requirements.lock.
    """
    lock = llama.locked()
    folder = llama.BUILD / "plugins" / f"{kind}-{_key(python, kind, lock)}"
    if not folder.is_dir():
        _build(python, kind, lock, folder)
    return folder


def _key(python: Path, kind: str, lock: str) -> str:
    """Return a name for all that the plugin depends on."""
    parts = [llama._key(python, lock, [kind]), Path(__file__).read_text("utf-8")]
    if kind == "cuda":
        parts += [CUDA_LOCK.read_text("utf-8"), *_architectures(), str(_own_toolkit() or "")]
    else:
        parts.append(_glslc_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(python: Path, kind: str, lock: str, folder: Path) -> None:
    """Compile the plugin into `folder`, which appears when it is whole."""
    work = llama.BUILD / f"plugin-{kind}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = llama._source(python, lock, work)
    options = _cuda(python, work) if kind == "cuda" else _vulkan(work)
    ninja = python.absolute().with_name("ninja.exe" if sys.platform == "win32" else "ninja")
    environ = os.environ | {"GIT_DIR": str(work / "none")} | llama._reproducible(work)
    # For the generator of shaders, a project of its own, which doesn't know where ninja is.
    environ["PATH"] = f"{ninja.parent}{os.pathsep}{os.environ['PATH']}"
    log, compiled = work / "log", work / "compiled"
    cmake = [str(python), "-I", "-m", "cmake"]
    configure = [*cmake, "-S", str(source), "-B", str(compiled), "-G", "Ninja"]
    configure += [f"-D{option}" for option in (*OPTIONS, *options, f"CMAKE_MAKE_PROGRAM={ninja}")]
    llama._run(configure, log, environ)
    llama._run([*cmake, "--build", str(compiled), "--target", f"ggml-{kind}"], log, environ)
    made = work / "made"
    made.mkdir()
    shutil.copyfile(library := _library(compiled, f"ggml-{kind}"), made / library.name)
    if kind == "cuda":
        _add_cuda(_own_toolkit() or work / "cuda", made)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made.rename(folder)
    shutil.rmtree(work)


def _library(compiled: Path, name: str) -> Path:
    pattern = f"{name}.dll" if sys.platform == "win32" else f"lib{name}.so"
    if found := sorted(compiled.rglob(pattern)):
        return found[0]
    raise llama.BuildError(f"Compiling made no {pattern}")


# Vulkan


def _vulkan(work: Path) -> list[str]:
    """Return the options that find the shaders' compiler and the headers."""
    options = ["GGML_VULKAN=ON"]
    if not SHADERS.is_dir():
        return options
    libraries = next((SHADERS / "usr" / "lib").glob("*-linux-gnu"))
    loader = next((SHADERS / "usr").glob("lib*/ld-linux-*"))
    # Its own system's loader and libraries: this one may be too old for it.
    glslc = work / "glslc"
    glslc.write_text(
        f'#!/bin/sh\nexec "{loader}" --library-path "{libraries}" "{SHADERS}/usr/bin/glslc" "$@"\n'
    )
    glslc.chmod(0o755)
    return [
        *options,
        f"Vulkan_GLSLC_EXECUTABLE={glslc}",
        f"Vulkan_INCLUDE_DIR={SHADERS / 'usr' / 'include'}",
        f"Vulkan_LIBRARY={libraries / 'libvulkan.so'}",
        f"SPIRV-Headers_DIR={SHADERS / 'usr' / 'share' / 'cmake' / 'SPIRV-Headers'}",
    ]


def _glslc_version() -> str:
    """Return what tells one compiler of shaders from another."""
    if SHADERS.is_dir():
        return (SHADERS / "var/lib/dpkg/status").read_text("utf-8")
    glslc = shutil.which("glslc")
    if glslc is None:
        raise llama.BuildError(
            "The Vulkan plugin needs glslc and the headers of Vulkan and SPIR-V: run"
            " `packaging/linux/shaders build/shaders` as root, or install them (Debian, Ubuntu: apt"
            " install glslc libvulkan-dev spirv-headers; Windows: the Vulkan SDK)."
        )
    return subprocess.run([glslc, "--version"], check=True, capture_output=True, text=True).stdout


# CUDA


def _cuda(python: Path, work: Path) -> list[str]:
    """Unpack NVIDIA's compiler and libraries; return the options that find them."""
    if own := _own_toolkit():
        return [*_cuda_options(own), f"CMAKE_CUDA_COMPILER={own.as_posix()}/bin/nvcc"]
    get = [str(python), "-I", "-m", "pip", "install", "--no-deps", "--only-binary=:all:"]
    get += ["--require-hashes", "--target", str(work / "cuda"), "-r", str(CUDA_LOCK)]
    llama._run(get, work / "log", dict(os.environ))
    toolkit = work / "cuda" / "nvidia" / "cu13"
    options = _cuda_options(toolkit)
    if sys.platform == "win32":
        # Nothing to link the driver with is in these packages.
        compiler = next(toolkit.rglob("nvcc.exe")).as_posix()
        return [*options, "GGML_CUDA_NO_VMM=ON", f"CMAKE_CUDA_COMPILER={compiler}"]
    (toolkit / "lib64").symlink_to("lib")
    for name in CUDA_LIBRARIES:
        found = next((toolkit / "lib").glob(f"lib{name}.so.*"))
        (toolkit / "lib" / f"lib{name}.so").symlink_to(found.name)
    _imitate_driver(toolkit / "lib" / "stubs", work)
    return [*options, f"CMAKE_CUDA_COMPILER={toolkit}/bin/nvcc"]


def _cuda_options(toolkit: Path) -> list[str]:
    return [
        "GGML_CUDA=ON",
        "GGML_CUDA_NCCL=OFF",
        f"CMAKE_CUDA_ARCHITECTURES={';'.join(_architectures())}",
        f"CUDAToolkit_ROOT={toolkit.as_posix()}",
    ]


def _own_toolkit() -> Path | None:
    """Return the machine's own CUDA, for a plugin that isn't passed on: BATON_CUDA_TOOLKIT."""
    own = os.environ.get("BATON_CUDA_TOOLKIT")
    return Path(own) if own else None


def _architectures() -> list[str]:
    """Return what to compile for; BATON_CUDA_ARCHITECTURES, of one or two, is for trying it out."""
    return os.environ.get("BATON_CUDA_ARCHITECTURES", "").split() or list(CUDA_ARCHITECTURES)


def _imitate_driver(folder: Path, work: Path) -> None:
    """Make a library that is called like the driver's and has the functions that are used."""
    folder.mkdir()
    source = work / "driver.c"
    source.write_text("".join(f"void {name}(void) {{}}\n" for name in DRIVER.split()))
    make = [*llama._compiler("CC"), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source)]
    llama._run([*make, "-o", str(folder / "libcuda.so")], work / "log", dict(os.environ))


def _add_cuda(cuda: Path, made: Path) -> None:
    """Put NVIDIA's libraries and their licence beside the plugin."""
    wanted = re.compile(rf"(lib)?({'|'.join(CUDA_LIBRARIES)})(\.so\.\d+|64_\d+\.dll)")
    for path in sorted(cuda.rglob("*")):
        if wanted.fullmatch(path.name):
            shutil.copyfile(path, made / path.name)
    if not _own_toolkit():
        licence = next(cuda.glob("nvidia_cublas-*.dist-info/licenses/License.txt"))
        shutil.copyfile(licence, made / CUDA_LICENCE)


if __name__ == "__main__":
    try:
        print(plugin(Path(sys.argv[1]), sys.argv[2]))
    except (llama.BuildError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
