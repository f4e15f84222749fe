"""A machine on which the installer is run, and releases with small programs instead of Baton."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.terminal import Terminal

INSTALL = Path(__file__).parents[2] / "packaging" / "install.sh"
PLATFORM = "linux-x86_64"

SHELLS = {
    name: command
    for name, command in {
        "sh": ["sh"],
        "dash": ["dash"],
        "bash": ["bash", "--posix"],
        "busybox": ["busybox", "sh"],
    }.items()
    if shutil.which(command[0])
}

TOOLS = ["cat", "chmod", "cp", "grep", "ln", "mkdir", "mv", "rm", "rmdir", "sed", "sync"]
"""What the installer may use besides a shell: nothing that a bare system lacks."""

Done = subprocess.CompletedProcess[str]

PROGRAM = """#!/bin/sh
case $1 in
    --version) echo "baton VERSION" ;;
    completion) echo "# how $2 completes VERSION" ;;
esac
# PADDING
"""


def program(version: str) -> bytes:
    return PROGRAM.replace("VERSION", version).replace("PADDING", "x" * 100_000).encode()


def release(folder: Path, version: str = "0.1.0", platform: str = PLATFORM) -> Path:
    """Make a folder as a release is: both flavours, one of them for a graphics card too."""
    folder.mkdir(parents=True)
    names = [f"baton-{version}-{platform}", f"baton-slim-{version}-{platform}"]
    for name in (*names, f"baton-{version}-{platform}-cuda"):
        (folder / name).write_bytes(program(version))
    shutil.copy(INSTALL, folder)
    write_sums(folder)
    return folder


def write_sums(folder: Path) -> None:
    sums = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(folder.glob("baton-*"))
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))


@dataclass
class Machine:
    """A user's home, and a PATH with no more on it than was put there."""

    root: Path
    shell: list[str] = field(default_factory=lambda: ["sh"])

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        self.tools.mkdir()
        for name in (*TOOLS, "sha256sum"):
            self.has(name)
        self.gives("uname", '#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo x86_64\n')

    @property
    def home(self) -> Path:
        return self.root / "a home"

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    @property
    def prefix(self) -> Path:
        return self.home / ".local"

    @property
    def baton(self) -> Path:
        return self.prefix / "bin" / "baton"

    @property
    def previous(self) -> Path:
        return self.prefix / "share" / "baton" / "previous"

    @property
    def receipt(self) -> dict[str, object]:
        file = self.prefix / "share" / "baton" / "install.json"
        read: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
        return read

    def has(self, *names: str) -> None:
        for name in names:
            found = shutil.which(name)
            if found is None:
                pytest.skip(f"needs {name}")
            (self.tools / name).symlink_to(found)

    def lacks(self, name: str) -> None:
        (self.tools / name).unlink()

    def gives(self, name: str, script: str) -> None:
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def install(
        self, *args: str | Path, script: Path = INSTALL, stdin: bytes = b"", **environ: str
    ) -> Done:
        with self.start(*args, script=script, **environ) as running:
            out, err = running.communicate(stdin, timeout=60)
        return Done(running.args, running.returncode, out.decode(), err.decode())

    def start(
        self, *args: str | Path, script: Path = INSTALL, **environ: str
    ) -> subprocess.Popen[bytes]:
        """Start it in a session of its own, in which nothing else is."""
        return subprocess.Popen(
            self._command(script, *args),
            cwd=self.root,
            env={"HOME": str(self.home), "PATH": str(self.tools), **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def at_a_terminal(self, *args: str | Path, columns: int = 80) -> Terminal:
        """Start it on a screen."""
        environ = {"HOME": str(self.home), "PATH": str(self.tools)}
        return Terminal(self._command(INSTALL, *args), environ, columns)

    def _command(self, script: Path, *args: str | Path) -> list[str]:
        return [shutil.which(self.shell[0]) or "", *self.shell[1:], str(script), *map(str, args)]

    def folders(self) -> set[str]:
        """Every folder in the home."""
        return {str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.is_dir()}

    def files(self) -> dict[str, bytes]:
        """Every file in the home, by its path."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file()
        }


def well(done: Done) -> str:
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    return done.stdout


def refusal(done: Done, code: int = 1) -> str:
    """Check that it ended in one sentence, and return that."""
    assert done.returncode == code, done.stderr + done.stdout
    assert done.stderr.startswith("Baton was not installed: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


class Server(http.server.ThreadingHTTPServer):
    """Serves a release on loopback.

    Of `cut_file` only half comes, of `stalled_file` only half comes and then no
    more; `answers` is the status of every answer.
    """

    cut_file = ""
    stalled_file = ""
    answers = 200
    redirect_to = ""
    scheme = "http"
    root: Path

    def __init__(self, *args: Any) -> None:
        self.is_stuck, self.over = threading.Event(), threading.Event()
        super().__init__(*args)

    def finish_request(self, request: object, client_address: object) -> None:
        Handler(request, client_address, self, directory=str(self.root))  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"


class Handler(http.server.SimpleHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        if not self.is_redirected():
            super().do_HEAD()

    def is_redirected(self) -> bool:
        """Send it to another server, where there is one."""
        if self.server.redirect_to:
            self.send_response(302)
            self.send_header("Location", self.server.redirect_to + self.path)
            self.end_headers()
        return bool(self.server.redirect_to)

    def do_GET(self) -> None:
        if self.is_redirected():
            return
        if self.server.answers != 200:
            self.send_error(self.server.answers)
        elif self.server.cut_file and self.server.cut_file in self.path:
            self.send_half()
        elif self.server.stalled_file and self.server.stalled_file in self.path:
            self.send_half()
            self.server.is_stuck.set()
            self.server.over.wait()
        else:
            super().do_GET()

    def send_half(self) -> None:
        whole = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole[: len(whole) // 2])
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serve_folder(folder: Path, certificate: Path | None = None) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.root = folder
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.scheme = "https"
        thread = threading.Thread(target=functools.partial(server.serve_forever, 0.05))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


COMPLETIONS = {
    "bash": ".local/share/bash-completion/completions/baton",
    "zsh": ".local/share/zsh/site-functions/_baton",
    "fish": ".config/fish/completions/baton.fish",
}
