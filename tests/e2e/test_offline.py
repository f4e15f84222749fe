"""What Baton connects to, seen by the kernel: every system call of it and all its children.

Needs root, strace and unshare, so it is skipped on other machines; a guard in `conftest.py` does
for the other tests. A traced process can hide nothing, native code and grandchildren included.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest

from support.fake_cloud import Cloud, Reply
from support.terminal import Terminal

pytestmark = pytest.mark.root

BATON = [sys.executable, "-I", "-m", "baton"]
NO_NETWORK = ["unshare", "--net"]
STRACE = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=%network,open,openat,io_uring_setup"]

CHEAP = [
    ["workers", "ls"],
    ["workers", "show", "small"],
    ["history", "ls"],
    ["history", "search", "lisbon"],
    ["budget", "show"],
    ["budget", "prices"],
    ["keys", "ls"],
    ["usage"],
    ["egress", "ls"],
    ["config", "show"],
    ["completion", "bash"],
]
"""Commands that load no model."""

CLOUD = """
[budget]
day = "2"
policy = "budget"
[[workers]]
id = "gpt"
kind = "cloud"
model = "openai/gpt-5-mini"
[[workers]]
id = "claude"
kind = "cloud"
model = "anthropic/claude-haiku-4-5"
"""

PARIS = "What is the capital of France?"

RUN_ALL = """
import json, os, sys
from baton.cli import main
os._exit = sys.exit  # which is how a command ends its process
for args, code in json.loads(sys.argv[1]):
    try:
        main(args)
    except SystemExit as end:
        assert end.code == code, (args, end.code)
    sys.stdout.flush()
"""
"""Runs commands one after the other in one process, each to its expected code."""

KEYS = {"OPENAI_API_KEY": "sk-canary-1", "ANTHROPIC_API_KEY": "sk-ant-canary-2"}


@cache
def missing() -> str:
    """Say what is missing here to watch system calls, or return ""."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "needs root on Linux"
    for command in ([*NO_NETWORK, "true"], [*STRACE, "-o", "/dev/null", "true"]):
        if not shutil.which(command[0]):
            return f"needs {command[0]}"
        if subprocess.run(command, capture_output=True).returncode:
            return f"{command[0]} is not allowed here"
    return ""


@pytest.fixture(autouse=True)
def _able() -> None:
    if reason := missing():
        pytest.skip(reason)


# What the kernel saw


@dataclass(frozen=True)
class TracedCalls:
    """What a traced program did: families of sockets, addresses, and signs of a name look-up."""

    families: frozenset[str]
    reached: frozenset[tuple[str, int]]
    listened: frozenset[int]
    look_ups: frozenset[str]
    files: frozenset[str]

    @property
    def nothing(self) -> bool:
        """Whether it never even made a socket that could leave this process's machine."""
        return not (self.families - {"AF_UNIX"} or self.reached or self.look_ups)


_CALL = re.compile(r"^\d+ +(\w+)\((.*)")
_FAMILY = re.compile(r"(AF_\w+)")
_INET = re.compile(
    r"sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )\"([^\"]+)\"", re.DOTALL
)
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
_RESOLVER = re.compile(r"/etc/(?:resolv\.conf|hosts|gai\.conf|host\.conf)$|nscd|systemd/resolve")


def read_trace(trace: Path) -> TracedCalls:
    families: set[str] = set()
    reached: set[tuple[str, int]] = set()
    listened: set[int] = set()
    look_ups: set[str] = set()
    files: set[str] = set()
    for line in trace.read_text(errors="replace").splitlines():
        if (match := _CALL.match(line)) is None:
            continue
        call, given = match.groups()
        path = _PATH.search(given)
        if call in ("open", "openat") and path:
            files.add(path[1])
        if call in ("open", "openat", "connect") and path and _RESOLVER.search(path[1]):
            look_ups.add(path[1])
        if call == "socket" and (family := _FAMILY.match(given)):
            families.add(family[1])
        addresses = {(host, int(port)) for port, host in _INET.findall(given)}
        if call in ("connect", "sendto", "sendmsg", "sendmmsg"):
            reached |= addresses
        if call in ("bind", "getsockname"):
            listened |= {port for _, port in addresses}
        if call == "io_uring_setup":
            families.add("what a trace can't see")
    return TracedCalls(
        frozenset(families),
        frozenset(reached),
        frozenset(listened),
        frozenset(look_ups),
        frozenset(files),
    )


