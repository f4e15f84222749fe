"""A machine with a packaged Baton, which the command line of this checkout takes itself for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from baton.platform import build_info as building
from support.http_server import FINE, Answer, Fault, ServedRequest, Server
from support.sample_releases import PLATFORM, keys, program, publish
from support.update_processes import NEW, OLD, World


@dataclass
class Machine:
    """The machine, the publisher's keys, and releases as they are published."""

    world: World
    key: Any
    built: building.BuildInfo
    folder: Path
    patch: pytest.MonkeyPatch

    def become(self, **fields: str) -> None:
        """Have the program be another build."""
        self.built = replace(self.built, **fields)

    def publish(self, version: str = NEW, programs: Any = None, name: str = "release") -> Path:
        """Publish a release."""
        return publish(self.folder / name, self.key, version, programs)

    def resign(self, release: Path, **changes: Any) -> None:
        """Change a release's list, and sign it again with the right key."""
        manifest = json.loads((release / "manifest.json").read_text())
        file = changes.pop("file", {})
        manifest |= changes
        for entry in manifest["files"] if isinstance(manifest.get("files"), list) else []:
            entry |= file
        self.sign(release, json.dumps(manifest).encode())

    def sign(self, release: Path, content: bytes) -> None:
        """Write any list, rightly signed."""
        (release / "manifest.json").write_bytes(content)
        (release / "manifest.json.sig").write_text(self.key.sign(content).hex())

    @property
    def is_as_before(self) -> bool:
        """Whether nothing has changed, and nothing is left over."""
        there = {path.name for path in self.world.share.iterdir()}
        return (
            self.world.version() == OLD
            and self.world.receipt()["version"] == OLD
            and there == {"install.json", "previous"}
            and self.world.version(self.world.share / "previous") == "0.0.9"
        )


def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **fields: str) -> Machine:
    """Put Baton down on a machine, and start it from there as it were."""
    key, public = keys(tmp_path / "keys")
    world = World(tmp_path / "m", public).install(previous="0.0.9")
    what = building.BuildInfo(OLD, "full", PLATFORM, update_key=public)
    made = Machine(world, key, replace(what, **fields), tmp_path, monkeypatch)
    monkeypatch.setattr(building, "build_info", lambda: made.built)
    monkeypatch.setattr(building, "binary_path", lambda: world.target)
    monkeypatch.setenv("BATON_BINARY", str(world.target))
    monkeypatch.setenv("BATON_HOME", str(world.home))
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    return made


@dataclass
class Mirror:
    """A server on loopback with a release's files, which may misbehave."""

    address: str
    seen: list[ServedRequest] = field(default_factory=list)
    fault: dict[str, Fault] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)


@contextmanager
def serve_release(folder: Path) -> Iterator[Mirror]:
    """Serve a folder below /b/; a fault counts for as many `times`, else always."""
    mirror = Mirror("")

    def answer(seen: ServedRequest) -> tuple[Answer, Fault]:
        mirror.seen.append(seen)
        name = seen.path.removeprefix("/b/")
        file = folder / name
        fault = mirror.fault.get(name, FINE)
        if name in mirror.times:
            mirror.times[name] -= 1
            fault = fault if mirror.times[name] >= 0 else FINE
        if "/" in name or not file.is_file():
            return Answer(404), FINE
        return Answer(200, file, ranges=True), fault

    server = Server("mirror", answer)
    mirror.address = f"http://127.0.0.1:{server.port}/b"
    try:
        yield mirror
    finally:
        server.close()
        assert not server.errors


__all__ = ["Machine", "Mirror", "machine", "program", "serve_release"]
