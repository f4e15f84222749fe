"""The packaged program's native code on processors of the last ten years, imitated by qemu-user.

None may ever meet an instruction that it doesn't know. The least that Baton asks for is x86-64-v2
(SSE4.2; Intel since 2008, AMD since 2011), because of numpy; llama.cpp alone would do with less.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.ipc import process
from baton.workers.local import probe_llama
from support.local_worker_calls import CAPITAL, ask, small
from support.openssl_config import library

pytestmark = [
    pytest.mark.binary,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="processors of this family"),
]

PROCESSORS = {
    "Nehalem": "sse42",  # the least: x86-64-v2
    "Denverton": "sse42",  # Goldmont, 2016: no AVX, as in small machines still sold years later
    "SandyBridge": "sandybridge",
    "IvyBridge": "ivybridge",
    "Opteron_G5": "piledriver",
    "Haswell": "haswell",  # what nearly every machine since 2015 can do
    "EPYC": "haswell",
}
"""What qemu can imitate, AVX-512 not among it, and the library that is to be chosen there."""


@pytest.fixture(scope="module")
def restarted(folder: Path) -> list[str]:
    """Return qemu's options for what the program sets before it starts itself once more.

    It does so at each start to find its libraries, and would leave qemu by that.
    """
    with subprocess.Popen([folder, "--child", "runner"], stdin=subprocess.PIPE) as started:
        environ = Path(f"/proc/{started.pid}/environ")
        while "_PYI_PARENT_PROCESS_LEVEL" not in (text := environ.read_text()):
            assert started.poll() is None
    wanted = ("_PYI_", "LD_LIBRARY_PATH=")
    set_ = [variable for variable in text.split("\0") if variable.startswith(wanted)]
    return [option for variable in set_ for option in ("-E", variable)]


@pytest.fixture
def on(
    monkeypatch: pytest.MonkeyPatch, folder: Path, restarted: list[str], qemu: str
) -> Callable[[str], None]:
    """Return what has the children of the packaged program run on a processor of that name."""

    def use(processor: str) -> None:
        imitated = [qemu, "-cpu", processor, *restarted, str(folder), "--child"]
        monkeypatch.setattr(process, "command", lambda name: [*imitated, name])

    return use


@pytest.mark.parametrize(("processor", "expected"), PROCESSORS.items())
async def test_the_library_for_that_processor_is_chosen(
    on: Callable[[str], None], processor: str, expected: str
) -> None:
    on(processor)
    assert (await probe_llama()).processor == expected


@pytest.mark.parametrize("processor", ["Nehalem", "SandyBridge", "Haswell"])
async def test_the_starter_answers_paris_there(on: Callable[[str], None], processor: str) -> None:
    on(processor)
    worker = small()
    try:
        assert "Paris" in (await ask(worker, CAPITAL)).text
    finally:
        await worker.aclose()


@pytest.mark.parametrize("below", ["Conroe", "qemu64"])
async def test_llama_cpp_runs_even_below_that(on: Callable[[str], None], below: str) -> None:
    on(below)
    assert (await probe_llama()).processor == "x64"


async def test_this_machines_own_is_used_and_no_variable_brings_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiler: str
) -> None:
    canary, planted = tmp_path / "canary", tmp_path / "libggml-trap.so"
    library(planted, canary)
    monkeypatch.setattr(process, "command", lambda name: [str(folder), "--child", name])
    found = await probe_llama({**os.environ, "GGML_BACKEND_PATH": str(planted)})
    assert found.processor
    assert not canary.exists()
    ctypes.CDLL(str(planted))
    assert canary.exists(), "it would have been seen"
