"""What a build consists of is known, may be passed on, and its licences' texts go along."""

from __future__ import annotations

from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from support.bundle import build, bundled, canonical, notices, parts

FEW = ("click", "msgspec", "tokenizers", "python-stdnum")


def few() -> list[Distribution]:
    return [distribution(name) for name in FEW]


def test_every_package_of_the_lock_may_be_passed_on_and_brings_its_licence(tmp_path: Path) -> None:
    packages = bundled()
    assert len(packages) > 60
    modules = build(tmp_path / "all", packages)
    found = parts.parts(tmp_path / "all", modules, packages)
    purls = {part.purl.partition("@")[0] for part in found}
    assert {f"pkg:pypi/{canonical(one.name)}" for one in packages} <= purls
    assert {"pkg:generic/cpython", "pkg:generic/openssl", "pkg:generic/zlib"} <= purls
    inside = {part.name: part.version for part in found if " in " in part.name}
    assert set(inside) == {"SQLite in pysqlite3", "OpenSSL in cryptography"}
    assert all(version[0].isdigit() for version in inside.values())
    assert not [part.name for part in found if not all(part.texts)]
    text = notices.notices(found)
    for told in ("Copyright 2014 Pallets", "Berri AI", "Gailly and Mark Adler", "Makoto Matsumoto"):
        assert told in text


def test_only_what_is_in_the_build_counts(tmp_path: Path) -> None:
    modules = build(tmp_path / "one", [distribution("click")])
    found = parts.parts(tmp_path / "one", modules, bundled())
    assert [part.name for part in found if part.purl.startswith("pkg:pypi/")] == ["click"]
    names = {part.name for part in found}
    assert "SQLite" not in names
    assert "zlib" in names


@pytest.mark.parametrize("file", ["libreadline.so.8", "_gdbm.so", "stray/native.so", "notes.txt"])
def test_a_file_of_unknown_origin_ends_the_build(tmp_path: Path, file: str) -> None:
    modules = build(tmp_path / "odd", [distribution("click")], file)
    with pytest.raises(parts.PartsError, match=r"Nobody knows whose these are") as refused:
        parts.parts(tmp_path / "odd", modules, few())
    assert file in str(refused.value)


def forged(folder: Path, *lines: str, licence: bool = True) -> Distribution:
    info = folder / "forged-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "forged.py").touch()
    info.joinpath("METADATA").write_text("\n".join(["Name: forged", "Version: 1.0", *lines, ""]))
    info.joinpath("LICENSE").write_text("Do as you please.")
    texts = "forged-1.0.dist-info/LICENSE,,\n" if licence else ""
    info.joinpath("RECORD").write_text(f"forged.py,,\nforged-1.0.dist-info/METADATA,,\n{texts}")
    return Distribution.at(info)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["License-Expression: GPL-3.0-or-later"], "under GPL-3.0-or-later"),
        (["License-Expression: MIT AND AGPL-3.0-only"], "under MIT AND AGPL-3.0-only"),
        (["License: BSD"], "under BSD"),
        (["License: Some words of their own"], "doesn't tell its licence"),
        (["Classifier: License :: OSI Approved :: BSD License"], "doesn't tell its licence"),
        ([], "doesn't tell its licence"),
    ],
)
def test_a_licence_that_is_unknown_or_not_allowed_ends_the_build(
    tmp_path: Path, lines: list[str], why: str
) -> None:
    package = forged(tmp_path / "site", *lines)
    modules = build(tmp_path / "build", [package])
    with pytest.raises(parts.PartsError, match=why):
        parts.parts(tmp_path / "build", modules, [package])


def test_a_package_without_the_text_of_its_licence_ends_the_build(tmp_path: Path) -> None:
    package = forged(tmp_path / "site", "License-Expression: MIT", licence=False)
    modules = build(tmp_path / "build", [package])
    with pytest.raises(parts.PartsError, match="brings no text"):
        parts.parts(tmp_path / "build", modules, [package])


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("(Apache-2.0 OR GPL-2.0-only)", True),
        ("MIT AND Zlib", True),
        ("MIT AND GPL-2.0-only", False),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", True),
        ("GPL-3.0-or-later", False),
    ],
)
def test_an_expression_is_allowed_if_it_leaves_a_way(expression: str, verdict: bool) -> None:
    licences = {"MIT", "Zlib", "Apache-2.0", "GPL-3.0-or-later WITH GCC-exception-3.1"}
    assert parts.allowed(expression, licences) is verdict


def test_a_text_stands_once_with_all_that_it_is_about() -> None:
    one = parts.Part("one", "1", "MIT", "pkg:generic/one", ("Take  it.\n", "Extra."))
    two = parts.Part(
        "two", "", "MIT", "pkg:generic/two", ("Take it.",), source="https://two.example"
    )
    text = notices.notices([one, two])
    assert text.count("Take") == 1
    assert text.index("one 1\ntwo\n===") < text.index("Take") < text.index("Extra.")
    assert "two    MIT  https://two.example" in text
