"""`baton self` as a process of its own, which is killed at a certain step or finds a full disk.

It is the real command line with the real child process; only what the program was built as is told
to it, since a checkout isn't built. Steps are what the interpreter does with files of the
installation, as its audit hook sees them before they happen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baton.domain.releases import Switch
from support.downloads import PROCESSES
from support.releases import PLATFORM, program

OLD, NEW = "0.1.0", "0.2.0"

# What would else be imported for each command anew; one server makes all processes.
PROCESSES.set_forkserver_preload(
    [
        "baton.children.fetching.transfer",
        "baton.adapters.downloads",
        "baton.adapters.installed.starting",
        "baton.cli.own",
        "baton.cli.root",
        "baton.compose.own",
        "baton.engine.updating",
        "baton.secrets",
        "asyncio",
        "filelock",
        "multiprocessing.connection",
    ]
)


@dataclass(frozen=True)
class World:
    """A person's machine: Baton below `prefix`, its folders in `home`, a release in `source`."""

    root: Path
    key: str
    source: str = ""
    flavour: str = "full"

    @property
    def prefix(self) -> Path:
        """Where it was installed."""
        return self.root / "prefix"

    @property
    def target(self) -> Path:
        """What is started."""
        return self.prefix / "bin" / "baton"

    @property
    def share(self) -> Path:
        """Where all else of the installation lies."""
        return self.prefix / "share" / "baton"

    @property
    def home(self) -> Path:
        """Baton's own folders."""
        return self.root / "home"

    @property
    def staging(self) -> Path:
        """Where an update lies while it comes."""
        return self.target.parent / ".baton-update"

    def install(self, version: str = OLD, *, previous: str = "", loose: bool = False) -> World:
        """Put it down as the installer does."""
        self.target.parent.mkdir(parents=True)
        self.target.write_bytes(program(version))
        self.target.chmod(0o755)
        if loose:
            return self
        self.share.mkdir(parents=True)
        receipt = {
            "schema": 1,
            "version": version,
            "flavour": self.flavour,
            "platform": PLATFORM,
            "gpu": "",
            "source": self.source,
            "files": [str(self.target)],
        }
        (self.share / "install.json").write_text(json.dumps(receipt))
        if previous:
            (self.share / "previous").write_bytes(program(previous))
            (self.share / "previous").chmod(0o755)
        return self

    def receipt(self) -> dict[str, Any]:
        """Return what is noted of the installation."""
        noted: dict[str, Any] = json.loads((self.share / "install.json").read_text())
        return noted

    def version(self, file: Path | None = None) -> str:
        """Return which version lies where the person starts it; every byte of it must be there."""
        file = file or self.target
        assert os.access(file, os.X_OK)
        content = file.read_bytes()
        version = content.partition(b"baton ")[2].partition(b'"')[0].decode()
        assert content == program(version), f"{file} isn't whole"
        return version


@dataclass
class Told:
    """How a command ended, what it said, and the steps that it took."""

    code: int | None
    text: str
    steps: list[str] = field(default_factory=list)


def baton_self(world: World, *args: str, **more: Any) -> Told:
    """Run a command; `kill_at` is the step before which it is killed, `before` is called first."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_run, args=(world, ("self", *args), more, theirs))
    process.start()
    theirs.close()
    try:
        told = Told(*ours.recv())
    except EOFError:
        told = Told(None, "")
    process.join()
    process.close()
    ours.close()
    return told


def _run(world: World, args: Sequence[str], more: dict[str, Any], pipe: Any) -> None:
    from baton import built as building
    from baton.cli.root import run

    said = world.root / f"said-{os.getpid()}"
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(handle, stream)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    _prepare(world)
    if "before" in more:
        more["before"](world)
    version = subprocess.run(
        [world.target, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    what = building.Built(version, world.flavour, PLATFORM, update_key=world.key)
    building.built = lambda: what  # type: ignore[assignment]
    building.binary = lambda: world.target
    steps = Steps(world.prefix, more.get("kill_at", 0), more.get("at"))
    sys.addaudithook(steps)
    code = run(args)
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.send((code, said.read_text(errors="replace"), steps.seen))


def _prepare(world: World) -> None:
    for name in list(os.environ):
        if name.startswith(("BATON_", "HF_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ["BATON_HOME"] = str(world.home)
    os.environ["BATON_BINARY"] = str(world.target)
    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    os.umask(0o077)


class Steps:
    """Counts what is done with files below a folder, and at one of these steps does something."""

    WATCHED = ("open", "os.", "shutil.", "subprocess.")
    ASIDE = ("os.listdir", "os.scandir", "os.putenv", "os.unsetenv", "os.walk")

    def __init__(
        self, root: Path, kill_at: int = 0, at: dict[int, Callable[[], object]] | None = None
    ) -> None:
        self.seen: list[str] = []
        self._root = str(root)
        self._kill_at = kill_at
        self._at = at or {}

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Take an event of the interpreter's."""
        if not event.startswith(self.WATCHED) or event in self.ASIDE:
            return
        paths = [os.fsdecode(arg) for arg in args if isinstance(arg, str | bytes | Path)]
        ours = [path.removeprefix(self._root) for path in paths if path.startswith(self._root)]
        if not ours:
            return
        self.seen.append(f"{event} {' '.join(ours)}")
        number = len(self.seen)
        if number == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if number in self._at:
            self._at[number]()


def switched(jobs: Sequence[tuple[World, Switch, int]]) -> list[list[str] | None]:
    """Let what is staged take its place, in a process for each, killed before its step of that
    number; return the steps of each, None of those that were killed.
    """
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_switch_all, args=(jobs, theirs))
    process.start()
    theirs.close()
    done = [ours.recv() for _ in jobs]
    process.join()
    process.close()
    ours.close()
    return done


def _switch_all(jobs: Sequence[tuple[World, Switch, int]], pipe: Any) -> None:
    for world, switch, kill_at in jobs:
        said = world.root / "steps"
        if not (child := os.fork()):
            said.write_text("\n".join(switch_here(world, switch, kill_at)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        pipe.send(said.read_text().splitlines() if status == 0 else None)


def switch_here(world: World, switch: Switch, kill_at: int | None = None) -> list[str]:
    """Do the same in this process; with `kill_at`, its steps are counted."""
    from baton.adapters.installed import Installation

    steps = Steps(world.prefix, kill_at or 0)
    if kill_at is not None:
        sys.addaudithook(steps)
    installation = Installation(world.target, world.home / "state")
    with installation.alone():
        installation.mend()
        if switch.action == "update":
            staged = installation.stage("new", switch.sha256)
            staged.write_bytes(program(switch.coming.version))
            installation.make_ready(staged)
        else:
            staged = installation.stage_previous()
        installation.switch(staged, switch)
    return steps.seen
