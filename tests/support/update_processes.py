"""`baton self` as a process of its own, which is killed at a certain step or finds a full disk.

It is the real command line with the real child process; only the facts of the build
are given to it, since a checkout isn't built. Steps are what the interpreter does with files of the
installation, as its audit hook sees them before they happen.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from baton.download.releases import Switch
from support.download_processes import PROCESSES
from support.private_mounts import mount_small_disk
from support.sample_releases import PLATFORM, program

OLD, NEW = "0.1.0", "0.2.0"

# What would else be imported for each command; one server makes all processes.
PROCESSES.set_forkserver_preload(
    [
        "baton.download.child.transfer",
        "baton.download",
        "baton.install.installation",
        "baton.cli.installation",
        "baton.cli.root",
        "baton.install.updater",
        "baton.platform.secrets",
        "asyncio",
        "filelock",
        "multiprocessing.connection",
    ]
)


@contextmanager
def memory() -> Iterator[Path]:
    """Give a folder in memory where there is one: who is killed there needs no disk to wait for."""
    where = Path("/dev/shm")
    with TemporaryDirectory(dir=where if os.access(where, os.W_OK) else None) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class World:
    """A user's machine: Baton below `prefix`, its folders in `home`, a release in `source`."""

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
        """Where all else of the installation is."""
        return self.prefix / "share" / "baton"

    @property
    def home(self) -> Path:
        """Baton's own folders."""
        return self.root / "home"

    @property
    def staging(self) -> Path:
        """Where an update is while it comes."""
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
            "folders": [str(self.target.parent)],
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
        """Return which version is where the user starts it; every byte of it must be there."""
        file = file or self.target
        assert os.access(file, os.X_OK)
        content = file.read_bytes()
        version = content.partition(b"baton ")[2].partition(b'"')[0].decode()
        assert content == program(version), f"{file} isn't whole"
        return version


@dataclass
class CommandResult:
    """How a command ended, what it said, and the steps that it took."""

    code: int | None
    text: str
    steps: list[str] = field(default_factory=list)


def baton_self(
    world: World, *args: str, kill_after: float | None = None, **more: Any
) -> CommandResult:
    """Run a command. It is killed before its step `kill_at`, before the step `child` of its own
    child process, or after so many seconds.
    """
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_run, args=(world, ("self", *args), more, theirs))
    process.start()
    theirs.close()
    try:
        if kill_after is not None and not ours.poll(kill_after):
            process.kill()
        result = CommandResult(*ours.recv())
    except EOFError:
        result = CommandResult(None, "")
    process.join()
    process.close()
    ours.close()
    return result


def _run(world: World, args: Sequence[str], more: dict[str, Any], pipe: Any) -> None:
    _prepare(world)
    if "child" in more:
        _watch_child(world, more["child"])
    steps = Steps(world.prefix, more.get("kill_at", 0))
    sys.addaudithook(steps)
    pipe.send((*run_here(world, args), steps.seen))


