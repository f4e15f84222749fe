"""Versions and names of releases."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as some

from baton.core.errors import BatonError
from baton.download.releases import is_newer, is_version, release_file_name

VERSIONS = [
    *("0.0.9", "0.1.0a1", "0.1.0b1", "0.1.0b2", "0.1.0b10", "0.1.0rc1", "0.1.0"),
    *("0.1.1", "0.2.0", "0.10.0", "1.0.0a1", "1.0.0", "10.0.0"),
]


@given(some.integers(0, len(VERSIONS) - 1), some.integers(0, len(VERSIONS) - 1))
def test_versions_have_one_order(one: int, other: int) -> None:
    assert is_newer(VERSIONS[one], VERSIONS[other]) == (one > other)


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-1", "1.0.0rc", "1.0.0 ", "1.0.0\n"),
        *("../1.0.0", "1.0.0/..", "\u0661.\u0660.\u0660", "1.0.0+x", "999999.0.0"),
    ],
)
def test_what_is_not_a_version_has_no_order(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(BatonError, match="isn't a version of Baton"):
        is_newer("1.0.0", text)


def test_names_say_what_a_file_is() -> None:
    assert release_file_name("1.0.0", "linux-x86_64", "full") == "baton-1.0.0-linux-x86_64"
    assert (
        release_file_name("1.0.0", "linux-x86_64", "slim", "cuda")
        == "baton-slim-1.0.0-linux-x86_64-cuda"
    )
    zipped = release_file_name("1.0.0", "windows-x86_64", "full", "", "folder")
    assert zipped == "baton-1.0.0-windows-x86_64.zip"
