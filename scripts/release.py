"""Makes releases: a folder that can be published, be a mirror, or be on a stick.

    scripts/release keygen FILE           a new key to sign with; FILE.pub is for the builds
    scripts/release make --key FILE       dist/ -> dist/release/
    scripts/release check FOLDER --key FILE.pub

`make` takes what scripts/build has left in dist/ (`baton`, `baton-slim`), and what was brought
there from other machines under its release name. It looks into each: whole, of one version and
commit, with this key in it, portable, and with the bill of materials that its build left
(NAME.cdx.json). It copies them under those names, and writes beside them the list that
`baton self update` reads, its signature, SHA256SUMS and the installers.
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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from baton.core.frozen_dataclass import frozen_dataclass
from baton.download.releases import (
    FLAVOURS,
    MANIFEST,
    RELEASE_SCHEMA,
    SIGNATURE,
    Release,
    ReleaseFile,
    is_version,
    release_file_name,
)
from baton.platform.build_info import BuildInfo

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("packaging", "packaging/launcher")]
import inside  # noqa: E402

SUMS = "SHA256SUMS"
BILL = ".cdx.json"
"""What is put after a file's name for its bill of materials (packaging/sbom.py)."""
INSTALLERS = ("install.sh", "install.ps1")

_NAME = re.compile(
    r"baton(?P<slim>-slim)?-(?P<version>[0-9][0-9a-z.]*)"
    r"-(?P<platform>(?:linux|macos|windows)-(?:x86_64|aarch64|arm64))"
    r"(?:-(?P<gpu>cuda|vulkan))?(?P<zip>\.zip)?"
)
_BUILT = re.compile(r"baton(-slim)?(-cuda|-vulkan)?")
"""What scripts/build leaves, which says itself what it is."""

_SIGNATURE = re.compile(rb"[0-9a-f]{128}\s{0,2}")
_ORIGIN = re.compile(r'^(\s*\$?origin\s*=\s*)(["\']).*\2$', re.MULTILINE)


class ReleaseError(Exception):
    """A release that can't be made, or isn't right; the text says why."""


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A file to be released, what it is, and its bill of materials."""

    path: Path
    built: BuildInfo
    bill: Path | None = None

    @property
    def kind(self) -> str:
        """Whether it is to be started (file) or to be unpacked (folder)."""
        return "folder" if self.path.suffix == ".zip" else "file"

    @property
    def name(self) -> str:
        """Its name in the release."""
        what = self.built
        return release_file_name(what.version, what.platform, what.flavour, what.gpu, self.kind)

    def listed(self, size: int, sha256: str) -> ReleaseFile:
        """Return what the release's list says of it."""
        what = self.built
        about = (self.name, what.platform, what.flavour, what.gpu, self.kind)
        return ReleaseFile(*about, size, sha256)


@frozen_dataclass
class SignedRelease(Release):
    """A release's list, with the sha256 of all else that is there, by name."""

    others: Mapping[str, str] = field(default_factory=dict)


def keygen(file: Path) -> str:
    """Write a new private key that only its owner can read; return the public one, in hex."""
    file = file.absolute()
    if file.resolve().is_relative_to(ROOT):
        raise ReleaseError(f"{file} is in the repository: keep the private key outside of it.")
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
        raise ReleaseError(f"{file} is there already, and a key is never written over.") from None
    public = public_hex(key)
    Path(f"{file}.pub").write_text(f"{public}\n", "ascii")
    return public


def private_key(file: Path) -> Ed25519PrivateKey:
    """Return the key in a file. Raises ReleaseError, also where others can read it."""
    if file.suffix == ".pub":
        raise ReleaseError(
            f"{file} is a public key; a release is signed with the private one beside it."
        )
    if os.name == "posix" and file.stat().st_mode & 0o077:
        raise ReleaseError(f"Others can read {file}: `chmod 600` it; better, make a new one.")
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ReleaseError(f"{file} isn't a private key of `scripts/release keygen`.")
    return key


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public half of a key, as builds hold it."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw.hex()


def find(dist: Path, key: str) -> list[BuiltFile]:
    """Return what there is to be released, after a look inside of each. Raises ReleaseError.

    A build that checks its updates with another key would refuse the next release.
    """
    found: dict[str, BuiltFile] = {}
    if not dist.is_dir():
        raise ReleaseError(f"There is no folder {dist}: run scripts/build.")
    for path in sorted(dist.iterdir()):
        if path.is_file() and (_NAME.fullmatch(path.name) or _BUILT.fullmatch(path.name)):
            one = _look(path, key)
            if one.name in found:
                raise ReleaseError(f"{path} and {found[one.name].path} are both {one.name}.")
            found[one.name] = one
    if not found:
        raise ReleaseError(f"There is nothing to release in {dist}: run scripts/build.")
    for what in ("version", "commit"):
        different = {getattr(one.built, what): one.path.name for one in found.values()}
        if len(different) > 1:
            names = ", ".join(f"{name} of {value or '(none)'}" for value, name in different.items())
            raise ReleaseError(
                f"A release is of one {what}, and here are {names}: build all of it again."
            )
    return [found[name] for name in sorted(found)]


