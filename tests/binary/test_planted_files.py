"""A folder full of traps, where Baton is started, and variables that point there: it takes none.

Programs are among the traps: PATH leads there, where libraries look for what they start.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from binary.tmux import Tmux
from e2e.test_offline import STRACE, read_trace
from support.openssl_config import PlantedLibrary

pytestmark = pytest.mark.binary

QUESTION = "What is the capital of France?"

MODULES = [
    *("json", "os", "site", "sitecustomize", "usercustomize", "encodings/__init__", "runpy"),
    *("baton/__init__", "baton/cli", "baton", "click", "textual"),
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

PROGRAMS = (
    *("cc", "gcc", "ld", "ldconfig", "objdump", "uname", "lsb_release", "python3", "python", "sh"),
    *("env", "git", "which", "file", "rocm-smi", "security", "kwallet-query"),
)
"""What libraries look for in PATH. (NVIDIA's own program is asked on purpose about its cards.)"""

SEARCHED = ("nomic.ai/GPT4All", "Jan/data/llamacpp/models", "Jan/data/models")
"""Where programs keep models under XDG_DATA_HOME; the app looks there on purpose, if in time."""

_OPENED = re.compile(r'open(?:at)?\((?:\w+<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
"""A name, and the folder that it is relative to, as `strace -y` writes them."""


_STARTED = re.compile(r'execve\("((?:[^"\\]|\\.)*)".*\) = 0$', re.MULTILINE)

WATCHED = [*STRACE[:-1], f"{STRACE[-1]},execve", "-y"]


@dataclass
class Trap:
    """The folder, and the file in which all that is loaded from it leaves its name."""

    folder: Path
    canary: Path
    trace: Path

    def watched(self, *command: str) -> list[str]:
        """Return what runs a program among the traps and writes down what it opens and starts."""
        here = str(self.folder)
        environ = {
            **PlantedLibrary(self.folder, self.canary).environ,
            "PATH": f"{here}/programs",
            "PYTHONPATH": here,
            "PYTHONHOME": here,
            "PYTHONUSERBASE": here,
            "PYTHONSTARTUP": f"{here}/json.py",
            "PYTHONINSPECT": "1",
            "PYTHONBREAKPOINT": "json.loads",
            "PYTHONPLATLIBDIR": here,
            "PYTHONWARNINGS": "error::json.Planted",
            "XDG_CONFIG_HOME": here,
            "XDG_DATA_HOME": here,
        }
        options = [*UNSET, *(f"{name}={value}" for name, value in environ.items())]
        given = [part for option in options for part in ("-E", option)]
        return [*WATCHED, "-o", str(self.trace), *given, *command]

    @property
    def touched(self) -> list[str]:
        """Return what was opened in the folder, or looked for, but for others' models."""
        opened = _OPENED.findall(self.trace.read_text(errors="replace"))
        paths = {
            Path(os.path.normpath(Path(where or self.folder) / name)) for where, name in opened
        }
        paths -= {self.folder / place for place in SEARCHED}
        return sorted(str(path) for path in paths if path.is_relative_to(self.folder))

    @property
    def started(self) -> set[str]:
        """Return the names of the programs that were started."""
        text = self.trace.read_text(errors="replace")
        return {Path(name).name for name in _STARTED.findall(text)}

    def expect_nothing(self) -> None:
        """See that none of it was loaded, opened or started."""
        assert not self.canary.exists(), self.canary.read_text()
        assert self.touched == []
        assert self.started <= OWN
        assert self.started, "it was watched"
        assert not (self.folder / "planted-home").exists()


UNSET = ("PYTHON_KEYRING_BACKEND", "DBUS_SESSION_BUS_ADDRESS")
"""Without them the system's keyring is looked for, and isn't there."""

OWN = {"baton", "exe"}
"""The program itself, which starts itself once more by /proc/self/exe."""


@pytest.fixture
def trap(tmp_path: Path, compiler: str, strace: str) -> Trap:
    folder = tmp_path / "working folder"
    canary = PlantedLibrary.of(folder).canary
    for name in MODULES:
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(canary)!r}, 'a').write({name + chr(10)!r})\n")
    for name in LIBRARIES:
        shutil.copy(folder / "planted.so", folder / name)
    (folder / "programs").mkdir()
    for name in PROGRAMS:
        file = folder / "programs" / name
        file.write_text(f"#!/bin/sh\necho {name} >>'{canary}'\n")
        file.chmod(0o755)
    (folder / "python_keyring").mkdir()
    keyringrc = f"[backend]\ndefault-keyring=click.Planted\nkeyring-path={folder}\n"
    (folder / "python_keyring" / "keyringrc.cfg").write_text(keyringrc)
    (folder / ".env").write_text(DOTENV)
    (folder / "config.toml").write_text('theme = "planted"\n')
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\n")
    (folder / "base_library.zip").write_bytes(b"PK")
    return Trap(folder, canary, tmp_path / "trace")


