"""What may be imported when: the front stays light, and safe from native code."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

APP = Path(__file__).parent.parent / "app"
PACKAGES = sorted((APP / "baton").rglob("__init__.py"))

NATIVE = {"llama_cpp", "onnxruntime", "numpy"}
HUBS = {"httpx", "huggingface_hub", "requests"}
HEAVY = NATIVE | HUBS | {"textual", "litellm", "keyring", "sqlite_utils"}

MAX_PUBLIC_METHODS = 25
"""Of a class, with those that it inherits from other classes of Baton."""


COUNT_PUBLIC_METHODS = """
import importlib, inspect, json, pkgutil, baton
def is_method(name, value):
    return not name.startswith("_") and (
        inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))
    )
counts = {}
for module in pkgutil.walk_packages(baton.__path__, "baton."):
    if not module.name.endswith(".__main__"):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and value.__module__ == module.name:
                ours = [c for c in value.__mro__ if c.__module__.startswith("baton.")]
                methods = {n for c in ours for n, v in vars(c).items() if is_method(n, v)}
                counts[f"{module.name}.{value.__qualname__}"] = len(methods)
print(json.dumps(counts))
"""


def printed_by(script: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def loaded_by(code: str) -> set[str]:
    return set(printed_by(f"{code}\nimport json, sys\nprint(json.dumps([m for m in sys.modules]))"))


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
def test_a_prompt_loads_nothing_that_migrates_where_no_database_is_behind() -> None:
    ask = [sys.executable, "-X", "importtime", "-m", "baton", "ask", "-m", "calculator", "2 + 2"]
    first, second = (
        subprocess.run(ask, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stdout == second.stdout
    for ran in (first, second):
        assert "baton.platform.database_thread" in ran.stderr
        assert "sqlite_utils" not in ran.stderr
        assert "numpy" not in ran.stderr


CREATE_WHILE_ANOTHER_THREAD_LOOKS = """
import importlib.util, json, sys, threading
from baton.platform import sqlite
seen, has_started, is_done = set(), threading.Event(), threading.Event()
def look():
    while not is_done.is_set():
        seen.add(importlib.util.find_spec("numpy") is not None)
        has_started.set()
thread = threading.Thread(target=look)
thread.start()
has_started.wait()
sqlite.utils_database(sqlite.connect(None))
is_done.set()
thread.join()
print(json.dumps({"found": list(seen), "loaded": "numpy" in sys.modules}))
"""


def test_while_a_database_is_created_other_threads_still_find_numpy() -> None:
    assert printed_by(CREATE_WHILE_ANOTHER_THREAD_LOOKS) == {"found": [True], "loaded": False}


def test_no_class_has_too_many_public_methods() -> None:
    counts = printed_by(COUNT_PUBLIC_METHODS)
    assert {name: n for name, n in counts.items() if n > MAX_PUBLIC_METHODS} == {}


@pytest.mark.parametrize("path", [p for p in PACKAGES if "lazy_exports(" in p.read_text("utf-8")])
def test_a_slice_has_the_names_that_types_say_it_exports(path: Path) -> None:
    name = ".".join(path.parent.relative_to(APP).parts)
    exported = {
        alias.asname: getattr(importlib.import_module(node.module or ""), alias.name)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    package = importlib.import_module(name)
    assert exported
    assert all(getattr(package, one) is value for one, value in exported.items())
