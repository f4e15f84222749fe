"""scripts/build refuses in a sentence what it can't build, before it begins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def build(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "build", *arguments],
        env={"PATH": os.environ["PATH"]},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_needs_nothing_but_python() -> None:
    ran = build("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "--portable" in ran.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "it isn't text"),
        (b"", "64 hex digits"),
        (b"g" * 64, "64 hex digits"),
        (b"-----BEGIN PRIVATE KEY-----\n", "64 hex digits"),
    ],
)
def test_a_wrong_key_is_one_sentence(tmp_path: Path, content: bytes | None, said: str) -> None:
    key = tmp_path / "key.pub"
    if content is not None:
        key.write_bytes(content)
    ran = build("--key", key)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert str(key) in ran.stderr
    assert said in ran.stderr


def test_a_gpu_that_nobody_builds_for_is_refused() -> None:
    ran = build("--gpu", "abacus")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'cuda', 'vulkan'" in ran.stderr
