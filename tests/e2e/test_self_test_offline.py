"""The self-test connects to nothing but this machine, as the kernel sees it; see test_offline."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2e.test_environment import SELF_TEST
from e2e.test_offline import NO_NETWORK, Tracer, missing

pytestmark = [pytest.mark.root, pytest.mark.long]


@pytest.fixture(autouse=True)
def _able() -> None:
    if reason := missing():
        pytest.skip(reason)


def test_it_reaches_this_machine_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    _, seen = Tracer(tmp_path).run(program=SELF_TEST)
    assert {host for host, _ in seen.reached} == {"127.0.0.1"}
    assert {port for _, port in seen.reached} <= seen.listened
    assert not seen.look_ups


def test_without_any_network_it_says_what_it_could_not_try(tmp_path: Path) -> None:
    environ = {name: os.environ[name] for name in ("PATH", "BATON_HOME")}
    said, seen = Tracer(tmp_path).run(
        program=["env", "-i", *(f"{n}={v}" for n, v in environ.items()), *NO_NETWORK, *SELF_TEST]
    )
    assert "Nothing is broken." in said
    assert "warn    cloud        This machine can't talk with itself" in said
    assert seen.look_ups <= {"/var/run/nscd/socket"}  # whose home this is, as no HOME is set