class Tracer:
    """Runs programs under a trace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0

    def command(self, program: Sequence[str]) -> tuple[list[str], Path]:
        self._runs += 1
        trace = self._folder / f"trace {self._runs}"
        return [*STRACE, "-o", str(trace), *program], trace

    def run(
        self,
        *args: str,
        program: Sequence[str] = BATON,
        code: int = 0,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[str, TracedCalls]:
        """Run a command to its end; return what it wrote, and what the kernel saw."""
        command, trace = self.command([*program, *args])
        done = subprocess.run(
            command,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr, read_trace(trace)

    def run_all(
        self,
        commands: Sequence[tuple[list[str], int]],
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[str, TracedCalls]:
        """Run commands in one process, each to its expected code."""
        program = [sys.executable, "-I", "-c", RUN_ALL]
        return self.run(json.dumps(commands), program=program, environ=environ)

    def app(
        self,
        *args: str,
        program: Sequence[str] = BATON,
        environ: Mapping[str, str] = MappingProxyType({}),
        opens: str = "",
    ) -> TracedCalls:
        """Open the app, have a prompt answered, and quit; not before it `opens` such a file."""
        command, trace = self.command([*program, *args])
        terminal = Terminal(command, {**os.environ, **environ})
        use(terminal, lambda: opens in trace.read_text(errors="replace"))
        return read_trace(trace)


def use(app: Terminal, enough: Callable[[], bool] = lambda: True) -> None:
    try:
        app.wait_for("Ask anything")
        app.send(PARIS + "\r")
        app.wait_for("Paris")
        app.wait_for("finished in")
        app.wait(lambda _: enough())
        app.send("\x11")
        assert app.wait_end() == 0
    finally:
        app.close()


@pytest.fixture
def tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracer:
    # The real choice of a keyring: if any of them talked to a network, that would count.
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND", raising=False)
    return Tracer(tmp_path)


def configure(home: Path, text: str) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


ENGINE_PORTS = (11434, 1234, 8080, 8000, 30000)
"""Where engines are looked for."""

# The watch itself would notice

CONNECTS = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
SENDS = (
    "import socket, sys; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM);"
    "s.sendto(b'x', ('::1', int(sys.argv[1])))"
)
NESTED = f"""
import subprocess, sys, threading
def run(): subprocess.run([sys.executable, "-c", {CONNECTS!r}, sys.argv[1]], check=True)
thread = threading.Thread(target=run); thread.start(); thread.join()
"""
LOOKS_UP = """
import socket
try: socket.getaddrinfo("baton.invalid", 80)
except OSError: pass
"""


@pytest.mark.parametrize("code", [CONNECTS, NESTED])
def test_a_connection_would_be_seen(tracer: Tracer, code: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        _, seen = tracer.run("-c", code, str(port), program=[sys.executable])
    assert seen.reached == {("127.0.0.1", port)}
    assert not seen.nothing


def test_a_datagram_would_be_seen(tracer: Tracer) -> None:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("needs IPv6")
    _, seen = tracer.run("-c", SENDS, "9", program=[sys.executable])
    assert seen.reached == {("::1", 9)}


def test_a_name_look_up_would_be_seen(tracer: Tracer) -> None:
    _, seen = tracer.run("-c", LOOKS_UP, program=[*NO_NETWORK, sys.executable])
    assert seen.look_ups
    assert not seen.nothing


def test_a_look_for_engines_is_seen_and_goes_nowhere_but_here(
    tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "https://models.example.org")
    _, seen = tracer.run("workers", "detect")
    assert seen.reached == {("127.0.0.1", port) for port in ENGINE_PORTS}
    assert not seen.look_ups


def test_a_look_on_a_named_host_goes_there_and_nowhere_else(tracer: Tracer) -> None:
    _, seen = tracer.run("workers", "detect", "--host", "127.0.0.99")
    assert seen.reached == {("127.0.0.99", port) for port in ENGINE_PORTS}
    assert not seen.look_ups


# Offline


def refused_commands(*flags: str) -> list[tuple[list[str], int]]:
    """Commands that connect somewhere unless Baton is offline, each with its code then."""
    return [
        (["workers", "detect", *flags], 2),
        (["ask", *flags, "-m", "gpt", "Hi"], 2),
        (["ask", *flags, "-m", "claude", "--budget", "1", "Hi"], 2),
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["the flag", "the environment", "the settings"])
def test_nothing_that_may_not_leave_is_asked_for_anywhere(
    tracer: Tracer, home: Path, way: str
) -> None:
    """With cloud workers, a budget and keys: in each of the ways to be offline, or private."""
    configure(home, f"{'offline = true' if way == 'the settings' else ''}\n{CLOUD}")
    commands, environ = refused_commands(), KEYS
    if way == "the environment":
        commands += [(command, 0) for command in CHEAP]
        environ = {"BATON_OFFLINE": "1", **KEYS}
    elif way == "the flag":
        private = ["ask", "--private", "canary", "-m"]
        commands = [*refused_commands("--offline"), ([*private, "gpt"], 2)]
        commands += [([*private, "claude", "--budget", "1"], 2)]
    said, seen = tracer.run_all(commands, environ)
    assert said.count("offline") >= 3
    assert said.count("This conversation is local") == (2 if way == "the flag" else 0)
    assert seen.nothing, seen
    assert not any("/litellm/" in file for file in seen.files)


def test_of_a_mixed_list_of_addresses_only_those_here_are_reached(
    tracer: Tracer, home: Path
) -> None:
    with Cloud() as here:
        urls = [
            "http://10.255.255.1:8000/server/v1",
            here.base("server"),
            "http://gpu.lan/server/v1",
        ]
        lab = f'id = "lab"\nkind = "server"\nmodel = "kit-1"\nbase_url = {urls}\n'
        configure(home, f'[[workers]]\n{lab}price = {{ input = "0", output = "0" }}\n')
        said, seen = tracer.run("ask", "--offline", "-m", "lab", "Hello?")
    assert Reply().text.strip() in said
    assert seen.reached == {("127.0.0.1", here.port)}
    assert not seen.look_ups


@pytest.mark.sampled(0.5)
def test_a_private_prompt_is_scored_without_any_socket(tracer: Tracer, home: Path) -> None:
    """The router's child is there, and reads its model: what it makes of the prompt stays here."""
    configure(home, CLOUD)
    said, seen = tracer.run("ask", "--private", PARIS, environ=KEYS)
    assert "Paris" in said
    assert any(file.endswith("/models/router/encoder.onnx") for file in seen.files)
    assert seen.nothing, seen


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("said", "code"), [("y", 2), (" 1", 2), ("YES", 2), ("enabled", 2), ("2", 2)]
)
def test_an_offline_switch_however_it_is_written_never_connects(
    tracer: Tracer, home: Path, said: str, code: int
) -> None:
    """What reads as yes is offline, what can't be read stops the command."""
    configure(home, CLOUD)
    environ = {"BATON_OFFLINE": said, **KEYS}
    _, seen = tracer.run("ask", "-m", "gpt", "--budget", "1", "Hi", code=code, environ=environ)
    assert seen.nothing, seen


