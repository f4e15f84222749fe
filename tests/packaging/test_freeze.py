"""What the packaged binary collects is what Baton loads by name, and no more is loaded than that.

No binary is built here: that takes minutes, see tests/binary.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

from baton.platform.secrets import KEYRING
from support.metered_calls import MODELS

ROOT = Path(__file__).parent.parent.parent
WRITE_REQUESTS = """
import sys
before = set(sys.modules)
import asyncio, json
from baton.workers.cloud.child.request_writer import RequestWriter
from baton.workers.cloud.child.main import unsent_call

opened = []
sys.addaudithook(lambda event, about: event == "open" and opened.append(str(about[0])))

async def main(models):
    writer = RequestWriter("low")
    for model in models:
        provider, _, name = model.partition("/")
        call = unsent_call(provider, name)
        call.schema = '{"type": "object", "properties": {}}'
        assert (await writer.write(call)).body

asyncio.run(main(json.loads(sys.argv[1])))
print(json.dumps([sorted(set(sys.modules) - before), sorted(set(opened))]))
"""


@pytest.fixture(scope="module")
def contents() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "packaging"))
    try:
        yield import_module("contents")
    finally:
        sys.path.remove(str(ROOT / "packaging"))
        sys.modules.pop("contents", None)


@pytest.mark.sampled(0.34)
def test_what_litellm_loads_to_write_requests_goes_along_and_no_more(contents: ModuleType) -> None:
    models = [model for kind, model in MODELS.items() if kind != "server"]
    ran = subprocess.run(
        [sys.executable, "-P", "-c", WRITE_REQUESTS, json.dumps(models)],
        capture_output=True,
        text=True,
        check=True,
    )
    modules, opened = json.loads(ran.stdout.splitlines()[-1])
    assert "litellm.llms.anthropic.chat.transformation" in modules, "it did write requests"
    assert [name for name in modules if not contents.keeps_litellm(name)] == []
    out = tuple(contents.EXCLUDED)
    assert [n for n in modules if n in out or n.startswith(tuple(f"{o}." for o in out))] == []
    assert {f"litellm.proxy.{name}" for name in contents.LITELLM_PROXY} <= set(modules)
    folder = f"{_folder('litellm')}/"
    inside = {path.removeprefix(folder) for path in opened if path.startswith(folder)}
    data = {path for path in inside if not path.endswith((".py", ".pyc", ".so"))}
    assert data == set(contents.LITELLM_DATA)


def test_every_file_beside_batons_code_goes_along(contents: ModuleType) -> None:
    named = {path for source, _ in contents.DATA for path in ROOT.glob(source)}
    beside = {
        path
        for path in (ROOT / "app" / "baton").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert beside
    assert beside - named == set()
    for source, target in contents.DATA:
        assert any(ROOT.glob(source)), source
        assert (ROOT / "app" / target).is_dir() or target.startswith("baton/models")


def test_the_router_goes_along_but_its_questions_dont(contents: ModuleType) -> None:
    shipped = {path.name for path in (ROOT / "models" / "router").iterdir()}
    assert shipped - set(contents.ROUTER) == {"kinds.csv"}


def test_what_the_sandbox_imports_by_name_is_there(contents: ModuleType) -> None:
    names = contents.jail_modules()
    assert "baton.workers.tools.child.sandbox_guest" in names
    code = "import sys\nfor name in sys.argv[1:]: __import__(name)"
    subprocess.run([sys.executable, "-P", "-c", code, *names], check=True)


def test_all_of_batons_modules_are_found(contents: ModuleType) -> None:
    found = set(contents.modules_below("baton"))
    assert {"baton", "baton.workers.local.child.main", "baton.core.strategies"} <= found
    assert "baton.__main__" not in found


def test_the_self_test_goes_along(contents: ModuleType) -> None:
    """The command imports it by name, and so does the process of each part."""
    assert "baton_self_test" in contents.BY_NAME
    found = set(contents.modules_below("baton_self_test"))
    assert {"baton_self_test.part_process", "baton_self_test.library_parts"} <= found


def test_the_systems_own_keyring_goes_along_and_no_other(contents: ModuleType) -> None:
    folder = _folder("keyring.backends")
    there = {name for _, name, _ in iter_modules([str(folder)], "keyring.backends.")}
    own = KEYRING.rpartition(".")[0]
    harmless = {"keyring.backends.fail", "keyring.backends.null"}
    assert there - set(contents.EXCLUDED) == {own, *harmless}


def test_what_only_the_build_needs_stays_out(contents: ModuleType) -> None:
    installed = {
        "PyInstaller": ["pyinstaller"],
        "zstandard": ["zstandard"],
        "click": ["click"],
        "jsonschema": ["jsonschema"],
        "google": ["protobuf", "lxml"],
    }
    out = contents.excluded(installed)
    assert {"PyInstaller", "zstandard", "tkinter"} <= set(out)
    assert not {"click", "jsonschema", "google"}.intersection(out)


@pytest.mark.parametrize("name", ["", "no-such", "unknown", "process.x"])
def test_an_unknown_child_is_refused(name: str) -> None:
    entry = [sys.executable, "-P", str(ROOT / "packaging" / "entry.py"), "--child", name]
    ran = subprocess.run(entry, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "baton: there is no such child process\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"LD_LIBRARY_PATH": "/bundle", "LD_LIBRARY_PATH_ORIG": "/theirs"}, "/theirs"),
        ({"LD_LIBRARY_PATH": "/bundle"}, None),
    ],
)
def test_other_programs_get_the_environment_back(before: dict[str, str], after: str | None) -> None:
    code = (
        "import os, runpy; entry = runpy.run_path('packaging/entry.py', run_name='entry');"
        "entry['_give_back_environment'](); print(dict(os.environ))"
    )
    environ = {"PATH": "/bin", "_PYI_ARCHIVE_FILE": "/bundle/baton", **before}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_PYI_" not in ran.stdout
    assert "/bundle" not in ran.stdout
    assert (f"'LD_LIBRARY_PATH': '{after}'" in ran.stdout) == (after is not None)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def test_the_endpoint_needs_nothing_that_stays_out(contents: ModuleType) -> None:
    code = (
        f"import sys\nfor name in {contents.EXCLUDED!r}: sys.modules[name] = None\n"
        "from baton.server import http_server\n"
        "from llama_cpp.llama_grammar import json_schema_to_gbnf\n"
        "print(http_server.is_loopback('::1'))"
    )
    command = [sys.executable, "-P", "-c", f"import baton.workers.local.child.llama\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
