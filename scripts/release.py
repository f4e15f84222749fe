"""Makes releases: a folder that can be published, be a mirror, or lie on a stick.

    scripts/release keygen FILE           a new key to sign with; FILE.pub is for the builds
    scripts/release make --key FILE       dist/ -> dist/release/
    scripts/release check FOLDER --key FILE.pub

`make` takes what scripts/build has left in dist/ (`baton`, `baton-slim`), and what was brought
there from other machines under its release name. It copies them under those names, and writes
beside them the list that `baton self update` reads, its signature, SHA256SUMS, the installers, and
of each file the bill of materials that its build left (NAME.cdx.json).
The same files, key and commit make the same folder, byte by byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from baton.domain.releases import (
    MANIFEST,
    SCHEMA,
    SIGNATURE,
    ReleaseFile,
    is_version,
    name_of,
)

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
BILL = ".cdx.json"
"""What is put after a file's name for its bill of materials (packaging/sbom.py)."""
INSTALLERS = ("install.sh", "install.ps1")

_NAME = re.compile(
    r"baton(?P<slim>-slim)?-(?P<version>[0-9][0-9a-z.]*)"
    r"-(?P<platform>(?:linux|macos|windows)-(?:x86_64|aarch64|arm64))"
    r"(?:-(?P<gpu>cuda|vulkan))?(?P<zip>\.zip)?"
)
_ORIGIN = re.compile(r'^(\s*\$?origin\s*=\s*)(["\']).*\2$', re.MULTILINE)


class Wrong(Exception):
    """A release that can't be made, or isn't right; the text says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file to be released, and what it is."""

    path: Path
    version: str
    platform: str
    flavour: str
    gpu: str
    kind: str

    @property
    def name(self) -> str:
        """Its name in the release."""
        return name_of(self.version, self.platform, self.flavour, self.gpu, self.kind)


def keygen(file: Path) -> str:
    """Write a new private key that only its owner can read; return the public one, in hex."""
    file = file.absolute()
    if file.resolve().is_relative_to(ROOT):
        raise Wrong(f"{file} is in the repository: keep the private key elsewhere.")
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        with open(file, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            opened.write(text)
    except FileExistsError:
        raise Wrong(f"{file} is there already, and a key is never written over.") from None
    public = public_hex(key)
    Path(f"{file}.pub").write_text(f"{public}\n", "ascii")
    return public


def private_key(file: Path) -> Ed25519PrivateKey:
    """Return the key in a file. Raises Wrong, also where others can read it."""
    if file.suffix == ".pub":
        raise Wrong(f"{file} is a public key; a release is signed with the private one beside it.")
    if os.name == "posix" and file.stat().st_mode & 0o077:
        raise Wrong(f"Others can read {file}: `chmod 600` it; better, make a new one.")
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise Wrong(f"{file} is no private key of `scripts/release keygen`.")
    return key


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public half of a key, as builds hold it."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw.hex()


def find(dist: Path, key: str) -> list[Found]:
    """Return what there is to be released. Raises Wrong.

    A build that checks its updates with another key would refuse the next release.
    """
    found: dict[str, Found] = {}
    if not dist.is_dir():
        raise Wrong(f"There is no folder {dist}: run scripts/build.")
    for path in sorted(dist.iterdir()):
        one = _named(path) or _built(path, key)
        if one is not None:
            if one.name in found:
                raise Wrong(f"{path} and {found[one.name].path} are both {one.name}.")
            found[one.name] = one
    versions = sorted({one.version for one in found.values()})
    if not found:
        raise Wrong(f"There is nothing to release in {dist}: run scripts/build.")
    if len(versions) > 1 or not is_version(versions[0]):
        raise Wrong(f"A release is of one version, and here are: {', '.join(versions)}.")
    return [found[name] for name in sorted(found)]


def _named(path: Path) -> Found | None:
    """Return a file that has its release name already."""
    match = _NAME.fullmatch(path.name)
    if match is None or not path.is_file():
        return None
    flavour, gpu = "slim" if match["slim"] else "full", match["gpu"] or ""
    kind = "folder" if match["zip"] else "file"
    return Found(path, match["version"], match["platform"], flavour, gpu, kind)


def _built(path: Path, key: str) -> Found | None:
    """Return a single file that scripts/build has just made: its folder says what it is."""
    if not path.is_file():
        return None
    notes = sorted((path.parent / "folder" / path.name).glob("**/baton/build.json"))
    if len(notes) != 1:
        return None
    what = json.loads(notes[0].read_text("utf-8"))
    if what.get("update_key", "") != key:
        raise Wrong(
            f"{path} checks its updates with the key {what.get('update_key') or '(none)'}, and this"
            f" one is {key}: it could never be updated. Build it with this one (scripts/build"
            " --key FILE.pub)."
        )
    gpu = what.get("gpu", "")
    return Found(path, what["version"], what["platform"], what["flavour"], gpu, "file")


def make(dist: Path, folder: Path, key: Ed25519PrivateKey, released: str, origin: str) -> None:
    """Write a release into a folder that is new, or holds an earlier one. Raises Wrong."""
    found = find(dist, public_hex(key))
    _clear(folder)
    files = []
    for one in found:
        target = folder / one.name
        shutil.copyfile(one.path, target)
        target.chmod(0o755 if one.kind == "file" else 0o644)
        if (bill := one.path.with_name(one.path.name + BILL)).is_file():
            shutil.copyfile(bill, folder / (one.name + BILL))
        files.append(
            ReleaseFile(
                one.name,
                one.platform,
                one.flavour,
                one.gpu,
                one.kind,
                target.stat().st_size,
                digest(target),
            )
        )
    manifest = {
        "schema": SCHEMA,
        "version": found[0].version,
        "released": released,
        "files": [asdict(file) for file in files],
    }
    content = (json.dumps(manifest, indent=2) + "\n").encode()
    (folder / MANIFEST).write_bytes(content)
    (folder / SIGNATURE).write_text(f"{key.sign(content).hex()}\n", "ascii")
    for name in INSTALLERS:
        if (source := ROOT / "packaging" / name).is_file():
            _write_installer(source, folder / name, origin)
    (folder / SUMS).write_text("".join(_sums(folder)), "ascii")


def check(folder: Path, public: str) -> list[str]:
    """Return a line for each thing that is wrong with a release."""
    wrong = []
    try:
        content = (folder / MANIFEST).read_bytes()
        signature = bytes.fromhex((folder / SIGNATURE).read_text("ascii").strip())
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, content)
    except InvalidSignature:
        return [f"{SIGNATURE}: it isn't that key's signature of {MANIFEST}"]
    except OSError as error:
        return [_reason(error)]
    except ValueError:
        return [f"{SIGNATURE}: it isn't a signature"]
    manifest = json.loads(content)
    for entry in manifest["files"]:
        file = ReleaseFile(**entry)
        right = name_of(manifest["version"], file.platform, file.flavour, file.gpu, file.kind)
        path = folder / right
        if file.name != right:
            wrong.append(f"{file.name}: it should be called {right}")
        elif not path.is_file():
            wrong.append(f"{right}: it isn't there")
        elif (path.stat().st_size, digest(path)) != (file.size, file.sha256):
            wrong.append(f"{right}: its contents aren't what {MANIFEST} says")
    there = (folder / SUMS).read_text("ascii") if (folder / SUMS).is_file() else ""
    if there != "".join(_sums(folder)):
        wrong.append(f"{SUMS}: it isn't that of the files here")
    return wrong


