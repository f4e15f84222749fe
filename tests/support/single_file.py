"""Single files with something small inside, and what a program reports that one started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging" / "launcher"))

import pack as pack  # noqa: E402

PROBE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Prints what it was started with; with "wait" as first argument it ends with its input. */
int main(int count, char **arguments) {
    struct stat self;
    sigset_t blocked;
    printf("arguments");
    for (int i = 0; i < count; i++) {
        printf(" ");
        for (char *at = arguments[i]; *at; at++) printf("%02x", (unsigned char)*at);
    }
    printf("\nbinary %s\nfiles", getenv("BATON_BINARY"));
    for (int i = 0; i < 100; i++) if (fcntl(i, F_GETFD) >= 0) printf(" %d", i);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    printf("\nsignals");
    for (int i = 1; i < 65; i++) {
        struct sigaction found;
        if (sigaction(i, NULL, &found)) continue;
        if (found.sa_handler == SIG_IGN) printf(" ignored:%d", i);
        if (sigismember(&blocked, i) == 1) printf(" blocked:%d", i);
    }
    mode_t mask = umask(0);
    stat("/proc/self/exe", &self);
    printf("\numask %o\nprogram %lu\n", mask, (unsigned long)self.st_ino);
    fflush(stdout);
    if (count > 1 && !strcmp(arguments[1], "wait")) while (read(0, arguments[1], 1) > 0) {}
    return 7;
}
"""


@dataclass(frozen=True)
class SingleFile:
    """A single file, and the home in which it's started."""

    file: Path
    home: Path
    payload: pack.Trailer
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def app(self) -> Path:
        return self.home / "cache" / "app"

    @property
    def tree(self) -> Path:
        return self.app / self.payload.key

    def environ(self) -> dict[str, str]:
        return os.environ | {"BATON_HOME": str(self.home)} | self.environment

    def start(self, *arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.file, *arguments],
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )

    def open(self, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [self.file, *arguments]
        return subprocess.Popen(command, env=self.environ(), **(pipes | options))  # type: ignore[call-overload,no-any-return]

    def works(self) -> dict[str, str]:
        """Start it; return what the program prints, after a look at all that must be so."""
        ran = self.start()
        assert ran.stderr == b""
        assert ran.returncode == 7
        self.is_whole()
        return report(ran.stdout)

    def is_whole(self) -> None:
        expected = pack.contents(self.file)
        assert pack.entries(pack.manifest(self.tree)) == expected
        assert self.tree.stat().st_mode & 0o777 == 0o700
        assert not self.leftovers()

    def leftovers(self) -> list[str]:
        return [path.name for path in self.app.glob("*.part.*")]


Make = Callable[..., SingleFile]


def report(output: bytes) -> dict[str, str]:
    """Return what the probe prints, by the first word of each line."""
    lines = [line.partition(" ") for line in os.fsdecode(output).splitlines()]
    return {name: rest for name, _, rest in lines}
