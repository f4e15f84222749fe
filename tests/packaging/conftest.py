"""A small folder build, single files made of it, and a machine to install on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from support.installer_machine import Machine, Server, release, serve_folder
from support.single_file import PROBE, ROOT, Make, SingleFile, pack


@pytest.fixture(scope="session")
def launcher() -> Path:
    """The launcher, compiled once for many runs, by one of those that are side by side."""
    with FileLock(ROOT / "build" / "launcher.lock"):
        return pack.build_launcher(ROOT / "build")


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints what it was started with."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.c").write_text(PROBE)
    command = ["cc", "-static", "-o", str(folder / "probe"), str(folder / "probe.c")]
    subprocess.run(command, check=True, timeout=60)
    return folder / "probe"


@pytest.fixture(scope="session")
def build(probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small folder build, with all that one may have."""
    folder = tmp_path_factory.mktemp("folder build")
    shutil.copy(probe, folder / "baton")
    (folder / "_internal" / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "_internal" / "nothing").touch()
    (folder / "_internal" / "with a space é").write_bytes(b"x" * 5000)
    (folder / "_internal" / "libone.so.1").write_bytes(os.urandom(300_000))
    (folder / "_internal" / "libone.so").symlink_to("libone.so.1")
    (folder / "_internal" / "deep" / "er" / "up").symlink_to("../../nothing")
    (folder / "_internal" / "deep" / "run").write_text("#!/bin/sh\n")
    (folder / "_internal" / "deep" / "run").chmod(0o755)
    return folder


@pytest.fixture
def make(launcher: Path, build: Path, tmp_path: Path) -> Make:
    """Makes a single file, of the small folder build with more files in it."""

    def made(
        files: dict[str, bytes] | None = None, name: str = "baton", **environment: str
    ) -> SingleFile:
        folder = build
        if files:
            folder = tmp_path / f"folder of {name}"
            shutil.copytree(build, folder, symlinks=True)
            for path, data in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
        file = tmp_path / "bin" / name
        packed = pack.pack(folder, file, launcher, level=1)
        return SingleFile(file, tmp_path / "baton home", packed.payload, environment)

    return made


@pytest.fixture
def single(make: Make) -> SingleFile:
    """A single file that was never started."""
    return make()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return release(tmp_path / "the release")


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with serve_folder(folder) as server:
        yield server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine, with its key."""
    file = tmp_path_factory.mktemp("certificate") / "own.pem"
    openssl = shutil.which("openssl") or pytest.skip("needs openssl")
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=own -addext"
    options = [*made.split(), "subjectAltName=IP:127.0.0.1", "-keyout", "-"]
    ran = subprocess.run([openssl, *options], check=True, capture_output=True)
    file.write_bytes(ran.stdout)
    return file