def digest(path: Path) -> str:
    """Return a file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _clear(folder: Path) -> None:
    """Make the folder, or take an earlier release out of it. Raises Wrong if it holds more."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {MANIFEST, SIGNATURE, SUMS, *INSTALLERS}
    inside = sorted(folder.iterdir())
    for path in inside:
        if path.name not in known and not _NAME.fullmatch(path.name.removesuffix(BILL)):
            raise Wrong(f"{folder} holds more than a release: {path.name}. Name an empty folder.")
    for path in inside:
        path.unlink()


def _write_installer(source: Path, target: Path, origin: str) -> None:
    """Copy an installer, which then knows where the release will lie, if anybody said."""
    text = source.read_bytes().decode("utf-8")
    if origin:
        if re.fullmatch(r"https://[A-Za-z0-9.:/_~%-]+", origin) is None:
            raise Wrong(f"{origin!r} is no plain address that begins with https://.")
        text, count = _ORIGIN.subn(rf"\g<1>\g<2>{origin}\g<2>", text)
        if count != 1 and source.suffix == ".sh":
            raise Wrong(f"{source.name} has no line that says where the release lies.")
    target.write_bytes(text.encode("utf-8"))
    target.chmod(0o755)


def _sums(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.name != SUMS:
            yield f"{digest(path)}  {path.name}\n"


def _day_of_commit() -> str:
    """Return the day of what is checked out, so that the same commit makes the same release."""
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%cs"]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.returncode:
        raise Wrong("This is no checkout of git: --released YYYY-MM-DD says the day.")
    return done.stdout.strip()


def _public(text: str) -> str:
    """Return a public key that was typed, or the one in a file."""
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return text
    try:
        typed = Path(text).read_bytes().decode("ascii", "replace").strip()
    except FileNotFoundError:
        typed = ""
    if re.fullmatch(r"[0-9a-f]{64}", typed) is None:
        raise Wrong(f"{text} is no public key, which has 64 hex digits, nor a file with one.")
    return typed


def _reason(error: OSError) -> str:
    """Return what went wrong with which file, in words."""
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"


def _arguments(args: Sequence[str] | None) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="scripts/release", description=__doc__.splitlines()[0])
    commands = options.add_subparsers(dest="command", required=True)
    new = commands.add_parser("keygen", help="make a key to sign with")
    new.add_argument("file", type=Path)
    making = commands.add_parser("make", help="make a release of what was built")
    making.add_argument("--key", type=Path, required=True, help="the private key's file")
    making.add_argument("--dist", type=Path, default=ROOT / "dist", help="what was built [dist]")
    making.add_argument("--to", type=Path, help="the release's folder [dist/release]")
    making.add_argument("--released", default="", help="its day [that of the commit]")
    making.add_argument("--origin", default="", help="where it will lie, for the installers")
    checking = commands.add_parser("check", help="check a release")
    checking.add_argument("folder", type=Path)
    checking.add_argument("--key", required=True, help="the public key, or its file")
    return options.parse_args(args)


def main(args: Sequence[str] | None = None) -> int:
    """Run what was asked for; ends with 1 when something is wrong."""
    chosen = _arguments(args)
    try:
        if chosen.command == "keygen":
            print(keygen(chosen.file))
        elif chosen.command == "make":
            target = chosen.to or chosen.dist / "release"
            day = chosen.released or _day_of_commit()
            make(chosen.dist, target, private_key(chosen.key), day, chosen.origin)
            print(target)
        elif wrong := check(chosen.folder, _public(chosen.key)):
            print("\n".join(wrong), file=sys.stderr)
            return 1
        else:
            print(f"{chosen.folder} is as it was signed.")
    except OSError as error:
        print(f"scripts/release: {_reason(error)}", file=sys.stderr)
        return 1
    except (Wrong, ValueError) as error:
        print(f"scripts/release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