def _look(path: Path, key: str) -> BuiltFile:
    """Return what a file really is, which must be what it is called. Raises ReleaseError."""
    try:
        built = inside.look(path)
    except inside.Unfit as error:
        raise ReleaseError(str(error)) from error
    one = BuiltFile(path, built, path.with_name(path.name + BILL))
    slim, gpu = "-slim" * (built.flavour == "slim"), f"-{built.gpu}" * bool(built.gpu)
    known = _NAME.fullmatch(one.name) and is_version(built.version) and built.flavour in FLAVOURS
    if not known or path.name not in (one.name, f"baton{slim}{gpu}"):
        raise ReleaseError(f"{path} isn't what it is called: it says that it is {one.name}.")
    if built.commit.endswith("+changes"):
        raise ReleaseError(
            f"{path} was built of files that differ from its commit: commit and build again."
        )
    if built.update_key != key:
        raise ReleaseError(
            f"{path} checks its updates with the key {built.update_key or '(none)'}, and this"
            f" one is {key}: it could never be updated. Build it with this one (scripts/build"
            " --key FILE.pub)."
        )
    _check_bill(one)
    return one


def _check_bill(one: BuiltFile) -> None:
    """Refuse a bill of materials that is missing, or another build's. Raises ReleaseError."""
    assert one.bill
    if not one.bill.is_file():
        raise ReleaseError(f"{one.bill} is missing, which says what {one.path.name} is made of.")
    try:
        about = json.loads(one.bill.read_bytes())["metadata"]["component"]
        properties = {each["name"]: each["value"] for each in about.get("properties", ())}
        right = about["bom-ref"] == one.name.removesuffix(".zip")
    except (ValueError, LookupError, TypeError, AttributeError):
        right = False
    if not right or properties.get("baton:commit", one.built.commit) != one.built.commit:
        raise ReleaseError(f"{one.bill} isn't the bill of {one.path.name}: build that again.")


def make(dist: Path, folder: Path, key: Ed25519PrivateKey, released: str, origin: str) -> None:
    """Write a release of what was built; `released` is its day ("": its commit's).

    Raises ReleaseError.
    """
    if folder.resolve() == dist.resolve():
        raise ReleaseError(f"{folder} holds what is to be released: name another folder.")
    if re.fullmatch(r"(\d{4}-\d\d-\d\d)?", released) is None:
        raise ReleaseError(f"{released!r} isn't a day: --released YYYY-MM-DD.")
    found = find(dist, public_hex(key))
    write(found, folder, key, released or _day_of(found[0].built.commit), origin)


def write(
    found: Iterable[BuiltFile], folder: Path, key: Ed25519PrivateKey, released: str, origin: str
) -> None:
    """Write a release into a folder that is new, or holds an earlier one. Raises ReleaseError."""
    found = sorted(found, key=lambda one: one.name)
    commit = found[0].built.commit if found else ""
    installers = {name: _installer(name, origin, commit) for name in INSTALLERS}
    _clear(folder)
    files, others, version = [], {}, ""
    for one in found:
        version = one.built.version
        target = folder / one.name
        shutil.copyfile(one.path, target)
        target.chmod(0o755 if one.kind == "file" else 0o644)
        files.append(one.listed(target.stat().st_size, digest(target)))
        if one.bill:
            shutil.copyfile(one.bill, folder / (one.name + BILL))
            others[one.name + BILL] = digest(one.bill)
    for name, content in installers.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755)
        others[name] = digest(folder / name)
    manifest = SignedRelease(RELEASE_SCHEMA, version, released, tuple(files), others)
    content = (json.dumps(asdict(manifest), indent=2) + "\n").encode()
    (folder / MANIFEST).write_bytes(content)
    (folder / SIGNATURE).write_text(f"{key.sign(content).hex()}\n", "ascii")
    (folder / SUMS).write_bytes(_sums(folder))


def check(folder: Path, public: str) -> list[str]:
    """Return a line for each thing that is wrong with a release, down to a file too many."""
    try:
        release = read_signed_release(folder, public)
    except ReleaseError as error:
        return [str(error)]
    except OSError as error:
        return [_reason(error)]
    named = {
        release_file_name(release.version, file.platform, file.flavour, file.gpu, file.kind): file
        for file in release.files
    }
    wrong = [
        f"{file.name}: it should be called {right}"
        for right, file in named.items()
        if file.name != right
    ]
    sums = {right: file.sha256 for right, file in named.items()} | dict(release.others)
    sizes = {right: file.size for right, file in named.items()}
    own = {MANIFEST, SIGNATURE, SUMS}
    there = {path.name: path for path in folder.iterdir()}
    for name in sorted(sums.keys() | there.keys() | own):
        if name not in there:
            wrong.append(f"{name}: it isn't there")
        elif there[name].is_symlink() or not there[name].is_file():
            wrong.append(f"{name}: it isn't a plain file")
        elif name not in sums and name not in own:
            wrong.append(f"{name}: it isn't part of the release that was signed")
        elif name in sizes and there[name].stat().st_size != sizes[name]:
            wrong.append(f"{name}: its size isn't the one that was signed")
        elif name in sums and digest(there[name]) != sums[name]:
            wrong.append(f"{name}: its contents aren't those that were signed")
    if not wrong and there[SUMS].read_bytes() != _sums(folder):
        wrong.append(f"{SUMS}: it isn't that of the files here")
    return wrong


