"""Real client programs use Baton over HTTP, each as its own settings say.

`programs.toml` is the table: one test for each program and column. A column passes where the
program itself got the right thing: the file is edited, its tool was called, its own types validated
the answer, its own class of error was raised.

`python tests/programs/install.py` installs what the table names; what isn't installed is skipped.
Programs get an empty home and no way out but loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from baton.server import read_tokens
from baton.server.client_settings import AnsweringModel, client_settings, read_clients
from support.scripted_agent import CONTEXT, COUNTED, DONE, scripted_agent
from support.served_baton import served_baton

HERE = Path(__file__).parent
APP = HERE.parents[1] / "app"
INSTALLED = HERE.parents[1] / "build" / "programs"
SMALL_CONTEXT = 2000
"""Less than what any of the prompts that must be refused takes."""
LIMIT_SECONDS = 300
"""After that a program hangs."""

PROMPTS = {
    "stream": "Count from one to five in words.",
    "tools": "Write the word baton into the file {folder}/proof.txt.",
    "loop": "Append the words red, green and blue to the file {folder}/proof.txt, each with a call"
    " of its own.",
    "structured": "Describe Oslo in the form that is asked for.",
    "long": "The password is swordfish. {filler} What is the password?",
    "error": "Hello. {filler}",
}
DRIVEN_PROMPTS = {**PROMPTS, "tools": "What is the weather in Oslo?"}
FILLER = "This is text of no importance. " * 8000
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
CITY = {"name": "Oslo", "people": 7, "mayor": {"name": "Oslo"}}


@dataclass(frozen=True)
class Program:
    """A row of the table."""

    name: str
    environment: str
    command: str
    columns: list[str]
    errors: list[str] | str
    settings: str = ""
    starter: list[str] = field(default_factory=list)
    commands: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_driven(self) -> bool:
        """Whether it is a package, which a driver of ours calls."""
        return "$DRIVERS" in self.command

    @property
    def folder(self) -> Path:
        """Where its commands are installed."""
        if self.environment == "node":
            return INSTALLED / "node_modules" / ".bin"
        return INSTALLED / self.environment / "bin"


TABLE = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
PROGRAMS = [Program(name, **row) for name, row in TABLE.items()]
COLUMNS = tuple(PROMPTS)

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Place:
    """Where Baton serves: `printed` gives what --print-config prints for a client."""

    url: str
    token: str
    printed: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """How a program ended, in the folder where it worked."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def value(self) -> Any:
        """What a driver printed."""
        assert self.code == 0, self.stderr[-3000:]
        return json.loads(self.stdout.splitlines()[-1])

    @property
    def proof(self) -> list[str]:
        """The lines of the file that it was asked to write."""
        file = self.folder / "proof.txt"
        return file.read_text().split() if file.exists() else []


def cases(of: str) -> list[Any]:
    """Return a case for each program and column of that list."""
    return [
        pytest.param(program, column, id=f"{program.name}-{column}")
        for program in PROGRAMS
        for column in getattr(program, of)
    ]


@pytest.mark.parametrize(("program", "column"), cases("columns"))
async def test_with_a_correct_agent(program: Program, column: str, tmp_path: Path) -> None:
    room = SMALL_CONTEXT if column == "error" else CONTEXT
    async with agent_served(tmp_path, program, room) as place:
        outcome = await run(program, column, place, tmp_path)
    if program.is_driven:
        expected = {
            "tools": {"place": "Oslo"},
            "structured": CITY,
            "error": program.errors,
            "long": "The password is swordfish.",
            "loop": DONE,
        }
        if column == "stream":
            assert len(outcome.value) > 1
            assert "".join(outcome.value) == COUNTED
        else:
            assert outcome.value == expected[column]
    elif column == "error":
        check_error(program, outcome)
    else:
        check_command(column, outcome)
    if column == "loop":
        assert outcome.proof == ["red", "green", "blue"]


@pytest.mark.parametrize(("program", "column"), cases("starter"))
async def test_with_the_starter_model(
    program: Program, column: str, starter: Place, tmp_path: Path
) -> None:
    outcome = await run(program, column, starter, tmp_path)
    if program.is_driven and column == "error":
        assert outcome.value == program.errors
    elif program.is_driven and column == "stream":
        assert len(outcome.value) > 1
    elif program.is_driven:
        assert outcome.value  # what the package validated
    elif column == "error":
        check_error(program, outcome)
    else:
        assert outcome.code == 0, outcome.stderr[-3000:]
        assert outcome.stdout.strip()
        if column == "structured":
            assert objects(outcome.stdout)


ASK_ANTHROPIC = """
from anthropic import Anthropic
messages = [{"role": "user", "content": "Hello"}]
answer = Anthropic().messages.create(model="baton/auto", max_tokens=50, messages=messages)
print(answer.content[0].text)
"""
EXAMPLES = {
    "openai": ("libraries", 'python "$HOME/printed"'),
    "openai-js": ("node", 'node --input-type=module - < "$HOME/printed"'),
    "anthropic": ("libraries", f"python -c '{ASK_ANTHROPIC}'"),
    "curl": ("node", "true"),  # the printed line itself asks
}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_printed_example_gets_an_answer(name: str, tmp_path: Path) -> None:
    environment, command = EXAMPLES[name]
    program = Program(name, environment, command, [], [], settings=name)
    async with agent_served(tmp_path, program, CONTEXT) as place:
        outcome = await run(program, "stream", place, tmp_path)
    assert outcome.code == 0, outcome.stderr
    assert "A short title" in outcome.stdout


