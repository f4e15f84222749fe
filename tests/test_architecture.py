"""What may be imported when: the front stays light, and safe from native code."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

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


RECORD_MODULES = """
import os, sys
before, early, path, end = {*sys.modules}, [], sys.argv.pop(1), os._exit
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "baton.cli.root":
            early.extend(sys.modules)
def record_and_exit(code):
    with open(path, "w") as file:
        for modules in (early, sys.modules):
            print(*[name for name in modules if name not in before], file=file)
    end(code)
sys.meta_path.insert(0, Finder())
os._exit = record_and_exit
from baton.cli import main
main()
"""
"""Writes what a command has loaded before its words are parsed, and what at its end."""


class Start(NamedTuple):
    """What a command may load: libraries, and parts of Baton."""

    libraries: set[str]
    parts: set[str]


EARLY = Start({"msgspec"}, {"cli", "core", "ipc", "platform"})
"""What `ask` may load before its children are started: each millisecond delays the answer."""

STARTS = {
    "--version": Start({"click", "msgspec", "typing_extensions"}, {"cli", "core", "platform"}),
    "--help": Start({"click", "msgspec", "typing_extensions"}, {"cli", "core", "platform"}),
    "ask --help": Start({"click", "msgspec"}, {"cli", "core", "ipc", "platform", "workers"}),
}
PROMPT = Start(
    {"click", "msgspec", "pysqlite3"},
    {
        *("cli", "compose", "core", "download", "gguf", "history", "ipc", "models", "money"),
        *("platform", "presentation", "routing", "workers"),
    },
)
LATER = {
    "asyncio",
    "sqlite3",
    "ssl",
    "baton.cli.history",
    "baton.cli.doctor",
    "baton.cli.prompt_run",
}
"""What takes time to load, and isn't needed to show a help or to start children."""


def modules_of(words: str, folder: Path) -> tuple[set[str], set[str]]:
    """Return what `baton` with these words loads before it parses them, and what in all."""
    record = folder / "modules"
    command = [sys.executable, "-I", "-c", RECORD_MODULES, str(record), *words.split(maxsplit=1)]
    subprocess.run(command, capture_output=True, check=True)
    early, loaded = record.read_text("utf-8").splitlines()
    return {*early.split()}, {*loaded.split()}


def excess(loaded: set[str], allowed: Start) -> set[str]:
    """Return the libraries and the parts of Baton that were loaded beyond what is allowed."""
    assert "baton.cli" in loaded
    libraries = {name.partition(".")[0] for name in loaded} - {*sys.stdlib_module_names, "baton"}
    parts = {name.split(".")[1] for name in loaded if name.startswith("baton.")}
    return (libraries - allowed.libraries) | (parts - allowed.parts)


@pytest.mark.parametrize("words", STARTS)
def test_a_command_that_only_shows_something_loads_little(words: str, tmp_path: Path) -> None:
    _, loaded = modules_of(words, tmp_path)
    assert not excess(loaded, STARTS[words])
    assert not loaded & LATER


@pytest.mark.usefixtures("home")
def test_a_prompt_loads_little_first_and_nothing_that_migrates(tmp_path: Path) -> None:
    for _ in range(2):
        early, loaded = modules_of("ask 2+2", tmp_path)
        assert "baton.ipc.spare_process" in early
        assert not excess(early, EARLY)
        assert not early & LATER
        assert "baton.platform.database_thread" in loaded
        assert not excess(loaded, PROMPT)


def test_nothing_of_the_front_loads_native_engines() -> None:
    loaded = loaded_by(
        "import baton.cli.history, baton.cli.trace, baton.cli.config, baton.cli.doctor,"
        " baton.cli.workers, baton.cli.options, baton.cli.prompt_run, baton.compose"
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