def read_signed_release(folder: Path, public: str) -> SignedRelease:
    """Return what was signed with that key. Raises ReleaseError."""
    content, signature = (folder / MANIFEST).read_bytes(), (folder / SIGNATURE).read_bytes()
    if _SIGNATURE.fullmatch(signature) is None:
        raise ReleaseError(f"{SIGNATURE}: it isn't a signature")
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature.decode()), content)
    except InvalidSignature:
        raise ReleaseError(f"{SIGNATURE}: it isn't that key's signature of {MANIFEST}") from None
    try:
        release = msgspec.json.decode(content, type=SignedRelease)
    except msgspec.MsgspecError as error:
        raise ReleaseError(f"{MANIFEST}: it can't be read: {error}") from None
    if release.schema != RELEASE_SCHEMA:
        raise ReleaseError(
            f"{MANIFEST}: it is of another kind ({release.schema}) than this can check"
        )
    return release


def digest(path: Path) -> str:
    """Return a file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _clear(folder: Path) -> None:
    """Make the folder, or empty it of an earlier release. Raises ReleaseError if it holds more."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {MANIFEST, SIGNATURE, SUMS, *INSTALLERS}
    there = sorted(folder.iterdir())
    for path in there:
        ours = path.name in known or _NAME.fullmatch(path.name.removesuffix(BILL))
        if path.is_dir() or not ours:
            raise ReleaseError(
                f"{folder} holds more than a release: {path.name}. Name an empty folder."
            )
    for path in there:
        path.unlink()


def _installer(name: str, origin: str, commit: str) -> bytes:
    """Return that commit's installer, which knows where the release will be, if it was said.

    It is that of this checkout where the commit isn't known here. Raises ReleaseError.
    """
    shown = _git("show", "--end-of-options", f"{commit}:packaging/{name}") if commit else None
    content = (ROOT / "packaging" / name).read_bytes() if shown is None else shown
    text = content.decode("utf-8")
    if origin:
        if re.fullmatch(r"https://[A-Za-z0-9.:/_~%-]+", origin) is None:
            raise ReleaseError(f"{origin!r} isn't a plain address that begins with https://.")
        text, count = _ORIGIN.subn(rf"\g<1>\g<2>{origin}\g<2>", text)
        if count != 1 and name.endswith(".sh"):
            raise ReleaseError(f"{name} has no line that says where the release is.")
    return text.encode("utf-8")


def _sums(folder: Path) -> bytes:
    paths = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{digest(path)}  {path.name}\n" for path in paths).encode()


def _day_of(commit: str) -> str:
    """Return the day of a commit, so that it always makes the same release. Raises ReleaseError."""
    day = _git("log", "-1", "--format=%cs", "--end-of-options", commit) if commit else None
    if day is None:
        known = (
            f"This checkout doesn't know the commit {commit}" if commit else "No commit is named"
        )
        raise ReleaseError(f"{known} of what was built: --released YYYY-MM-DD says the day.")
    return day.decode().strip()


def _git(*command: str) -> bytes | None:
    """Return what git says of this checkout, None where it can't."""
    done = subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True)
    return None if done.returncode else done.stdout


def _public(text: str) -> str:
    """Return a public key that was typed, or the one in a file."""
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return text
    try:
        typed = Path(text).read_bytes().decode("ascii", "replace").strip()
    except FileNotFoundError:
        typed = ""
    if re.fullmatch(r"[0-9a-f]{64}", typed) is None:
        raise ReleaseError(
            f"{text} isn't a public key, which has 64 hex digits, nor a file with one."
        )
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
    making.add_argument("--origin", default="", help="where it will be, for the installers")
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
            key = private_key(chosen.key)
            make(chosen.dist, target, key, chosen.released, chosen.origin)
            print(target)
        elif wrong := check(chosen.folder, public := _public(chosen.key)):
            print("\n".join(wrong), file=sys.stderr)
            return 1
        else:
            release = read_signed_release(chosen.folder, public)
            what = f"Baton {release.version} of {release.released}, {len(release.files)} builds"
            print(f"{chosen.folder} is as it was signed: {what}.")
    except OSError as error:
        print(f"scripts/release: {_reason(error)}", file=sys.stderr)
        return 1
    except (ReleaseError, ValueError) as error:
        print(f"scripts/release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
