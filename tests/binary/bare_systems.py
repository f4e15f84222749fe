"""Bare root file systems: a Debian of which only glibc, a shell and the core tools are left."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SUITES = {"bullseye": "11", "trixie": "13"}
"""The oldest Debian that Baton runs on, and the current stable one."""

PERSON = 1000
"""The user who runs Baton there, whom the system doesn't know by name."""

PROGRAMS = (
    *("bash", "cat", "chmod", "cp", "cut", "dash", "date", "df", "dirname", "env", "false", "grep"),
    *("head", "id", "ln", "ls", "mkdir", "mktemp", "mv", "printf", "readlink", "rm", "sed", "sh"),
    *("sha256sum", "sleep", "sort", "stat", "stty", "sync", "tail", "test", "touch", "tr", "true"),
    *("tty", "uname", "wc"),
)

SETTINGS = (
    *("debian_version", "group", "host.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("nsswitch.conf", "os-release", "passwd"),
)

NEVER = (
    "python*",
    "perl*",
    "gcc*",
    "cc",
    "*.crt",
    "*.pem",
    "locale*",
    "C.*8",
    "libstdc*",
    "zoneinfo",
)
"""What must not be found there, in the Debian of any year."""


def bare_root(suite: str, cache: Path) -> Path:
    """Return that Debian's bare root, which is made once with debootstrap (a minute, a network)."""
    root = cache / suite
    if not root.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = root.with_name(f"{suite}.partial")
        if partial.exists():
            shutil.rmtree(partial)
        command = ["debootstrap", "--variant=minbase", suite, str(partial)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"debootstrap failed: {done.stdout[-800:]}{done.stderr[-800:]}")
        _strip(partial)
        partial.rename(root)
    return root


def _strip(root: Path) -> None:
    """Remove all that could help a program that doesn't bring it along itself."""
    libraries = _needed_libraries(root)
    for name in ("usr/sbin", "usr/share", "usr/include", "usr/libexec", "usr/local", "var"):
        _keep(root / name, set())
    _keep(root / "etc", set(SETTINGS))
    _keep(root / "usr/bin", set(PROGRAMS))
    for folder in (root / "usr/lib").iterdir():
        if folder.name.endswith("-linux-gnu"):
            _keep(folder, libraries)
        elif folder.name != "os-release":
            _remove(folder)
    for name in ("proc", "dev", "tmp", "home", "opt", "root"):
        (root / name).mkdir(exist_ok=True)
    left = [path for pattern in NEVER for path in root.rglob(pattern)]
    assert not left, left


def _needed_libraries(root: Path) -> set[str]:
    """Return the names of what the kept programs load, and of all that belongs to glibc."""
    programs = [f"/usr/bin/{name}" for name in PROGRAMS if (root / "usr/bin" / name).exists()]
    expected = subprocess.run(
        ["chroot", root, "ldd", *programs], capture_output=True, text=True
    ).stdout
    needed = {line.split()[0] for line in expected.splitlines() if "=>" in line}
    glibc = next((root / "var/lib/dpkg/info").glob("libc6*.list")).read_text().splitlines()
    return {Path(name).name for name in needed} | {Path(file).name for file in glibc}


def _keep(folder: Path, names: set[str]) -> None:
    # A name may be a link: what it leads to stays, too.
    kept = {folder / name for name in names if (folder / name).exists()}
    kept |= {path.resolve() for path in kept}
    for path in list(folder.iterdir()):
        if path not in kept:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


ENTER = """
set -e
root=$1 home=$2 home_as=$3 tmp_as=$4 program=$5 user=$6
shift 6
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
for device in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
    mknod -m 666 "$root/dev/${device% *}" c 1 "${device#* }"
done
mknod -m 666 "$root/dev/tty" c 5 0
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o "mode=1777,$tmp_as" tmpfs "$root/tmp"
case $home_as in
    size=*) mount -t tmpfs -o "mode=755,uid=$user,gid=$user,$home_as" tmpfs "$root/home" ;;
    *)
        mount --bind "$home" "$root/home"
        mount -o "remount,bind,$home_as" "$root/home"
        ;;
esac
mount --bind "$program" "$root/opt"
mount -o remount,bind,ro "$root/opt"
chroot --userspec="$user:$user" "$root" "$@"
"""
"""Mounts what a program finds, in a mount name space that ends with it, and starts it there.

The shell stays, as the first process of a name space that isn't a program's business to be.
"""

LOOPBACK = "mount -t sysfs sysfs /sys; echo 0x9 > /sys/class/net/lo/flags\n"
"""Lets a machine talk with itself, which in a new name space of networks none can at first."""

ISOLATED = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]

ALONE = ["unshare", "--mount", "--net", "sh", "-c", f'{LOOPBACK}exec "$@"', "alone"]
"""Starts a program on this machine, with no network but its own loopback."""


@dataclass
class BareMachine:
    """A machine with nothing on it but Baton, in /opt, and a home; it talks with itself alone."""

    root: Path
    home: Path
    program: Path
    user: int = PERSON
    home_as: str = "rw"
    """How /home is mounted: options, or size=... for a small disk of its own."""
    tmp_as: str = "rw"
    loopback: bool = True
    """Whether it can talk with itself; in some containers it can't."""
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        os.chown(self.home, self.user, self.user)

    def command(self, *args: str) -> list[str]:
        """Return what starts this program there, for the user who runs commands here."""
        given = {"HOME": "/home", "PATH": "/usr/bin:/bin", **self.environ}
        return [
            *ISOLATED,
            *("sh", "-c", LOOPBACK + ENTER if self.loopback else ENTER, "enter"),
            *(str(self.root), str(self.home)),
            *(self.home_as, self.tmp_as, str(self.program), str(self.user)),
            *("env", "-i", "TERM=xterm-256color"),
            *(f"{name}={value}" for name, value in given.items()),
            *args,
        ]

    def run(self, *args: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        return subprocess.run(
            self.command(*args),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
