"""A working folder full of traps, and Python's variables that point there: nothing is loaded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.test_offline import NO_NETWORK, STRACE, missing, read

pytestmark = pytest.mark.binary

QUESTION = "What is the capital of France?"

MODULES = [
    *("json", "os", "site", "sitecustomize", "usercustomize", "encodings/__init__", "runpy"),
    *("baton/__init__", "baton/cli", "baton/children/runner", "baton", "click", "textual"),
    *("llama_cpp/__init__", "numpy", "onnxruntime", "tokenizers", "litellm", "keyring", "ctypes"),
    *("lib/python3.11/site", "lib/python3.11/os", "lib/python3.11/encodings/__init__"),
    *("site-packages/usercustomize", "__main__", "entry", "pyimod01_archive"),
]

LIBRARIES = [
    *("libllama.so", "libggml.so", "libggml-base.so", "libggml-cpu.so", "libggml-cuda.so"),
    *("libggml-vulkan.so", "libggml-rpc.so", "libggml-blas.so", "libmtmd.so"),
    *(f"libggml-cpu-{name}.so" for name in ("x64", "sse42", "haswell", "skylakex", "zen4")),
    *("libonnxruntime.so", "libpython3.11.so.1.0", "libssl.so.3", "libcrypto.so.3", "libz.so.1"),
    *("json.so", "_ssl.so", "_ctypes.abi3.so", "libc.so.6", "libstdc++.so.6"),
]

DOTENV = """
OPENAI_API_KEY=sk-canary-planted
OPENAI_API_BASE=http://192.0.2.1/
HTTPS_PROXY=http://192.0.2.1:3128
BATON_HOME=planted-home
BATON_WORKERS__0__ID=planted
LLAMA_CPP_LIB_PATH=.
GGML_BACKEND_PATH=./libggml-cuda.so
PYTHONPATH=.
"""

LIBRARY = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) {
    FILE *file = fopen("%s", "a");
    if (file) { fputs("%s\\n", file); fclose(file); }
}
"""


_OPENED = re.compile(r'open(?:at)?\((?:\w+<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
"""A name, and the folder that it is relative to, as `strace -y` writes them."""


@dataclass
class Trap:
    """The folder, and the file in which whatever is loaded from it leaves its name."""

    folder: Path
    canary: Path

    @property
    def environ(self) -> dict[str, str]:
        here = str(self.folder)
        return {
            **os.environ,
            # Python looks for some libraries with a linker, where there is one; it searches here.
            "PATH": os.fspath(self.canary.with_name("no programs")),
            "PYTHONPATH": here,
            "PYTHONHOME": here,
            "PYTHONUSERBASE": here,
            "PYTHONSTARTUP": f"{here}/json.py",
            "PYTHONINSPECT": "1",
            "PYTHONBREAKPOINT": "json.loads",
            "PYTHONPLATLIBDIR": here,
            "PYTHONWARNINGS": "error::json.Planted",
        }

    def touched(self, trace: Path) -> list[str]:
        """Return what was opened there, or looked for."""
        opened = _OPENED.findall(trace.read_text(errors="replace"))
        paths = {
            Path(os.path.normpath(Path(where or self.folder) / name)) for where, name in opened
        }
        return sorted(str(path) for path in paths if path.is_relative_to(self.folder))


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    folder, canary = tmp_path / "working folder", tmp_path / "canary"
    for name in MODULES:
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(canary)!r}, 'a').write({name + chr(10)!r})\n")
    compiler = shutil.which("cc")
    assert compiler, "needs a compiler, for libraries that tell that they were loaded"
    first = folder / LIBRARIES[0]
    source = LIBRARY % (canary, "a library")
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-o", str(first), "-"]
    subprocess.run(command, input=source.encode(), check=True)
    for name in LIBRARIES[1:]:
        shutil.copy(first, folder / name)
    (folder / ".env").write_text(DOTENV)
    (folder / "config.toml").write_text('theme = "planted"\n')
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\n")
    (folder / "base_library.zip").write_bytes(b"PK")
    return Trap(folder, canary)


@pytest.mark.parametrize(
    ("args", "caught"),
    [
        (["-c", "import click"], "click"),
        (["-I", "-c", "import ctypes; ctypes.CDLL('./libllama.so')"], "a library"),
    ],
)
def test_the_traps_would_be_seen(trap: Trap, args: list[str], caught: str) -> None:
    """A Python that is not so careful falls into them."""
    trace = trap.canary.with_name("trace")
    command = [*STRACE, "-y", "-o", str(trace), sys.executable, *args]
    subprocess.run(command, cwd=trap.folder, check=True)
    assert trap.canary.read_text() == f"{caught}\n"
    assert trap.touched(trace) != []


@pytest.mark.parametrize("kind", ["single", "folder"])
@pytest.mark.parametrize(
    "args",
    [
        ["--version"],
        ["ask", "--temperature", "0", QUESTION],
        ["doctor", "--self-test"],
        ["workers", "ls"],
    ],
    ids=lambda args: args[0].strip("-"),
)
def test_nothing_of_it_is_loaded(
    request: pytest.FixtureRequest, trap: Trap, tmp_path: Path, kind: str, args: list[str]
) -> None:
    assert missing() == ""
    program: Path = request.getfixturevalue(kind)
    trace = tmp_path / "trace"
    unshare, strace = (shutil.which(tool[0]) or "" for tool in (NO_NETWORK, STRACE))
    done = subprocess.run(
        [
            unshare,
            *NO_NETWORK[1:],
            strace,
            *STRACE[1:],
            "-y",
            "-o",
            str(trace),
            str(program),
            *args,
        ],
        cwd=trap.folder,
        env=trap.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "planted" not in done.stdout + done.stderr
    assert not trap.canary.exists(), trap.canary.read_text()
    assert trap.touched(trace) == []
    assert not (trap.folder / "planted-home").exists()


@pytest.mark.parametrize("kind", ["single", "folder"])
@pytest.mark.parametrize(
    "args",
    [["--version"], ["ask", "--temperature", "0", QUESTION], ["workers", "ls"], ["history", "ls"]],
    ids=lambda args: args[0].strip("-"),
)
def test_no_socket_is_made_that_could_leave_this_machine(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, args: list[str]
) -> None:
    """With a network: it is there, and nothing wants it."""
    assert missing() == ""
    program: Path = request.getfixturevalue(kind)
    trace = tmp_path / "trace"
    command = [*STRACE, "-o", str(trace), str(program), *args]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen = read(trace)
    assert seen.nothing, seen
