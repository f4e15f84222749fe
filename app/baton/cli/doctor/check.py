"""What a check is given, and what it returns."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from baton.core.errors import BatonError, ConfigError, StoreError
from baton.core.sanitiser import one_line
from baton.platform.build_info import build_info
from baton.platform.durable_files import make_folder
from baton.platform.settings import Paths, Settings, find_paths, load_settings

MIN_FREE_BYTES = 16 << 20
"""What the self-test writes takes less: small databases, and libraries' temporary files."""

_MAX_TEXT_CHARS = 400
_FOLDER_PREFIX = "baton-self-test-"
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


class CheckState(StrEnum):
    """How a thing is: `warn` works, but not as well as it could."""

    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found."""

    name: str
    state: CheckState
    text: str

    def as_line(self) -> str:
        """Return it as one line for a person."""
        return f"{self.state:7} {self.name:12} {one_line(self.text, _MAX_TEXT_CHARS)}"


class CheckFailed(BatonError):
    """What was checked doesn't work. The self-test adds how to repair Baton."""


class CheckWarning(str):
    """What to say of a thing that works, but not as well as it could."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Where checks read and write (`paths`), and what they know of the person.

    In the self-test, `paths` lie in a temporary `folder`, and `own` are the person's; otherwise
    both are the person's, and `folder` is None.
    """

    paths: Paths
    own: Paths
    environ: Mapping[str, str]
    folder: Path | None = None
    settings: Settings = field(default_factory=Settings)
    settings_error: ConfigError | None = None

    def scratch_file(self, name: str) -> Path:
        """Return where the self-test may write a file."""
        assert self.folder is not None, "only the self-test writes"
        return self.folder / name


Check = Callable[[CheckContext], Awaitable[str]]
"""Returns what to say of a thing that works, perhaps as a CheckWarning; raises if it doesn't."""


def setup_context(paths: Paths) -> CheckContext:
    """Return the person's own setup; settings that can't be read count as the defaults."""
    try:
        return CheckContext(paths, paths, os.environ, settings=load_settings(paths.config_file))
    except ConfigError as error:
        return CheckContext(paths, paths, os.environ, settings_error=error)


@contextmanager
def self_test_context(environ: Mapping[str, str] = os.environ) -> Iterator[CheckContext]:
    """Make a folder for as long as the self-test takes. Raises StoreError."""
    own = find_paths(environ)
    folder = _make_scratch_folder(own)
    known = {name: value for name, value in environ.items() if name.upper() not in _PROXY_VARIABLES}
    # What onnxruntime leaves among the temporary files goes with the rest, too.
    known |= dict.fromkeys(("BATON_HOME", "TMPDIR", "TEMP", "TMP"), str(folder))
    try:
        yield CheckContext(find_paths({"BATON_HOME": str(folder)}), own, known, folder)
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
