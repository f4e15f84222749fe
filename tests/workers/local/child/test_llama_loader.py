"""Which of llama.cpp's libraries is loaded: one that this processor and this system can run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from baton.workers.local.child.llama_loader import (
    CPP_LIBRARIES,
    SYSTEM_FOLDERS,
    library_folder,
    load_backends,
    newer_cpp_folder,
    prefer_newer_cpp,
    suitable_variants,
)

MADE = [  # as a compiler that knows them all makes them, in no order
    *("x64", "sse42", "sandybridge", "ivybridge", "piledriver", "haswell", "skylakex"),
    *("cannonlake", "cascadelake", "icelake", "cooperlake", "zen4", "alderlake", "sapphirerapids"),
]
WESTMERE = "fpu sse sse2 pni ssse3 cx16 sse4_1 sse4_2 popcnt aes lahf_lm"
SANDY = f"{WESTMERE} xsave avx"
IVY = f"{SANDY} f16c rdrand"
HASWELL = f"{IVY} fma movbe bmi1 avx2 bmi2"
SKYLAKE_SERVER = f"{HASWELL} adx avx512f avx512dq avx512cd avx512bw avx512vl"
ICELAKE = f"{SKYLAKE_SERVER} avx512ifma avx512vbmi avx512_vnni"
ZEN4 = f"{ICELAKE} avx512_bf16"
SAPPHIRE_RAPIDS = f"{ZEN4} avx_vnni amx_bf16 amx_tile amx_int8"


@pytest.mark.parametrize(
    ("abilities", "best"),
    [
        ("fpu sse sse2 pni cx16 lahf_lm", "x64"),
        (WESTMERE, "sse42"),
        (SANDY, "sandybridge"),
        (IVY, "ivybridge"),
        (f"{IVY} fma fma4 xop", "piledriver"),
        (HASWELL, "haswell"),
        (f"{HASWELL} avx_vnni", "alderlake"),
        (SKYLAKE_SERVER, "skylakex"),
        (ICELAKE, "icelake"),
        (ZEN4, "zen4"),
        (f"{ZEN4} avx_vnni", "zen4"),  # Zen 5
        (SAPPHIRE_RAPIDS, "sapphirerapids"),
        # A processor with AVX2 whose system keeps no AVX registers, as with the option noxsave.
        (f"{WESTMERE} movbe bmi1 bmi2", "sse42"),
        # A virtual machine that hides a part of AVX-512.
        (SKYLAKE_SERVER.replace(" avx512bw", ""), "haswell"),
    ],
)
def test_the_fastest_that_runs_comes_first(abilities: str, best: str) -> None:
    assert suitable_variants(MADE, abilities.split())[0] == best


def test_the_ones_after_it_run_too_and_x64_is_always_the_last() -> None:
    order = suitable_variants(MADE, ZEN4.split())
    assert order[:3] == ["zen4", "cooperlake", "icelake"]
    assert order[-1] == "x64"
    assert not {"alderlake", "sapphirerapids"} & set(order)


def test_a_compiler_that_knew_fewer_leaves_the_next_best() -> None:
    made = sorted(set(MADE) - {"alderlake", "sapphirerapids"})
    assert suitable_variants(made, SAPPHIRE_RAPIDS.split())[0] == "zen4"
    assert suitable_variants(made, f"{HASWELL} avx_vnni".split())[0] == "haswell"


def test_where_the_system_says_nothing_all_are_tried_from_the_best_down() -> None:
    arm = ["armv8.0_1", "armv8.2_2", "armv9.2_1", "armv8.2_1", "armv8.6_1"]
    assert suitable_variants(arm, None)[0] == "armv9.2_1"
    assert suitable_variants(arm, None)[-1] == "armv8.0_1"
    assert suitable_variants(MADE, None)[0] == "sapphirerapids"
    assert suitable_variants(MADE, None)[-1] == "x64"


def test_the_checkouts_build_has_its_computing_linked_in() -> None:
    assert library_folder().is_dir()
    assert not list(library_folder().glob("*ggml-cpu-*"))
    assert load_backends() == ""


# Which C++ library a build for GPUs takes


def libraries(place: Path, newest: int, *, only: tuple[str, ...] = CPP_LIBRARIES) -> Path:
    place.mkdir()
    versions = [f"GLIBCXX_3.4.{number}" for number in range(newest + 1)]
    for name in only:
        (place / name).write_bytes(b"\x7fELF\0" + "\0".join(versions).encode() + b"\0GLIBC_2.34\0")
    return place


@pytest.mark.parametrize(("system", "taken"), [(30, True), (28, False), (9, False)])
def test_the_newer_one_is_taken(tmp_path: Path, system: int, taken: bool) -> None:
    own = libraries(tmp_path / "own", 28)
    theirs = libraries(tmp_path / "theirs", system)
    assert newer_cpp_folder(own, [tmp_path / "none", theirs]) == (theirs if taken else None)


def test_only_a_pair_is_taken_and_nothing_where_a_build_brings_none(tmp_path: Path) -> None:
    own = libraries(tmp_path / "own", 28)
    half = libraries(tmp_path / "half", 33, only=CPP_LIBRARIES[1:])
    assert newer_cpp_folder(own, [half]) is None
    assert newer_cpp_folder(tmp_path / "empty", [libraries(tmp_path / "theirs", 33)]) is None
    assert newer_cpp_folder(own, []) is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at this Linux")
def test_this_system_s_own_is_read(tmp_path: Path) -> None:
    old = libraries(tmp_path / "old", 3)
    folders = [Path(name) for name in SYSTEM_FOLDERS if (Path(name) / CPP_LIBRARIES[1]).exists()]
    if not folders:
        pytest.skip("no C++ library here")
    assert newer_cpp_folder(old, folders) == folders[0]
    assert newer_cpp_folder(libraries(tmp_path / "future", 99), folders) is None


def test_a_checkout_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", None)
    prefer_newer_cpp()
