"""What Baton starts and loads unasked: nothing, in any environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.test_offline import BATON, CHEAP, RUN_ALL, STRACE, missing
from support.openssl_config import PlantedLibrary

WATCHED = [*STRACE[:-1], "trace=execve"]
_STARTED = re.compile(r'execve\("((?:[^"\\]|\\.)*)".*\) = 0$', re.MULTILINE)

COMMANDS = {
    "cheap ones": [sys.executable, "-I", "-c", RUN_ALL, json.dumps([(args, 0) for args in CHEAP])],
    "models recommend": [*BATON, "models", "recommend"],
    "ask": [*BATON, "ask", "--worker", "calculator", "6 * 7"],
    "doctor": [*BATON, "doctor"],
}
PACKAGING = Path(__file__).parents[2] / "packaging"
WITH_SELF_TEST = (
    f"import sys; sys.path.append({str(PACKAGING)!r}); from baton.cli import main; main()"
)
SELF_TEST = [sys.executable, "-I", "-c", WITH_SELF_TEST, "doctor", "--self-test"]
"""It uses all libraries."""


def started_programs(tmp_path: Path, *command: str) -> tuple[set[str], str]:
    """Run a program; return all that it and its children started, and what it wrote."""
    trace = tmp_path / "trace"
    watched = [] if missing() else [*WATCHED, "-o", str(trace)]
    done = subprocess.run(
        [*watched, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    seen = set(_STARTED.findall(trace.read_text())) if watched else {command[0]}
    return seen, done.stdout + done.stderr


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlantedLibrary:
    planted = PlantedLibrary.of(tmp_path / "planted")
    for name, value in planted.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")  # the real choice of a keyring
    return planted


@pytest.mark.root
@pytest.mark.parametrize(
    "code",
    [
        "import keyring; keyring.get_keyring()",
        "import platform; platform.platform()",
        "import os, threading; threading.Thread(target=os.system, args=['true']).start()",
    ],
)
def test_a_program_that_is_started_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    if reason := missing():
        pytest.skip(reason)
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    programs, _ = started_programs(tmp_path, sys.executable, "-c", code)
    assert programs > {sys.executable}


def test_openssl_by_itself_would_load_what_a_variable_names(planted: PlantedLibrary) -> None:
    subprocess.run([sys.executable, "-I", "-c", "import ssl; ssl.create_default_context()"])
    assert "a library" in planted.canary.read_text()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "command", [*COMMANDS, pytest.param("doctor --self-test", marks=pytest.mark.long)]
)
def test_only_batons_own_programs_are_started_and_no_library_that_a_variable_names(
    tmp_path: Path, planted: PlantedLibrary, command: str
) -> None:
    programs, output = started_programs(tmp_path, *COMMANDS.get(command, SELF_TEST))
    assert programs == {sys.executable}
    assert not planted.canary.exists()
    assert "Traceback" not in output
    if command == "doctor --self-test":
        assert {"cloud", "keyrings", "hubs", "cpython", "cryptography", "certificates"} <= set(
            re.findall(r"(?m)^ok +(\S+)", output)
        )


def test_certificates_that_a_user_names_are_looked_at(planted: PlantedLibrary) -> None:
    """Where a network puts its own certificate in between, as in companies."""
    done = subprocess.run(
        [*BATON, "models", "pull", "hf.co/nobody/nothing"],
        env=os.environ | {"SSL_CERT_FILE": "/none/such.pem", "HF_ENDPOINT": "https://127.0.0.1:9"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "SSL_CERT_FILE" in done.stderr
    assert done.returncode == 2
