"""The doctor's report, for others to read: no secret, no name of a user or a machine, no text."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from baton import __version__
from baton.cli.doctor.check import CheckResult, CheckState
from baton.core.errors import BatonError, StoreError
from baton.platform.build_info import build_info
from baton.platform.durable_files import replace_file
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings

HIDDEN = "[hidden]"

_HEADING = "Report of `baton doctor`. Names, secrets and texts were left out."
_HEADING_BYTES = (_HEADING.encode(), f'{{\n "report": "{_HEADING}"'.encode())
"""How a report begins, as text and as JSON: by that an earlier one is known."""

_SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE)
_MIN_SECRET_CHARS = 6
"""A secret shorter than this would be found in innocent words."""

_COMMON_NAMES = frozenset(
    {"baton", "root", "user", "localhost", "linux", "windows", "python", "local"}
)
"""Names that identify no user or machine, and that the report itself may hold."""


def check_report_path(file: Path) -> None:
    """Raise StoreError where no report can or should be written, before anybody waits for it."""
    if os.path.lexists(file) and not _is_replaceable(file):
        raise StoreError(
            f"{file} is there already and isn't a report of Baton: it was left as it is.",
            "Name another file: `--report FILE`.",
        )
    folder = file.absolute().parent
    if not os.access(folder, os.W_OK):
        why = "it may not be written there" if folder.is_dir() else "there is no such folder"
        raise _unwritable_report_error(file, why)


def _is_replaceable(file: Path) -> bool:
    """Whether a report may take a file's place: an earlier one's, or that of nothing."""
    try:
        if file.is_symlink() or not file.is_file():
            return False
        with file.open("rb") as opened:
            start = opened.read(max(map(len, _HEADING_BYTES)))
        return not start or start.startswith(_HEADING_BYTES)
    except OSError:
        return False


def _unwritable_report_error(file: Path, why: str) -> StoreError:
    return StoreError(
        f"The report can't be written to {file}: {why}.", "Name another file: `--report FILE`."
    )


def write_report(file: Path, findings: Iterable[CheckResult], as_json: bool) -> None:
    """Write the report, readable by the user alone, as a whole or not at all. Raises StoreError.

    It takes an earlier one's place, and nothing else's.
    """
    scrubber = Scrubber.from_environ(os.environ)
    clean = [CheckResult(f.name, f.state, scrubber.clean(f.text)) for f in findings]
    text = _report_json(clean) if as_json else _report_text(clean, scrubber)
    check_report_path(file)  # minutes may have passed
    try:
        replace_file(file, text)
    except OSError as error:
        raise _unwritable_report_error(file, error.strerror or str(error)) from error


def _build_summary() -> dict[str, str]:
    """Return what a bug report should say of the program and the machine."""
    build = build_info()
    made = {} if build is None else asdict(build)
    made.pop("update_key", None)
    return {
        **made,
        "version": __version__,
        "packaged": "yes" if made else "no",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _report_text(findings: list[CheckResult], scrubber: Scrubber) -> str:
    counts = Counter(finding.state for finding in findings)
    summary = _build_summary()
    lines = [
        _HEADING,
        "",
        *(f"{name:9}{scrubber.clean(value)}" for name, value in summary.items() if value),
        "checks   " + ", ".join(f"{counts[state]} {state}" for state in CheckState),
        "",
        *(finding.as_line() for finding in findings),
    ]
    return "\n".join(lines) + "\n"


def _report_json(findings: list[CheckResult]) -> str:
    broken = any(finding.state is CheckState.BROKEN for finding in findings)
    document = {
        "report": _HEADING,
        "schema": 1,
        "status": "failed" if broken else "finished",
        "baton": _build_summary(),
        "checks": [asdict(finding) for finding in findings],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class Scrubber:
    """Takes out what identifies a user or a machine.

    `paths` are shown by another name, the longest first; `secrets` are hidden wherever they stand,
    `names` where they stand as words.
    """

    paths: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=())

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Scrubber:
        """Return one that knows this user's environment."""
        return cls(_known_paths(environ), _environment_secrets(environ), _personal_names(environ))

    def clean(self, text: str) -> str:
        """Return the text as others may read it."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        for path, shown in self.paths:
            text = shown.join(re.split(rf"{re.escape(path)}(?![\w-])", text))
        for name in self.names:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", HIDDEN, text, flags=re.IGNORECASE)
        return _hide_secrets(text)


def _hide_secrets(text: str) -> str:
    """Hide what looks like a key, a password or an address of mail."""
    from baton.workers.cloud import KEY, MAIL, PASSWORD, Redaction

    for thing in Redaction().redact([text]).hidden:
        if thing.kind in (KEY, PASSWORD, MAIL):
            text = text.replace(thing.original, HIDDEN)
    return text


def _known_paths(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    homes = {environ.get("HOME", ""), environ.get("USERPROFILE", "")}
    with suppress(RuntimeError, KeyError):
        homes.add(str(Path.home()))
    found = dict.fromkeys(homes, "~")
    found |= {environ.get(name, ""): f"${name}" for name in ("BATON_HOME", "TMPDIR")}
    with suppress(OSError):
        found.setdefault(str(Path.cwd()), ".")
    for path, shown in list(found.items()):
        if path:
            with suppress(OSError, RuntimeError):
                found.setdefault(str(Path(path).expanduser().resolve()), shown)
    real = {path.rstrip("/"): shown for path, shown in found.items() if len(path) > 1}
    return tuple(sorted(real.items(), key=lambda item: -len(item[0])))


def _environment_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    secrets = {
        value.strip()
        for name, value in environ.items()
        if _SECRET_NAMES.search(name)
        and len(value.strip()) >= _MIN_SECRET_CHARS
        and not value.startswith("/")
    }
    with suppress(BatonError):  # another check reports wrong settings
        secrets |= set(load_settings(find_paths(environ).config_file, environ).cloud.words)
    return tuple(sorted(filter(None, secrets), key=len, reverse=True))


def _personal_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the user and the machine are called."""
    names = {environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME")}
    names |= {Path(environ.get(name, "")).name for name in ("HOME", "USERPROFILE")}
    with suppress(OSError):
        names.add(socket.gethostname())
    with suppress(ImportError, KeyError, OSError):
        import pwd

        entry = pwd.getpwuid(os.getuid())
        names |= {entry.pw_name, *entry.pw_gecos.split(",")}
    names |= {name.partition(".")[0] for name in names}
    known = {name for name in names if len(name) > 1 and name.lower() not in _COMMON_NAMES}
    return tuple(sorted(known, key=len, reverse=True))
