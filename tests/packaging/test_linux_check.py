"""What packaging/linux/check.py finds in a folder of programs: what fails on other machines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parent.parent.parent / "packaging" / "linux" / "check.py"
SAYS = '#include <stdio.h>\nint says(void) { return puts("hello"); }\n'
ASKS = "int says(void);\nint asks(void) { return says(); }\n"

pytestmark = [
    pytest.mark.sampled(0.34),
    pytest.mark.skipif(sys.platform != "linux", reason="packaging/linux"),
]


def test_a_folder_whose_libraries_find_each_other_passes(tmp_path: Path) -> None:
    library(tmp_path, "says", SAYS)
    (tmp_path / "deeper").mkdir()
    library(tmp_path / "deeper", "asks", ASKS, f"-L{tmp_path}", "-lsays", "-Wl,-rpath,$ORIGIN/..")
    assert check(tmp_path).stdout.startswith("Needs glibc 2.")


def test_a_library_for_a_newer_glibc_is_named(tmp_path: Path) -> None:
    library(tmp_path, "says", SAYS)
    found = check(tmp_path, "2.2")
    assert found.returncode
    assert "libsays.so: needs GLIBC_2." in found.stderr


@pytest.mark.parametrize(
    "path",
    ["/usr/local/lib", "$ORIGIN:/opt/here", ".", "$ORIGINAL/lib", "$ORIGIN/../lib"],
)
def test_a_library_that_looks_in_a_fixed_folder_is_named(tmp_path: Path, path: str) -> None:
    library(tmp_path, "says", SAYS, f"-Wl,-rpath,{path}")
    assert f"looks for libraries in {path.split(':')[-1]}" in check(tmp_path).stderr


def test_an_executable_stack_is_named(tmp_path: Path) -> None:
    library(tmp_path, "says", SAYS, "-Wl,-z,execstack")
    assert "libsays.so: its stack is executable" in check(tmp_path).stderr


def test_what_is_not_in_the_folder_is_named(tmp_path: Path) -> None:
    says = library(tmp_path, "says", SAYS)
    library(tmp_path, "asks", ASKS, "-lsays")
    says.unlink()
    assert (
        "libasks.so: needs libsays.so, which it doesn't find in the folder"
        in check(tmp_path).stderr
    )


def test_a_program_that_does_not_know_the_folder_is_named(tmp_path: Path) -> None:
    """Its libraries are known to those that they load, but the program doesn't know them."""
    library(tmp_path, "says", SAYS)
    code = tmp_path / "main.c"
    code.write_text("int says(void); int main(void) { return says(); }\n")
    build = ["cc", "-o", str(tmp_path / "main"), str(code), f"-L{tmp_path}", "-lsays"]
    subprocess.run(build, check=True)
    assert "main: needs libsays.so, which it doesn't find in the folder" in check(tmp_path).stderr
    subprocess.run([*build, "-Wl,-rpath,$ORIGIN"], check=True)
    assert not check(tmp_path, "2.999").returncode  # a program begins as this machine's glibc wants


def test_what_the_folder_has_in_too_old_a_version_is_named(tmp_path: Path) -> None:
    script = tmp_path / "versions"
    script.write_text("NEW_2 { global: says; };\n")
    library(tmp_path, "says", SAYS, f"-Wl,--version-script={script}")
    library(tmp_path, "asks", ASKS, "-lsays")
    assert not check(tmp_path).returncode
    library(tmp_path, "says", SAYS)
    assert "libasks.so: needs NEW_2 of libsays.so" in check(tmp_path).stderr


def test_a_feature_that_only_a_newer_glibc_has_is_named(tmp_path: Path) -> None:
    """Packed relocations: glibc 2.36 marks them by a version that isn't a number."""
    library(
        tmp_path,
        "says",
        f"{SAYS}int (*table[99])(void) = {{says}};\n",
        "-Wl,-z,pack-relative-relocs",
    )
    read = subprocess.run(
        ["readelf", "-V", tmp_path / "libsays.so"], capture_output=True, text=True
    )
    if "GLIBC_ABI_DT_RELR" not in read.stdout:
        pytest.skip("this linker doesn't know them")
    assert "needs GLIBC_ABI_DT_RELR" in check(tmp_path).stderr


def test_an_empty_folder_is_not_a_success(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    assert check(tmp_path).returncode


def library(folder: Path, name: str, source: str, *options: str) -> Path:
    """Compile a library."""
    code = folder / f"{name}.c"
    code.write_text(source)
    made = folder / f"lib{name}.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(made), str(code), f"-L{folder}", *options]
    subprocess.run(command, check=True)
    return made


def check(folder: Path, *glibc: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(CHECK), str(folder), *glibc]
    return subprocess.run(command, capture_output=True, encoding="utf-8")
