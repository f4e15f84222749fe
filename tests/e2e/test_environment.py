"""What Baton starts and loads that nobody asked for: nothing, whatever the environment says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.test_offline import BATON, CHEAP, STRACE, missing
from support.openssl_config import Planted

WATCHED = [*STRACE[:-1], "trace=execve"]
_STARTED = re.compile(r'execve\("((?:[^"\\]|\\.)*)".*\) = 0$', re.MULTILINE)

HEAVY = [
    ["models", "recommend"],
    ["ask", "--worker", "calculator", "6 * 7"],
    ["doctor"],
    pytest.param(["doctor", "--self-test"], marks=pytest.mark.long),
]


def started(tmp_path: Path, *command: str) -> tuple[set[str], str]:
    """Run a program; return all that it and its children started, and what it wrote."""
    trace = tmp_path / "trace"
    done = subprocess.run(
        [*WATCHED, "-o", str(trace), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return set(_STARTED.findall(trace.read_text())), done.stdout + done.stderr


@pytest.fixture
def _watched(monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := missing():
        pytest.skip(reason)
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")  # the real choice of a keyring


@pytest.mark.root
@pytest.mark.usefixtures("_watched")
@pytest.mark.parametrize(
    "code",
    [
        "import keyring; keyring.get_keyring()",
        "import platform; platform.platform()",
        "import os, threading; threading.Thread(target=os.system, args=['true']).start()",
    ],
)
def test_a_program_that_is_started_would_be_seen(tmp_path: Path, code: str) -> None:
    programs, _ = started(tmp_path, sys.executable, "-c", code)
    assert programs > {sys.executable}


@pytest.mark.sampled(3)
@pytest.mark.root
@pytest.mark.usefixtures("_watched")
@pytest.mark.parametrize("args", [*CHEAP, *HEAVY], ids=" ".join)
def test_no_program_is_started_but_batons_own(tmp_path: Path, args: list[str]) -> None:
    programs, output = started(tmp_path, *BATON, *args)
    assert programs == {sys.executable}
    assert "Traceback" not in output
    if "--self-test" in args:  # all the libraries were used, among them those of the gateway
        assert {"cloud", "keyrings", "hubs"} <= set(re.findall(r"(?m)^ok +(\S+)", output))


# OpenSSL


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    planted = Planted.of(tmp_path / "planted")
    for name, value in planted.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    return planted


def test_openssl_by_itself_would_load_what_a_variable_names(planted: Planted) -> None:
    subprocess.run([sys.executable, "-I", "-c", "import ssl; ssl.create_default_context()"])
    assert "a library" in planted.canary.read_text()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("args", [["keys", "ls"], ["usage"], *HEAVY], ids=" ".join)
def test_openssl_loads_nothing_that_a_variable_names(planted: Planted, args: list[str]) -> None:
    done = subprocess.run([*BATON, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert not planted.canary.exists()
    if "--self-test" in args:
        assert {"python", "cryptography", "certificates", "cloud"} <= set(
            re.findall(r"(?m)^ok +(\S+)", done.stdout)
        )


def test_certificates_that_a_person_names_are_looked_at(planted: Planted) -> None:
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
