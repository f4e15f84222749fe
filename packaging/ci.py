"""What the release workflow does with a build, the same on every system: `ci.py STEP`.

    check-tag    is the tag that is being built this version's?
    self-test    does every program in dist/ prove itself?
    name         copies what is released to dist/named, under its release names

Standard library only; run with any Python from 3.11 on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
BILL = ".cdx.json"
_SUFFIX = ".exe" if sys.platform == "win32" else ""


class Wrong(Exception):
    """The workflow can't continue; the text says why."""


def check_tag(environ: Mapping[str, str], version: str) -> None:
    """Raise Wrong if a tag is being built that isn't called after the version."""
    if environ.get("GITHUB_REF_TYPE") != "tag":
        return
    if (tag := environ.get("GITHUB_REF_NAME", "")) != f"v{version}":
        raise Wrong(f"The tag {tag!r} isn't this version's, which is v{version}.")
    if not re.fullmatch("[0-9a-f]{64}", environ.get("BATON_UPDATE_KEY", "")):
        raise Wrong("The repository's variable BATON_UPDATE_KEY isn't set to a public key.")


def version() -> str:
    """Return the version in the checkout."""
    text = (ROOT / "app" / "baton" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise Wrong("app/baton/__init__.py doesn't say a version.")
    return found[1]


def self_test(dist: Path) -> None:
    """Have every program prove itself, in a home of its own. Raises Wrong."""
    programs = [path / f"baton{_SUFFIX}" for path in sorted((dist / "folder").iterdir())]
    programs += [path for path, _ in built(dist) if path.suffix != ".zip"]
    for program in programs:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            ran = subprocess.run(
                [str(program), "doctor", "--self-test"],
                env=os.environ | {"BATON_HOME": home},
                stdin=subprocess.DEVNULL,
            )
        if ran.returncode:
            raise Wrong(f"{program} doesn't prove itself: exit {ran.returncode}.")


def built(dist: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield what a build made to be released, each with what it says of itself."""
    for path in sorted(dist.iterdir()):
        note = dist / "folder" / path.name.removesuffix(".zip") / "lib" / "baton" / "build.json"
        if path.is_file() and note.is_file():
            yield path, json.loads(note.read_text(encoding="utf-8"))


def name(dist: Path) -> list[Path]:
    """Copy what is released, and its bills, under their release names. Raises Wrong."""
    named = dist / "named"
    shutil.rmtree(named, ignore_errors=True)
    commits = {info.get("commit", "") for _, info in built(dist)}
    if len(commits) > 1:
        raise Wrong(f"A release is of one commit, and {dist} holds builds of {len(commits)}.")
    named.mkdir()
    for path, info in built(dist):
        slim = "-slim" if info["flavour"] == "slim" else ""
        gpu = f"-{info['gpu']}" if info["gpu"] else ""
        kind = ".zip" if path.suffix == ".zip" else ""
        target = named / f"baton{slim}-{info['version']}-{info['platform']}{gpu}{kind}"
        shutil.copy2(path, target)
        bill = path.with_name(path.name.removesuffix(".zip") + BILL)
        if not bill.is_file():
            raise Wrong(f"{bill} is missing: what {path.name} is made of.")
        shutil.copy2(bill, target.with_name(target.name + BILL))
    made = sorted(named.iterdir())
    if not made:
        raise Wrong(f"There is nothing to release in {dist}.")
    return made


def main(step: str) -> None:
    """Do one step."""
    if step == "check-tag":
        check_tag(os.environ, version())
    elif step == "self-test":
        self_test(DIST)
    elif step == "name":
        print("\n".join(path.name for path in name(DIST)))
    else:
        raise Wrong(f"There is no step {step!r}.")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Wrong as error:
        sys.exit(str(error))
