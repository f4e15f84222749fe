"""What is believed of a release: what the key has signed, and nothing that is cut or missing."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from baton.download.child import signed_release
from baton.download.messages import FetchReleaseFile
from baton.download.releases import MANIFEST, SIGNATURE
from baton.ipc.parent_channel import Failure
from support.sample_releases import keys


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder's files."""

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "release"


def sign_manifest(folder: Path, content: bytes) -> str:
    """Put a manifest with its signature there; return the key that checks it."""
    private, public = keys(folder.with_name("keys"))
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_bytes(content)
    (folder / SIGNATURE).write_text(private.sign(content).hex() + "\n")
    return public


def refusal(folder: Path, key: str) -> str:
    """Return what is said of a release that nothing may be used of."""
    with pytest.raises(Failure) as failure:
        signed_release.fetch_manifest(str(folder), key)
    return str(failure.value)


def test_what_the_key_signed_is_believed(folder: Path) -> None:
    key = sign_manifest(folder, b"{}")
    assert signed_release.fetch_manifest(str(folder), key) == "{}"
    (folder / MANIFEST).write_bytes(b"{ }")
    assert "its signature is wrong" in refusal(folder, key)
    (folder / SIGNATURE).write_text("0" * 127)
    assert "its signature isn't one" in refusal(folder, key)
    other, _ = keys(folder.with_name("other"))
    (folder / SIGNATURE).write_text(other.sign(b"{ }").hex())
    assert "its signature is wrong" in refusal(folder, key)


def test_a_list_is_read_whole_or_not_at_all(folder: Path) -> None:
    key = sign_manifest(folder, b" " * signed_release.MAX_MANIFEST_BYTES)
    assert (
        signed_release.fetch_manifest(str(folder), key) == " " * signed_release.MAX_MANIFEST_BYTES
    )
    key = sign_manifest(folder, b" " * (signed_release.MAX_MANIFEST_BYTES + 1))
    assert "is far too long" in refusal(folder, key)
    key = sign_manifest(folder, b"\xff")
    assert "its list isn't text" in refusal(folder, key)


def test_a_list_that_is_missing_is_named(folder: Path) -> None:
    said = refusal(folder, "0" * 64)
    assert said.startswith(f"{folder / MANIFEST} can't be read: it isn't there.")


def test_an_address_without_a_release_is_named(folder: Path) -> None:
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            with pytest.raises(Failure, match="There is nothing at"):
                signed_release.fetch_manifest(f"http://127.0.0.1:{server.server_port}", "0" * 64)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("key", ["", "zz", "00", "0" * 62])
def test_with_a_key_that_is_none_nothing_is_believed(folder: Path, key: str) -> None:
    sign_manifest(folder, b"{}")
    assert refusal(folder, key).startswith("The key that this build checks updates with")


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "isn't there"), (b"", "has 0 bytes where 5 are"), (b"123456", "has 6 bytes where 5")],
)
def test_a_file_that_is_missing_or_cut_is_not_copied(
    folder: Path, content: bytes | None, what: str
) -> None:
    folder.mkdir()
    if content is not None:
        (folder / "baton").write_bytes(content)
    target = folder.with_name("target") / "baton"
    with pytest.raises(Failure, match=what):
        signed_release.fetch_release_file(
            FetchReleaseFile(str(folder), "baton", 5, "0" * 64, target),
            lambda _: None,
            lambda: False,
        )
    assert not target.parent.exists()