def test_every_program_says_which_columns_it_lacks() -> None:
    for program in PROGRAMS:
        assert set(program.columns) <= set(COLUMNS)
        assert set(program.starter) <= set(program.columns)
        lacks = {column for column in COLUMNS if column not in program.columns}
        assert not lacks or program.missing, program.name
    proved = {program.settings for program in PROGRAMS} | set(EXAMPLES)
    # The package of Crush fetches the program itself when it is installed, from no registry.
    assert proved - {""} == set(read_clients()) - {"crush"}


def check_command(column: str, outcome: Outcome) -> None:
    """Check what a program of the terminal did."""
    assert outcome.code == 0, (outcome.stdout[-3000:], outcome.stderr[-3000:])
    match column:
        case "stream":  # in one piece, or in events with a word each
            assert re.search(".*".join(COUNTED.split()), outcome.stdout, re.DOTALL)
        case "tools":
            assert outcome.proof == ["baton"]
        case "structured":
            assert {"city": "Oslo", "people": 7} in objects(outcome.stdout)
        case "long":
            assert "swordfish" in outcome.stdout


def check_error(program: Program, outcome: Outcome) -> None:
    """Check that a program says why it got no answer, in words that it knows."""
    assert isinstance(program.errors, str)
    assert re.search(program.errors, outcome.stdout + outcome.stderr), outcome


def objects(text: str) -> list[Any]:
    """Return the JSON objects in a text, also those inside others."""
    decoder = json.JSONDecoder()
    found: list[Any] = []
    for match in re.finditer(r"\{", text):
        try:
            found.append(decoder.raw_decode(text, match.start())[0])
        except ValueError:
            continue
    inner = [value for outer in found for value in outer.values() if isinstance(value, dict)]
    return found + inner


async def run(program: Program, column: str, place: Place, folder: Path) -> Outcome:
    """Run a program in a folder of its own, set up as its printed settings say."""
    if not program.folder.exists():
        pytest.skip("needs `python tests/programs/install.py`")
    home, work = folder / "home", folder / "work"
    work.mkdir()
    home.mkdir()
    if program.environment == "node":  # where a driver's imports are looked for
        (work / "node_modules").symlink_to(INSTALLED / "node_modules")
    prompts = DRIVEN_PROMPTS if program.is_driven else PROMPTS
    prompt = home / "prompt.txt"
    prompt.write_text(prompts[column].format(folder=work, filler=FILLER))
    environ = {
        "PATH": f"{program.folder}:{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "BATON_URL": place.url,
        "BATON_ROOT": place.url.removesuffix("/v1"),
        "BATON_TOKEN": place.token,
        "COLUMN": column,
        "DRIVERS": str(HERE / "drivers"),
        "PROMPT_FILE": str(prompt),
        "SCHEMA": json.dumps(SCHEMA),
        # Whatever a program would ask of another machine is refused at once.
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), CLOSED),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        **QUIET,
    }
    command = program.commands.get(column, program.command)
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        f"{set_up(program, place, home)}\n{command}",
        cwd=work,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), LIMIT_SECONDS)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Outcome(process.returncode or 0, out.decode(), err.decode(), work)


CLOSED = "http://127.0.0.1:9"
"""A proxy that isn't there."""

QUIET = {
    "DO_NOT_TRACK": "1",
    "DISABLE_TELEMETRY": "1",
    "CONTINUE_TELEMETRY_ENABLED": "0",
    "DSPY_CACHEDIR": "cache",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OTEL_SDK_DISABLED": "true",
    "PI_OFFLINE": "1",
    "PI_TELEMETRY": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
}
"""What switches off that programs report home, or look for updates."""


def set_up(program: Program, place: Place, home: Path) -> str:
    """Return the lines of the shell that put the printed settings where they say."""
    if not program.settings:
        return ""
    printed = home / "printed"
    printed.write_text(place.printed[program.settings] + "\n")
    where = read_clients()[program.settings].place
    if where in ("python", "node"):
        return ""
    if where == "shell":
        return f'. "{printed}"'
    return f'file={where}\nmkdir -p "$(dirname "$file")"\ncp "{printed}" "$file"'


@asynccontextmanager
async def agent_served(folder: Path, program: Program, context: int) -> AsyncIterator[Place]:
    """Serve with the scripted agent."""
    worker = scripted_agent(context)
    async with served_baton(folder / "baton", [worker]) as served:
        printed = {}
        if program.settings:
            # The program believes in the room that it needs, so that it is the server that refuses.
            room = AnsweringModel(scripted_agent().card)
            tokens = read_tokens(served.baton.paths.server_tokens)
            settings = client_settings(program.settings, served.port, tokens, room)
            printed[program.settings] = settings.text
        yield Place(served.url, served.token, printed)


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run `baton serve` with the starter model, as a user would."""
    folder = tmp_path_factory.mktemp("starter")
    environ = {**os.environ, "BATON_HOME": str(folder), "PYTHONPATH": str(APP)}
    baton = [sys.executable, "-P", "-m", "baton", "serve"]

    def printed(*options: str) -> str:
        asked = subprocess.run([*baton, *options], env=environ, capture_output=True, text=True)
        assert asked.returncode == 0, asked.stderr
        return asked.stdout

    with subprocess.Popen(
        [*baton, "--port", "0"], env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            url = next(m[0] for line in lines if (m := re.search(r"http://\S+/v1", line)))
            token = re.search(r"baton-free-\S+", printed("--show-token"))
            assert token is not None
            port = re.search(r":(\d+)/", url)
            assert port is not None
            names = {program.settings for program in PROGRAMS if program.settings}
            settings = {
                name: printed("--print-config", name, "--port", port[1]).rstrip("\n")
                for name in sorted(names)
            }
            yield Place(url, token[0], settings)
        finally:
            process.terminate()
            process.communicate()