def run_here(world: World, args: Sequence[str]) -> tuple[int, str]:
    """Run a command in this process, which is nothing else; return its code and what it said."""
    from baton.cli.root import run
    from baton.platform import build_info as building

    said = world.root / f"said-{os.getpid()}"
    for stream in (1, 2):
        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(handle, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    version = subprocess.run(
        [world.target, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    what = building.BuildInfo(version, world.flavour, PLATFORM, update_key=world.key)
    building.build_info = lambda: what  # type: ignore[assignment]
    building.binary_path = lambda: world.target
    code = run(args)
    sys.stdout.flush()
    sys.stderr.flush()
    return code, said.read_text(errors="replace")


def _prepare(world: World) -> None:
    for name in list(os.environ):
        if name.startswith(("BATON_", "HF_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ["BATON_HOME"] = str(world.home)
    os.environ["BATON_BINARY"] = str(world.target)
    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    os.umask(0o077)


_IN_CHILD = """
import sys
if sys.orig_argv[-2:] == ["--child", "fetcher"]:
    sys.path.append({tests!r})
    from support.update_processes import watched_in_child
    watched_in_child({root!r}, {number})
    sys.path.remove({tests!r})
"""


def _watch_child(world: World, number: int) -> None:
    """Have the child process count its steps, and end itself and its front before one of them."""
    folder = world.root / "site"
    folder.mkdir()
    tests = str(Path(__file__).parents[1])
    code = _IN_CHILD.format(tests=tests, root=str(world.root), number=number)
    (folder / "sitecustomize.py").write_text(code)
    os.environ["PYTHONPATH"] = str(folder)


def watched_in_child(root: str, number: int) -> None:
    """Count this child process's steps, and end it and its front before that one."""
    steps = Steps(Path(root) / "prefix", number, os.getppid())
    sys.addaudithook(steps)
    log = os.open(Path(root) / "child steps", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    steps.log_step = lambda step: os.write(log, f"{step}\n".encode())


class Steps:
    """Counts what is done with files below a folder, and before one of these steps kills itself.

    `also` is a process that is killed with it.
    """

    WATCHED = ("open", "os.", "shutil.", "subprocess.")
    ASIDE = ("os.listdir", "os.scandir", "os.putenv", "os.unsetenv", "os.walk")

    def __init__(self, root: Path, kill_at: int = 0, also: int = 0) -> None:
        self.seen: list[str] = []
        self.log_step: Callable[[str], object] = lambda step: None
        self.before: Callable[[int], object] = lambda number: None
        self._root = str(root)
        self._kill_at = kill_at
        self._also = also

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Take an event of the interpreter."""
        if not event.startswith(self.WATCHED) or event in self.ASIDE:
            return
        paths = [os.fsdecode(arg) for arg in args if isinstance(arg, str | bytes | Path)]
        ours = [path.removeprefix(self._root) for path in paths if path.startswith(self._root)]
        if not ours:
            return
        step = f"{event} {' '.join(ours)}"
        self.seen.append(step)
        self.log_step(step)
        if len(self.seen) == self._kill_at:
            if self._also:
                os.kill(self._also, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        self.before(len(self.seen))


def switch_in_processes(jobs: Sequence[tuple[World, Switch, int]]) -> list[list[str] | None]:
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
    from baton.install.installation import Installation

    steps = Steps(world.prefix, kill_at or 0)
    if kill_at is not None:
        sys.addaudithook(steps)
    installation = Installation(world.target, world.home / "state", world.home / "cache")
    with installation.hold_lock():
        installation.finish_switch()
        if switch.action == "update":
            staged = installation.stage_file("new", switch.sha256)
            staged.write_bytes(program(switch.coming.version))
            installation.make_executable(staged)
        else:
            staged = installation.stage_previous()
        installation.switch(staged, switch)
    return steps.seen


def on_a_disk_of(
    size: int, folder: Path, key: str, count: int | None
) -> list[dict[str, Any]] | None:
    """Update on a disk of that size, which is filled before some step, before every one (None), or
    not at all (0); then room is made, and it is done again. None: no disk is to be had.
    """
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_on_disk, args=(size, folder, key, count, theirs))
    process.start()
    theirs.close()
    outcomes: list[dict[str, Any]] | None = []
    while (one := ours.recv()) != "done":
        if one == "refused":
            outcomes = None
        elif outcomes is not None:
            outcomes.append(one)
    process.join()
    process.close()
    ours.close()
    return outcomes


def _on_disk(size: int, folder: Path, key: str, count: int | None, pipe: Any) -> None:
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    if not mount_small_disk(disk, size):
        pipe.send("refused")
        pipe.send("done")
        return
    steps = 45 if count is None else count
    numbers = [0] if count == 0 else sorted({1 + n * 44 // (steps - 1) for n in range(steps)})
    for number in numbers:
        root = folder / f"disk-{number}-{os.getpid()}"
        root.mkdir()
        (disk / "prefix").mkdir()
        (root / "prefix").symlink_to(disk / "prefix")
        world = World(root, key, str(folder / "release")).install(previous="0.0.9")
        code, text = _update_in_process(world, disk, number)
        outcome = {"step": number, "code": code, "text": text, "here": world.version()}
        (disk / "filling").unlink(missing_ok=True)
        again, _ = _update_in_process(world, disk, 0)
        outcome["then"] = (again, world.version(), world.version(world.share / "previous"))
        pipe.send(outcome)
        shutil.rmtree(disk / "prefix")
    pipe.send("done")


def _update_in_process(world: World, disk: Path, number: int) -> tuple[int, str]:
    """Update in a process of its own, before whose step of that number the disk is filled."""
    result = world.root / "result"
    if not os.fork():
        _prepare(world)
        steps = Steps(disk / "prefix")
        steps.before = lambda n: _fill(disk) if n == number else None
        sys.addaudithook(steps)
        code, text = run_here(world, ("self", "update"))
        result.write_text(json.dumps([code, text]))
        os._exit(0)
    os.wait()
    code, text = json.loads(result.read_text())
    return code, text


def _fill(disk: Path) -> None:
    with (disk / "filling").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def read_only(world: World) -> list[tuple[str, int, str]] | None:
    """Update, go back and uninstall where nothing can be written; None: that can't be had."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_read_only, args=(world, theirs))
    process.start()
    theirs.close()
    endings: list[tuple[str, int, str]] | None = ours.recv()
    process.join()
    process.close()
    ours.close()
    return endings


def _read_only(world: World, pipe: Any) -> None:
    disk = world.root / "disk"
    disk.mkdir()
    if not mount_small_disk(disk, 1 << 20):
        pipe.send(None)
        return
    shutil.copytree(world.prefix, disk / "prefix", dirs_exist_ok=True)
    shutil.rmtree(world.prefix)
    world.prefix.symlink_to(disk / "prefix")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    endings = []
    for command in (["update"], ["rollback"], ["uninstall", "--yes"]):
        result = world.root / "result"
        if not os.fork():
            _prepare(world)
            result.write_text(json.dumps(run_here(world, ("self", *command))))
            os._exit(0)
        os.wait()
        endings.append((command[0], *json.loads(result.read_text())))
    pipe.send(endings)
