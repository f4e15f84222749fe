"""Where the self-test plays: in a folder of its own, of which nothing is left."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from baton.cli.doctor.check_result import CheckResult
from baton.core.errors import StoreError
from baton.platform.build_info import built
from baton.platform.durable_files import make_folder
from baton.platform.settings import Paths, find_paths

MIN_FREE_BYTES = 16 << 20
"""What it writes takes less: small databases, and what libraries leave among temporary files."""

_FOLDER_PREFIX = "baton-self-test-"

_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class SelfTestHome:
    """The self-test's own folders in `paths`, the person's in `own`, and the environment."""

    folder: Path
    paths: Paths
    own: Paths
    environ: Mapping[str, str]


Check = Callable[[SelfTestHome], Awaitable["str | CheckResult"]]
"""Returns what to say of a thing that works; or a finding, or raises."""


@contextmanager
def self_test_home(environ: Mapping[str, str] = os.environ) -> Iterator[SelfTestHome]:
    """Make a folder for as long as the self-test takes. Raises StoreError."""
    own = find_paths(environ)
    folder = _make_folder(own)
    known = {name: value for name, value in environ.items() if name.upper() not in _PROXY_VARIABLES}
    # What onnxruntime leaves among the temporary files goes with the rest, too.
    known |= dict.fromkeys(("BATON_HOME", "TMPDIR", "TEMP", "TMP"), str(folder))
    try:
        yield SelfTestHome(folder, find_paths({"BATON_HOME": str(folder)}), own, known)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder(own: Paths) -> Path:
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
    if built() is not None:
        return (
            "Install Baton again: a file may be damaged. If that changes nothing, tell us, with"
            " the report of `baton doctor --self-test --report FILE`."
        )
    return (
        "Install Baton's packages again: in a checkout, remove the folder .venv and run"
        " `scripts/baton` with a network."
    )
