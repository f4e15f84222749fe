"""What scripts/build leaves, small: single files and archives that say what they are, and bills."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.single_file import ROOT, pack

MINE = {"version": "0.2.0", "flavour": "full", "platform": "linux-x86_64", "gpu": ""}
MACHINE = {"linux-x86_64": b"\x3e", "linux-aarch64": b"\xb7"}
HEAD = {"macos-arm64": bytes.fromhex("cffaedfe0c000001"), "windows-x86_64": b"MZ\x90\0"}


@functools.cache
def program(platform: str) -> bytes:
    """Return a program for that system, or what begins like one."""
    if platform not in MACHINE:
        return HEAD[platform].ljust(400, b"\0")
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "main.c")
        code.write_text("int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", "-s", "-o", f"{folder}/main", str(code)], check=True)
        made = Path(folder, "main").read_bytes()
    return made[:18] + MACHINE[platform] + made[19:]


def build(
    dist: Path,
    name: str,
    facts: Mapping[str, str],
    *,
    files: Mapping[str, bytes] | None = None,
    head: str = "",
) -> Path:
    """Make a build of that name, with its bill; return it.

    `facts` is what it says of itself beyond MINE, `files` are more of what is in it, `head` is the
    system that it begins for, by default the one that it says.
    """
    says = {**MINE, "commit": "abc", "update_key": "", **facts}
    start = program(head or says["platform"])
    exe = "baton.exe" if name.endswith(".zip") else "baton"
    inside = {exe: start, "lib/baton/build.json": json.dumps(says).encode(), **(files or {})}
    dist.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "baton-slim" if says["flavour"] == "slim" else "baton")
        for path, data in inside.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        (folder / exe).chmod(0o755)
        if name.endswith(".zip"):
            (folder / "MANIFEST").write_text("".join(_line(*one) for one in inside.items()))
            zip_folder(folder, dist / name)
        else:
            Path(place, "launcher").write_bytes(start)
            pack.pack(folder, dist / name, Path(place, "launcher"), level=1)
    bill(dist / name, says)
    return dist / name


def bill(file: Path, says: Mapping[str, str]) -> Path:
    """Write the bill of materials of a build that says that of itself."""
    slim, gpu = "-slim" * (says["flavour"] == "slim"), f"-{says['gpu']}" * bool(says["gpu"])
    about: dict[str, Any] = {"bom-ref": f"baton{slim}-{says['version']}-{says['platform']}{gpu}"}
    about["properties"] = [{"name": "baton:commit", "value": says["commit"]}]
    written = file.with_name(f"{file.name}.cdx.json")
    written.write_text(json.dumps({"metadata": {"component": about}}))
    return written


def zip_folder(folder: Path, archive: Path) -> None:
    """Pack a folder as packaging/windows/make.py does."""
    spec = importlib.util.spec_from_file_location("make", ROOT / "packaging" / "windows/make.py")
    assert spec is not None
    assert spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    make.pack(folder, archive)


def _line(path: str, data: bytes) -> str:
    return f"f 0644 {len(data)} {hashlib.sha256(data).hexdigest()} {path}\n"


def library(folder: Path, *options: str) -> bytes:
    """Compile a small library, linked with these options."""
    folder.mkdir(exist_ok=True)
    (folder / "one.c").write_text("int one(void) { return 1; }\n")
    made = folder / "libone.so"
    command = ["cc", "-shared", "-fPIC", "-nostdlib", "-o", str(made), str(folder / "one.c")]
    subprocess.run([*command, *options], check=True)
    data = made.read_bytes()
    shutil.rmtree(folder)
    return data


def commit_folder(folder: Path) -> str:
    """Make a checkout of that folder with all of it in one commit, and return that."""
    git = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All of it"]):
        subprocess.run([*git, *command], check=True)
    asked = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()
