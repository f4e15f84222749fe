"""The doctor's report, for others to read: no secret, no name of a person or a machine, no text."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from baton import __version__
from baton.cli.doctor.check_result import Finding, State
from baton.core.errors import BatonError, StoreError
from baton.platform.build_info import built
from baton.platform.durable_files import replace_file
from baton.platform.settings import find_paths, load

HIDDEN = "[hidden]"

_HEAD = "Report of `baton doctor`. Names, secrets and texts were left out."
_HEADS = (_HEAD.encode(), f'{{\n "report": "{_HEAD}"'.encode())
"""How a report begins, as text and as JSON: by that an earlier one is known."""

_SECRETIVE = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE)
_SHORTEST = 6
"""A secret shorter than this would be found in innocent words."""

_NOBODY = frozenset({"baton", "root", "user", "localhost", "linux", "windows", "python", "local"})
"""Names that tell nothing, and that the report itself may say."""


def refuse_early(file: Path) -> None:
    """Raise StoreError where no report can or should be written, before anybody waits for it."""
    if os.path.lexists(file) and not _may_go(file):
        raise StoreError(
            f"{file} is there already and is no report of Baton's: it was left as it is.",
            "Name another file: `--report FILE`.",
        )
    folder = file.absolute().parent
    if not os.access(folder, os.W_OK):
        why = "it may not be written there" if folder.is_dir() else "there is no such folder"
        raise _unwritable(file, why)


def _may_go(file: Path) -> bool:
    """Tell whether a report may take a file's place: an earlier one's, or that of nothing."""
    try:
        if file.is_symlink() or not file.is_file():
            return False
        with file.open("rb") as opened:
            start = opened.read(max(map(len, _HEADS)))
        return not start or start.startswith(_HEADS)
    except OSError:
        return False


def _unwritable(file: Path, why: str) -> StoreError:
    return StoreError(
        f"The report can't be written to {file}: {why}.", "Name another file: `--report FILE`."
    )


def write(
    file: Path, findings: Iterable[Finding], as_json: bool, environ: Mapping[str, str] = os.environ
) -> None:
    """Write the report, readable by the person alone, as a whole or not at all. Raises StoreError.

    It takes an earlier one's place, and nothing else's.
    """
    scrubber = Scrubber.of(environ)
    clean = [Finding(f.name, f.state, scrubber.clean(f.text)) for f in findings]
    text = _json(clean, scrubber) if as_json else _text(clean, scrubber)
    refuse_early(file)  # minutes may have passed
    try:
        replace_file(file, text)
    except OSError as error:
        raise _unwritable(file, error.strerror or str(error)) from error


def _facts() -> dict[str, str]:
    """Return what a bug report should say of the program and the machine."""
    facts = built()
    made = {} if facts is None else asdict(facts)
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


def _text(findings: list[Finding], scrubber: Scrubber) -> str:
    told = {State.OK: 0, State.WARN: 0, State.BROKEN: 0}
    for finding in findings:
        told[finding.state] += 1
    facts = _facts()
    lines = [
        _HEAD,
        "",
        *(f"{name:9}{scrubber.clean(value)}" for name, value in facts.items() if value),
        "checks   " + ", ".join(f"{count} {state}" for state, count in told.items()),
        "",
        *(finding.line() for finding in findings),
    ]
    return "\n".join(lines) + "\n"


def _json(findings: list[Finding], scrubber: Scrubber) -> str:
    broken = any(finding.state is State.BROKEN for finding in findings)
    document = {
        "report": _HEAD,
        "schema": 1,
        "status": "failed" if broken else "finished",
        "baton": _facts(),
        "checks": [asdict(finding) for finding in findings],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class Scrubber:
    """Takes out what tells who and where somebody is.

    `paths` are shown by another name, the longest first; `secrets` are hidden wherever they stand,
    `names` where they stand as words.
    """

    paths: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Scrubber:
        """Return one that knows this person's environment."""
        return cls(_paths(environ), _secrets(environ), _names(environ))

    def clean(self, text: str) -> str:
        """Return the text as others may read it."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        for path, shown in self.paths:
            text = shown.join(re.split(rf"{re.escape(path)}(?![\w-])", text))
        for name in self.names:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", HIDDEN, text, flags=re.IGNORECASE)
        return _known_secrets(text)


def _known_secrets(text: str) -> str:
    """Hide what looks like a key, a password or an address of mail."""
    from baton.workers.cloud.redaction import KEY, MAIL, PASSWORD, Redaction

    for thing in Redaction().redact([text]).hidden:
        if thing.kind in (KEY, PASSWORD, MAIL):
            text = text.replace(thing.original, HIDDEN)
    return text


def _paths(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
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


def _secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    found = {
        value.strip()
        for name, value in environ.items()
        if _SECRETIVE.search(name) and len(value.strip()) >= _SHORTEST and not value.startswith("/")
    }
    with suppress(BatonError):  # settings that are wrong are told elsewhere
        found |= set(load(find_paths(environ).config_file, environ).cloud.words)
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def _names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the person and the machine are called."""
    found = {environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME")}
    found |= {Path(environ.get(name, "")).name for name in ("HOME", "USERPROFILE")}
    with suppress(OSError):
        found.add(socket.gethostname())
    with suppress(ImportError, KeyError, OSError):
        import pwd

        entry = pwd.getpwuid(os.getuid())
        found |= {entry.pw_name, *entry.pw_gecos.split(",")}
    found |= {name.partition(".")[0] for name in found}
    known = {name for name in found if len(name) > 1 and name.lower() not in _NOBODY}
    return tuple(sorted(known, key=len, reverse=True))
