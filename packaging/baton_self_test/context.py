"""Where the self-test works, and what it knows of the user's own setup."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from baton.cli.doctor.check import CheckContext
from baton.core.errors import StoreError
from baton.platform.build_info import build_info
from baton.platform.durable_files import make_folder
from baton.platform.paths import Paths, find_paths

MIN_FREE_BYTES = 16 << 20
"""What the self-test writes takes less: small databases, and libraries' temporary files."""

_FOLDER_PREFIX = "baton-self-test-"
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class SelfTestContext(CheckContext):
    """A setup in a temporary `folder`, with default settings; `own` paths are the user's."""

    folder: Path = field(kw_only=True)
    own: Paths = field(kw_only=True)


SelfTest = Callable[[SelfTestContext], Awaitable[str]]
"""A check of the self-test, as `baton.cli.doctor.check.Check` is one of a setup."""


@contextmanager
def self_test_context(environ: Mapping[str, str] = os.environ) -> Iterator[SelfTestContext]:
    """Make a folder for as long as the self-test takes. Raises StoreError."""
    own = find_paths(environ)
    folder = _make_scratch_folder(own)
    known = {name: value for name, value in environ.items() if name.upper() not in _PROXY_VARIABLES}
    # What onnxruntime leaves among the temporary files goes with the rest, too.
    known |= dict.fromkeys(("BATON_HOME", "TMPDIR", "TEMP", "TMP"), str(folder))
    try:
        paths = find_paths({"BATON_HOME": str(folder)})
        yield SelfTestContext(paths, known, folder=folder, own=own)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_scratch_folder(own: Paths) -> Path:
    """Make a folder with some room, among the temporary ones or else in Baton's cache."""
    refused = []
    for place in (None, own.cache):
        try:
            if place is not None:
                make_folder(place)
            made = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=place)).resolve()
        except OSError as error:
            refused.append(error.strerror or "they can't be used")
            continue
        if shutil.disk_usage(made).free >= MIN_FREE_BYTES:
            return made
        made.rmdir()
        refused.append("No space left on device")
    raise StoreError(
        f"The self-test needs {MIN_FREE_BYTES >> 20} MB of room, which is neither among the"
        f" temporary files nor in {own.cache} ({', '.join(dict.fromkeys(refused))}).",
        "Make room there, or name another folder: TMPDIR=FOLDER baton doctor --self-test",
    )


def repair_hint() -> str:
    """Say what to do about a part of Baton that is broken."""
    if build_info() is not None:
        return (
            "Install Baton again: a file may be damaged. If that changes nothing, report"
            " the bug, and attach the FILE of `baton doctor --self-test --report FILE`."
        )
    return (
        "Install Baton's packages again: in a checkout, remove the folder .venv and run"
        " `scripts/baton` with a network."
    )
