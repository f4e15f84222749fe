"""Every test has a home of its own, and no way out of this machine."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

# Threads of numpy and of llama.cpp wait in loops for each other, also while other processes need
# the cores: a fit took three times as long with two, a model twenty. One thread each leaves the
# other cores to the tests beside; what is about several threads lifts the limit for itself.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_THREAD_LIMIT", "1")

import hypothesis
import numpy  # noqa: F401  # the tools' units take it for missing, where hypothesis wants it
import psutil
import pytest

from baton.history import Store
from support import home_network

# A runner in the background may have been started with Ctrl+C and others ignored, and so would all
# that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)

# Tests start hundreds of children: each would compile the app again where the environment forbids
# to keep what was compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes says more of the machine than of the code.
# Each seed draws other examples: scripts/test --hypothesis-profile=thorough draws many at once.
hypothesis.settings.register_profile("baton", deadline=None, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)
hypothesis.settings.load_profile("baton")


ASIDE = {
    "sampled": "only a part is drawn, by the seed: scripts/test -m sampled",
    "long": "minutes of abuse: scripts/test -m long",
    "binary": "needs the packaged binary: scripts/build, then scripts/test -m binary",
}
"""Tests that a usual run leaves out, by their markers, and how they are run."""

_left_out: Counter[str] = Counter()


SAMPLE_SEED = "BATON_TEST_SAMPLE"
"""The variable with the seed of all that is drawn.

`.ci/run` sets it to the hash of the tree, so that the same tree draws the same. By default it is
today's date: by hand, the days take turns.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the same sample and examples in all processes that share the run."""
    seed = os.environ.setdefault(SAMPLE_SEED, date.today().isoformat())
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = seed


def pytest_report_header(config: pytest.Config) -> str:
    """Show how to draw this run's sample and examples again."""
    return f"sample: {SAMPLE_SEED}={os.environ[SAMPLE_SEED]}"


def pytest_xdist_auto_num_workers() -> int:
    """The number of processes that share a whole run: one more than cores, since tests wait, too.

    Not more than four, since many tests start several of their own.
    """
    return min((psutil.cpu_count(logical=False) or 1) + 1, 4)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a drawn part of the tests marked `sampled`, unless tests were asked for by name.

    `sampled(n)` keeps `n` cases of each test, one by default, or that share of them if it is below
    one: of a test without cases, that share of the seeds.
    """
    if "sampled" in str(config.option.markexpr) or config.args_source.name == "ARGS":
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("long"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = {item for of_one_test in cases.values() for item in _undrawn(of_one_test)}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def _undrawn(cases: list[pytest.Item]) -> list[pytest.Item]:
    mark = cases[0].get_closest_marker("sampled")
    assert mark is not None
    seed = os.environ[SAMPLE_SEED]
    wanted = mark.args[0] if mark.args else 1
    if wanted < 1:
        wanted *= len(cases)
    chance = random.Random(f"{seed} {cases[0].nodeid.partition('[')[0]}").random()
    cases.sort(key=lambda case: random.Random(f"{seed} {case.nodeid}").random())
    return cases[int(wanted) + (chance < wanted % 1) :]


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count what is left out."""
    _left_out.update(name for item in items for name in ASIDE if item.get_closest_marker(name))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what was left out here to the process that shared out the run, if there is one."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process left out: each of them collects all tests, unless it was killed."""
    output = getattr(node, "workeroutput", {})
    _left_out.update(Counter(output.get("left_out", {})) - _left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out: a green run must not look like more than it is."""
    for name, count in _left_out.items():
        terminalreporter.write_line(f"Left out: {count} {name} ({ASIDE[name]})")
    if home_network.replaced:
        count = len(home_network.replaced)
        terminalreporter.write_line(f"No network namespaces here: {count} used 127.0.0.2 as lan")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give Baton an empty home, and an environment without the developer's settings."""
    for name in list(os.environ):
        if name.startswith("BATON_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    folder = tmp_path / "baton home"
    monkeypatch.setenv("BATON_HOME", str(folder))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return folder


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """Open a history in memory."""
    opened = Store(None)
    yield opened
    await opened.aclose()


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse any connection that would leave this machine, and any name look-up."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in (
            "127.0.0.1",
            "::1",
        ):
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)

    def looked_up(host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in (None, "", "localhost") and not re.fullmatch(r"[\d.]+|[\da-f:.]*:.*", name):
            raise AssertionError(f"a test looked {name!r} up")
        return look_up(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