@pytest.mark.sampled(0.5)
def test_offline_a_server_worker_is_the_only_address(tracer: Tracer, home: Path) -> None:
    with Cloud() as cloud:
        entry = f'id = "lab"\nkind = "server"\nmodel = "kit-1"\nbase_url = "{cloud.base("server")}"'
        configure(home, f"{CLOUD}[[workers]]\n{entry}\n")
        _, seen = tracer.run("ask", "--offline", "-m", "lab", "Hi")
        assert len(cloud.calls) == 1
        assert seen.reached == {("127.0.0.1", cloud.port)}
        assert not seen.look_ups
        assert seen.families <= {"AF_UNIX", "AF_INET"}


# Without a cloud worker or offline: nothing makes a socket, so nothing misses a network


def test_online_the_commands_make_no_socket_either(tracer: Tracer) -> None:
    _, seen = tracer.run_all([(command, 0) for command in CHEAP])
    assert seen.nothing, seen
    assert not any("/litellm/" in file for file in seen.files)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["online", "offline", "without interfaces"])
@pytest.mark.parametrize("front", ["ask", "app", "doctor"])
def test_what_a_model_answers_makes_no_socket(
    tracer: Tracer, home: Path, front: str, way: str
) -> None:
    configure(home, CLOUD if way == "offline" else "")
    environ = KEYS if way == "offline" else {}
    program = [*NO_NETWORK, *BATON] if way == "without interfaces" else BATON
    flags = ["--offline"] if way == "offline" else []
    if front == "app":
        seen = tracer.app(*flags, program=program, environ=environ)
    else:
        prompt = [PARIS] if front == "ask" else []
        said, seen = tracer.run(front, *flags, *prompt, program=program, environ=environ)
        assert "Paris" in said or front == "doctor"
    assert seen.nothing, seen
    assert not any("/litellm/" in file for file in seen.files)


# Online: nothing opens a socket that the user didn't ask for


@pytest.mark.sampled(0.25)
def test_a_gateway_that_starts_ahead_connects_to_nothing_remote(tracer: Tracer, home: Path) -> None:
    """With a budget the app starts it, and litellm in it, before any call needs it.

    None does here: with the policy `budget` the router would have the cloud help so small a model.
    """
    configure(home, CLOUD.replace('policy = "budget"', 'policy = "never"'))
    seen = tracer.app(environ=KEYS, opens="/litellm/")
    assert any("/litellm/" in file for file in seen.files), "it was started"
    assert not seen.reached
    assert not seen.look_ups
    assert seen.families <= {"AF_UNIX", "AF_INET"}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_cloud_worker_is_sent_to_its_address_and_nothing_else_is(
    tracer: Tracer, home: Path, provider: str
) -> None:
    """No library of the gateway reports, looks prices up or checks for a newer version."""
    with Cloud() as cloud:
        worker = f"""
[[workers]]
id = "far"
kind = "cloud"
model = "{provider}/kit-1"
base_url = "{cloud.base(provider)}"
api_key_env = "{provider.upper()}_API_KEY"
price = {{ input = "1", output = "2" }}
"""
        configure(home, CLOUD + worker)
        _, seen = tracer.run("ask", "-m", "far", "Hi", environ=KEYS)
        assert len(cloud.calls) == 1
    assert {host for host, _ in seen.reached} == {"127.0.0.1"}
    assert cloud.port in {port for _, port in seen.reached}
    assert {port for _, port in seen.reached} <= {cloud.port, *seen.listened}
    assert not seen.look_ups
    assert "AF_NETLINK" not in seen.families
