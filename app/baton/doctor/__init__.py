"""The parent's end of the doctor's child processes: loading libraries, watching a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from baton.core.errors import BatonError
from baton.core.sanitiser import one_line
from baton.ipc.process import command as child_command, ending_text, environment
from baton.platform.build_info import binary_path

LIBRARIES = (
    *("msgspec", "tomlkit", "filelock", "psutil", "numpy", "onnxruntime"),
    *("tokenizers", "cryptography.hazmat.bindings._rust", "pydantic_core", "jiter", "fastuuid"),
    *("tiktoken", "aiohttp", "httpx", "certifi", "huggingface_hub", "yaml", "charset_normalizer"),
    *("keyring", "jinja2", "jsonschema", "pint", "text_to_num", "dateutil", "stdnum", "pypdf"),
    *("phonenumbers", "textual", "starlette"),
)
"""What Baton's processes import, by module. litellm is missing: importing it opens a socket."""

_LOADING_SECONDS = 120.0
_MARGIN_SECONDS = 30.0
"""How much longer than its program the watching process may take."""

_CPU_FEATURES = {
    "flags": ("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f"),
    "Features": ("asimd", "asimdhp", "sve"),
}
"""What processors have or lack that compiled code may want, by Linux' names, for PCs and ARM."""


class LibraryFailed(BatonError):
    """A library can't be loaded; the message names it, and how the process that tried it ended."""


def load_libraries(names: Sequence[str] = LIBRARIES) -> None:
    """Load libraries in a child, for a compiled one may crash. Raises LibraryFailed, OSError."""
    try:
        done = _run_child("library_loader", names, _LOADING_SECONDS, environment())
    except subprocess.TimeoutExpired as error:
        raise LibraryFailed(f"They didn't load within {_LOADING_SECONDS:.0f} s.") from error
    if done.returncode:
        name = one_line((done.stdout.splitlines() or ["Python"])[-1], 80)
        how = one_line(crash_text(done.returncode, done.stderr), 400)
        raise LibraryFailed(f"{name} can't be loaded. {how}")


def _run_child(
    name: str, given: object, seconds: float, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run one of the doctor's children with what it is given as JSON. Raises TimeoutExpired."""
    return subprocess.run(
        child_command(name),
        input=json.dumps(given),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
        env=dict(environ),
    )


def crash_text(status: int, stderr: str) -> str:
    """Return how a process ended that loaded compiled code; with SIGILL, what that means."""
    text = ending_text(status, stderr)
    if "SIGILL" in text:
        text += f" It was built for another processor than this one, {processor_text()}."
    return text


def processor_text() -> str:
    """Say what this processor has and lacks that compiled code may want."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if wanted := _CPU_FEATURES.get(name.strip()):
                known = set(value.split())
                has = " ".join(flag for flag in wanted if flag in known) or "nothing special"
                lacks = " ".join(flag for flag in wanted if flag not in known) or "nothing special"
                return f"which has {has} and lacks {lacks}"
    return "of which nothing more is known"


@dataclass(slots=True)
class WatchResult:
    """How a watched program ended: see `doctor.child.network_watch`.

    `means` are those by which it had no network, none where this machine has none: then it wasn't
    run. `attempts` counts the sockets that were asked for, by family. `status` is None where the
    program took too long; `out` and `err` are its streams.
    """

    means: list[str]
    attempts: dict[str, int]
    status: int | None = None
    out: str = ""
    err: str = ""


def baton_command() -> list[str]:
    """Return what starts this very Baton again."""
    file = binary_path()
    isolation = "-I" if sys.flags.isolated else "-P"
    return [str(file)] if file is not None else [sys.executable, isolation, "-m", "baton"]


def watch_program(
    command: Sequence[str], seconds: float = 300.0, environ: Mapping[str, str] = os.environ
) -> WatchResult:
    """Run a program that can open no socket. Raises OSError where no process can be started."""
    try:
        given = {"command": list(command), "seconds": seconds}
        done = _run_child("network_watch", given, seconds + _MARGIN_SECONDS, environ)
        return WatchResult(**json.loads(done.stdout))
    except (subprocess.TimeoutExpired, ValueError):
        return WatchResult([], {}, err="The process that watches failed.")
