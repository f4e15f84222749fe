"""The child processes of an `ask`, started ahead of all else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.cli import start_children
from baton.compose import compose
from baton.ipc import spare_process
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings

pytestmark = pytest.mark.usefixtures("home")

REMOTE = '[[workers]]\nid = "far"\nkind = "cloud"\nmodel = "openai/gpt-5-mini"\n'


@pytest.fixture(autouse=True)
def _no_spares() -> Iterator[None]:
    yield
    spare_process.end_spares()


def started(*words: str) -> list[str]:
    start_children(words)
    commands = [process.args[-1] for process in spare_process._spares.values()]  # type: ignore[index]
    spare_process.end_spares()
    return sorted(map(str, commands))


def configure(text: str) -> None:
    file = find_paths().config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_prompt_has_model_and_router_started() -> None:
    assert started("Hello") == ["runner", "scorer"]
    assert started("Hello", "--private") == ["runner", "scorer"]


@pytest.mark.parametrize(
    "words",
    [
        ([]),
        (["2 + 2"]),
        (["-m", "far", "Hello"]),
        (["--worker=far", "Hello"]),
        (["-mfar", "Hello"]),
        (["--help"]),
    ],
)
def test_nothing_is_started_where_it_is_likely_in_vain(words: list[str]) -> None:
    assert started(*words) == []


def test_no_model_is_started_where_a_remote_worker_answers() -> None:
    configure(f'worker = "far"\n{REMOTE}')
    assert started("Hello") == ["scorer"]


def test_settings_that_are_wrong_are_left_to_the_command() -> None:
    configure("worker = [")
    assert started("Hello") == []


def test_nothing_is_started_where_a_background_process_lends() -> None:
    socket = find_paths().lender_socket
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.touch()
    assert started("Hello") == []
    assert started("Hello", "--no-daemon") == ["runner", "scorer"]
    configure("daemon = false")
    assert started("Hello") == ["runner", "scorer"]


def test_what_was_started_is_taken_up_by_the_parts(tmp_path: Path) -> None:
    start_children(["Hello"])
    pids = {process.pid for process in spare_process._spares.values()}
    paths = find_paths()
    settings = load_settings(paths.config_file)
    baton = compose(settings, paths, warm=settings.worker)
    assert not spare_process._spares
    assert baton.router is not None
    assert {baton.local.here[settings.worker].process, baton.router.pid} == pids
    asyncio.run(baton.aclose())
