"""What a build consists of is known, may be passed on, and its licences' texts go along."""

from __future__ import annotations

import platform
import re
import zlib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from support.folder_build import build, bundled_packages, canonical, notices, parts

FEW = ("click", "msgspec", "tokenizers", "python-stdnum")


def few() -> list[Distribution]:
    return [distribution(name) for name in FEW]


@pytest.fixture
def _no_dpkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no dpkg whose the system's libraries are, where that doesn't matter: it takes long."""
    monkeypatch.setenv("PATH", str(tmp_path))


no_dpkg = pytest.mark.usefixtures("_no_dpkg")


@pytest.mark.sampled(0.34)
def test_every_package_of_the_lock_may_be_passed_on_and_brings_its_licence(tmp_path: Path) -> None:
    packages = bundled_packages()
    assert len(packages) > 60
    modules = build(tmp_path / "all", packages)
    found = parts.parts(tmp_path / "all", modules, packages)
    purls = {part.purl.partition("@")[0] for part in found}
    assert {f"pkg:pypi/{canonical(one.name)}" for one in packages} <= purls
    versions = {part.name: part.version for part in found}
    assert all(versions[name] for name in ("CPython", "OpenSSL", "zlib", "llama.cpp"))
    inside = {part.name: part.version for part in found if " in " in part.name}
    assert inside.keys() >= {"SQLite in pysqlite3", "OpenSSL in cryptography"}
    assert all(re.match(r"\d", version) for name, version in inside.items() if "GCC" not in name)
    assert not [part.name for part in found if not all(part.texts)]
    text = notices.notices(found)
    for expected in (
        "Copyright 2014 Pallets",
        "Berri AI",
        "Gailly and Mark Adler",
        "Makoto Matsumoto",
    ):
        assert expected in text


@no_dpkg
def test_only_what_is_in_the_build_counts(tmp_path: Path) -> None:
    modules = build(tmp_path / "one", [distribution("click")])
    found = parts.parts(tmp_path / "one", modules, bundled_packages())
    assert [part.name for part in found if part.purl.startswith("pkg:pypi/")] == ["click"]
    names = {part.name for part in found}
    assert "SQLite" not in names
    assert "zlib" in names


@no_dpkg
@pytest.mark.parametrize("file", ["libreadline.so.8", "_gdbm.so", "stray/native.so", "notes.txt"])
def test_a_file_of_unknown_origin_ends_the_build(tmp_path: Path, file: str) -> None:
    modules = build(tmp_path / "odd", [distribution("click")], file)
    with pytest.raises(parts.PartsError, match=r"Nobody knows whose these are") as refused:
        parts.parts(tmp_path / "odd", modules, few())
    assert file in str(refused.value)


DPKG = """#!/bin/sh
case "$*" in
--search*libssl*) echo "openssl-extra, libssl3:amd64: /usr/lib/x86_64-linux-gnu/libssl.so.3" ;;
--search*libz*) printf 'diversion by x from: /lib/libz.so.1\\nzlib1g: /lib/libz.so.1\\n' ;;
--search*libpython*) echo "libpython3.11:amd64: /usr/lib/libpython3.11.so.1.0" ;;
--show*zlib1g) printf 'zlib 1:1.2.13.dfsg-1' ;;
--show*libpython3.11:amd64) printf 'python3.11 3.11.2-6+deb12u6' ;;
--show*openssl-extra) printf 'openssl 3.0.17-1~deb12u2' ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Debian whose Python is in the folder that is returned."""
    dpkg = tmp_path / "bin" / "dpkg-query"
    dpkg.parent.mkdir()
    dpkg.write_text(DPKG)
    dpkg.chmod(0o755)
    monkeypatch.setenv("PATH", f"{dpkg.parent}:/usr/bin:/bin")
    expected = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: expected)
    monkeypatch.setattr("sys.base_prefix", str(tmp_path / "python"))
    (tmp_path / "python" / "lib").mkdir(parents=True)
    return tmp_path / "python"


def origins(folder: Path) -> dict[str, tuple[str, str]]:
    modules = build(folder, [])
    found = parts.parts(folder, modules, [])
    return {part.name: (part.version, part.purl) for part in found}


def test_what_the_portable_root_compiled_is_known_by_debians_source_packages(
    tmp_path: Path, debian: Path
) -> None:
    (debian / "sources").write_text("openssl 3.0.20-1~deb12u2\npython3.11 3.11.2-6+deb12u8\n")
    assert parts.compiled().keys() == {"openssl", "python"}
    found = origins(tmp_path / "build")
    assert found["OpenSSL"] == (
        "3.0.20-1~deb12u2",
        "pkg:deb/debian/openssl@3.0.20-1~deb12u2?arch=source&distro=bookworm",
    )
    assert found["CPython"] == (
        "3.11.2-6+deb12u8",
        "pkg:deb/debian/python3.11@3.11.2-6%2Bdeb12u8?arch=source&distro=bookworm",
    )


def test_what_was_taken_from_debian_is_known_by_its_source_package(
    tmp_path: Path, debian: Path
) -> None:
    found = origins(tmp_path / "build")
    assert parts.compiled() == {}
    assert found["CPython"][0] == "3.11.2-6+deb12u6"
    assert found["OpenSSL"][1].startswith("pkg:deb/debian/openssl@3.0.17-1~deb12u2?")
    assert found["zlib"] == (
        "1:1.2.13.dfsg-1",
        "pkg:deb/debian/zlib@1%3A1.2.13.dfsg-1?arch=source&distro=bookworm",
    )


def test_what_a_python_brought_itself_is_not_taken_for_debians(
    tmp_path: Path, debian: Path
) -> None:
    import ssl

    for name in ("libpython3.11.so.1.0", "libssl.so.3"):
        (debian / "lib" / name).touch()
    found = origins(tmp_path / "build")
    upstream = ssl.OPENSSL_VERSION.split()[1]
    assert found["OpenSSL"] == (upstream, f"pkg:generic/openssl@{upstream}")
    assert found["CPython"][1] == f"pkg:generic/cpython@{platform.python_version()}"
    assert found["zlib"][0] == "1:1.2.13.dfsg-1"


@no_dpkg
def test_a_system_without_dpkg_yields_what_its_libraries_say(tmp_path: Path) -> None:
    found = origins(tmp_path / "build")
    assert found["zlib"][1] == f"pkg:generic/zlib@{zlib.ZLIB_RUNTIME_VERSION}"
    assert found["CPython"][0] == platform.python_version()


@no_dpkg
def test_another_llama_cpp_than_the_noted_one_ends_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "build"
    modules = build(folder, [], "llama_cpp/lib/libllama.so")
    (llama,) = (one for one in parts.parts(folder, modules, []) if one.name == "llama.cpp")
    assert re.fullmatch("[0-9a-f]{40}", llama.version)
    assert llama.purl == f"pkg:github/ggml-org/llama.cpp@{llama.version}"
    later = forge_distribution(tmp_path / "site")
    monkeypatch.setattr(parts, "distribution", lambda _: later)
    with pytest.raises(parts.PartsError, match=r"llama\.cpp was in llama-cpp-python .* is 1\.0"):
        parts.parts(folder, modules, [])


@no_dpkg
def test_glibc_in_the_launcher_is_on_the_list_and_its_licence_goes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = build(tmp_path / "build", [], "../baton")
    pyinstaller = forge_distribution(tmp_path / "site")
    monkeypatch.setattr(parts, "distribution", lambda _: pyinstaller)
    found = parts.parts(tmp_path / "build", modules, [])
    (glibc,) = (part for part in found if part.name == "glibc in the launcher")
    assert glibc.version.startswith("2.")
    assert not [part for part in found if "bootloader" in part.name and "zlib" in part.name]
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in notices.notices(found)


@no_dpkg
def test_the_bootloader_s_zlib_is_known_by_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = build(tmp_path / "build", [], "../baton")
    pyinstaller = forge_distribution(tmp_path / "site")
    monkeypatch.setattr(parts, "distribution", lambda _: pyinstaller)
    shown = b"\0ELF\xff inflate 1.3.2 Copyright 1995-2026 Mark Adler \0"
    (tmp_path / "build" / "baton").write_bytes(shown)
    found = parts.parts(tmp_path / "build", modules, [])
    (zlib_there,) = (part for part in found if part.name == "zlib in PyInstaller's bootloader")
    assert zlib_there.purl == "pkg:generic/zlib@1.3.2"


def forge_distribution(folder: Path, *lines: str, licence: bool = True) -> Distribution:
    info = folder / "forged-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "forged.py").touch()
    info.joinpath("METADATA").write_text("\n".join(["Name: forged", "Version: 1.0", *lines, ""]))
    info.joinpath("LICENSE").write_text("Do as you please.")
    texts = "forged-1.0.dist-info/LICENSE,,\n" if licence else ""
    info.joinpath("RECORD").write_text(f"forged.py,,\nforged-1.0.dist-info/METADATA,,\n{texts}")
    return Distribution.at(info)


@no_dpkg
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
    package = forge_distribution(tmp_path / "site", *lines)
    modules = build(tmp_path / "build", [package])
    with pytest.raises(parts.PartsError, match=why):
        parts.parts(tmp_path / "build", modules, [package])


@no_dpkg
def test_a_package_without_the_text_of_its_licence_ends_the_build(tmp_path: Path) -> None:
    package = forge_distribution(tmp_path / "site", "License-Expression: MIT", licence=False)
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
