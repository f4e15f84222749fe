"""A build for GPUs on a machine without their driver: the plugin stays out, and it's known why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from baton.workers.local.child import llama_loader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the libraries are Linux's")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(llama_loader, "library_folder", lambda: tmp_path)
    monkeypatch.setattr(llama_loader, "_unusable", {})
    return tmp_path


def library(file: Path, code: str = "int nothing;", *options: str) -> Path:
    source = file.with_suffix(".c")
    source.write_text(code)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source, *options], check=True)
    return file


def test_a_missing_driver_is_named(plugins: Path) -> None:
    driver = library(
        plugins / "libnodriver.so.1", "void work(void) {}", "-Wl,-soname,libnodriver.so.1"
    )
    needs = "void work(void); void use(void) { work(); }"
    plugin = library(plugins / "libggml-vulkan.so", needs, str(driver))
    driver.unlink()
    llama_loader._load_gpu("vulkan", plugin)
    why = llama_loader.gpu_kinds()["vulkan"]
    assert "libnodriver.so.1" in why


def test_a_packaged_binary_names_it_too(monkeypatch: pytest.MonkeyPatch, plugins: Path) -> None:
    def as_pyinstaller_does(name: str) -> None:
        missing = OSError("libvulkan.so.1: cannot open shared object file")
        raise OSError(f"Failed to load dynlib/dll {name!r}.") from missing

    monkeypatch.setattr("ctypes.CDLL", as_pyinstaller_does)
    plugin = library(plugins / "libggml-vulkan.so")
    llama_loader._load_gpu("vulkan", plugin)
    assert llama_loader.gpu_kinds()["vulkan"].startswith("libvulkan.so.1")


def test_what_is_not_a_plugin_of_llama_cpp_s_is_not_a_gpu(plugins: Path) -> None:
    llama_loader._load_gpu("cuda", library(plugins / "libggml-cuda.so"))
    assert llama_loader.gpu_kinds() == {"cuda": "it found no GPU that it can use"}


def test_a_broken_file_is_not_a_crash(plugins: Path) -> None:
    (plugins / "libggml-cuda.so").write_bytes(b"\x7fELF broken")
    llama_loader._load_gpu("cuda", plugins / "libggml-cuda.so")
    assert "file too short" in llama_loader.gpu_kinds()["cuda"]


def test_a_build_for_the_processor_has_no_kinds(plugins: Path) -> None:
    assert llama_loader.gpu_kinds() == {}


def test_a_checkout_s_own_llama_cpp_takes_a_plugin_too(plugins: Path) -> None:
    library(plugins / "libggml-cuda.so")
    assert llama_loader.load_backends.__wrapped__() == ""
    assert llama_loader._unusable == {"cuda": "it found no GPU that it can use"}