CARELESS = {
    "import ctypes; ctypes.CDLL('./libllama.so')": "a library",
    "import ssl; ssl.create_default_context()": "a library",
    "import keyring; keyring.get_keyring()": "click",
    "import ctypes.util; ctypes.util.find_library('Security')": "gcc",
    "import platform; platform.platform()": "uname",
}
"""What a Python is caught with, and by what."""


@pytest.mark.parametrize(("code", "caught"), CARELESS.items())
def test_the_traps_would_be_seen(trap: Trap, code: str, caught: str) -> None:
    subprocess.run(trap.watched(sys.executable, "-I", "-c", code), cwd=trap.folder)
    assert caught in trap.canary.read_text().splitlines()
    assert trap.touched
    assert caught not in PROGRAMS or caught in trap.started


def test_a_module_in_the_working_folder_would_be_seen(trap: Trap) -> None:
    subprocess.run([sys.executable, "-c", "import click"], cwd=trap.folder, check=True)
    assert trap.canary.read_text() == "click\n"


@pytest.mark.parametrize("kind", ["single", "folder"])
@pytest.mark.parametrize(
    "args",
    [
        ["--version"],
        ["ask", "--temperature", "0", QUESTION],
        ["doctor"],
        ["doctor", "--self-test"],
        ["keys", "ls"],
        ["models", "recommend"],
        ["workers", "ls"],
    ],
    ids=" ".join,
)
def test_none_of_it_is_loaded(
    request: pytest.FixtureRequest, isolated: list[str], trap: Trap, kind: str, args: list[str]
) -> None:
    program: Path = request.getfixturevalue(kind)
    done = subprocess.run(
        [*isolated, *trap.watched(str(program), *args)],
        cwd=trap.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "planted" not in done.stdout + done.stderr
    if "--self-test" in args:  # every part was loaded, also what calls providers
        assert not re.search(r"(?m)^(warn|broken) ++(?!test key )", done.stdout), done.stdout
    trap.expect_nothing()


@pytest.mark.parametrize("kind", ["single", "folder"])
def test_the_app_loads_none_of_it_either(
    request: pytest.FixtureRequest,
    isolated: list[str],
    tmux: type[Tmux],
    trap: Trap,
    tmp_path: Path,
    kind: str,
) -> None:
    program = str(request.getfixturevalue(kind))
    with tmux(tmp_path / "tmux", [*isolated, *trap.watched(program)], trap.folder) as window:
        window.wait_for("Ask anything")
        window.type(QUESTION)
        window.press("Enter")
        window.wait_for("finished in")
        window.press("C-q")
        window.wait_for("ended with 0")
    trap.expect_nothing()


@pytest.mark.parametrize("kind", ["single", "folder"])
@pytest.mark.parametrize(
    "args",
    [["--version"], ["ask", "--temperature", "0", QUESTION], ["workers", "ls"], ["history", "ls"]],
    ids=lambda args: args[0].strip("-"),
)
def test_no_socket_is_made_that_could_leave_this_machine(
    request: pytest.FixtureRequest, strace: str, tmp_path: Path, kind: str, args: list[str]
) -> None:
    """With a network: it is there, and nothing wants it."""
    program: Path = request.getfixturevalue(kind)
    trace = tmp_path / "trace"
    command = [*STRACE, "-o", str(trace), str(program), *args]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen = read_trace(trace)
    assert seen.nothing, seen
