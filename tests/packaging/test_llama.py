"""How the portable llama.cpp is built: what a compiler can't make is left out, and nothing else."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
sys.path.append(str(PACKAGING))
import llama  # noqa: E402

from baton.workers.local.child import llama_loader  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="compilers as shell scripts")

LINES = """\
    if (GGML_SYSTEM_ARCH STREQUAL "x86")
        ggml_add_cpu_backend_variant(x64)
        ggml_add_cpu_backend_variant(haswell            SSE42 AVX F16C FMA AVX2 BMI2)
        ggml_add_cpu_backend_variant(alderlake          SSE42 AVX F16C FMA AVX2 BMI2 AVX_VNNI)
        if (NOT MSVC)
            ggml_add_cpu_backend_variant(sapphirerapids SSE42 AVX AVX512 AMX_TILE AMX_INT8)
        endif()
    endif()
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source package, as far as is looked at here."""
    variants = tmp_path / llama.VARIANTS
    variants.parent.mkdir(parents=True)
    variants.write_text(LINES)
    return tmp_path


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's compiler, which however doesn't know -mamx-int8."""
    script = tmp_path / "compiler"
    script.write_text('#!/bin/sh\ncase " $* " in *-mamx-int8*) exit 1 ;; esac\nexec c++ "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return script


def test_only_processors_that_the_compiler_does_not_know_are_left_out(
    source: Path, compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        llama, "NEEDS_COMPILER", {"alderlake": "-O1", "sapphirerapids": "-mamx-int8"}
    )
    llama._fit_to_compiler(source)
    left = (source / llama.VARIANTS).read_text()
    assert left == "".join(
        line for line in LINES.splitlines(keepends=True) if "sapphirerapids" not in line
    )


def test_a_source_that_looks_otherwise_is_not_a_reason_to_continue(
    source: Path, compiler: Path
) -> None:
    (source / llama.VARIANTS).write_text(LINES.replace("(sapphirerapids", "(granite"))
    with pytest.raises(llama.BuildError, match="sapphirerapids"):
        llama._fit_to_compiler(source)


def test_a_wheel_is_found_again_until_something_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(*options: str) -> str:
        return llama._key(Path(sys.executable), llama.locked(), options)

    plain = key()
    assert key() == plain
    assert key("GGML_VULKAN=ON") != plain
    monkeypatch.setattr(llama, "locked", lambda: "llama-cpp-python==0.0.1")
    assert key() != plain


def test_what_fails_is_reported_with_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(llama.BuildError, match=f"no such thing(.|\\n)*{log}"):
        llama._run(["sh", "-c", "echo no such thing; exit 1"], log, dict(os.environ))


def test_no_folder_of_the_build_is_in_what_is_compiled(tmp_path: Path) -> None:
    work = tmp_path / "a checkout"
    work.mkdir()
    code, library = work / "code.c", tmp_path / "code.so"
    code.write_text("const char *file(void) { return __FILE__; }")
    made = llama._reproducible(work)
    flags = f"{made['CFLAGS']} {made['LDFLAGS']} {shlex.join([str(code), '-o', str(library)])}"
    subprocess.run(f"cc -shared -fPIC {flags}", shell=True, check=True)
    assert b"./code.c" in library.read_bytes()
    assert b"a checkout" not in library.read_bytes()


def test_every_processor_that_may_be_left_out_is_one_that_is_chosen() -> None:
    assert set(llama.NEEDS_COMPILER) <= set(llama_loader._CPU_VARIANTS)
