"""What may be imported when: the front stays light, and safe from native code."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

NATIVE = {"llama_cpp", "onnxruntime", "numpy"}
HUBS = {"httpx", "huggingface_hub", "requests"}
HEAVY = NATIVE | HUBS | {"textual", "litellm", "keyring", "sqlite_utils"}


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport json, sys\nprint(json.dumps([m for m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    modules: list[str] = json.loads(done.stdout)
    return set(modules)


@pytest.mark.parametrize("module", ["baton.cli", "baton.cli.root", "baton.cli.ask"])
def test_the_command_line_loads_nothing_heavy(module: str) -> None:
    assert not loaded_by(f"import {module}") & HEAVY


def test_the_command_line_loads_no_other_command_than_the_one_called() -> None:
    loaded = loaded_by("import baton.cli.root, baton.cli.ask")
    assert not loaded & {"baton.cli.history", "baton.cli.doctor", "baton.history", "asyncio"}


def test_nothing_of_the_front_loads_native_engines() -> None:
    loaded = loaded_by(
        "import baton.cli.history, baton.cli.trace, baton.cli.config, baton.cli.doctor,"
        " baton.cli.workers, baton.cli.completion, baton.cli.prompt_run, baton.compose"
    )
    assert not loaded & HEAVY


def test_the_app_and_the_commands_for_models_never_load_what_talks_to_hubs() -> None:
    loaded = loaded_by(
        "import pkgutil, importlib, baton.cli.models, baton.tui.chat, baton.tui.screens,"
        " baton.download, baton.models.store, baton.models.library\n"
        "for package in (baton.cli.models, baton.tui.chat, baton.tui.screens):\n"
        "    for module in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)"
    )
    assert "baton.cli.models.pull" in loaded
    assert "baton.tui.screens.models_screen" in loaded
    assert not loaded & (NATIVE | HUBS)


@pytest.mark.usefixtures("home")
def test_a_prompt_loads_what_migrates_only_where_a_database_is_behind() -> None:
    ask = [sys.executable, "-X", "importtime", "-m", "baton", "ask", "-m", "calculator", "2 + 2"]
    first, second = (
        subprocess.run(ask, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stdout == second.stdout
    assert "sqlite_utils" in first.stderr
    assert "baton.history.store" in second.stderr
    assert "sqlite_utils" not in second.stderr
