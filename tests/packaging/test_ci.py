"""What the release workflow does with a build, and that the workflow itself is tight."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
KEY = "ab" * 32


def script(path: str) -> ModuleType:
    """Return a script of packaging/ as a module."""
    file = ROOT / "packaging" / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ci = script("ci.py")


def built(dist: Path, name: str, **expected: str) -> Path:
    """Leave behind what a build does."""
    note = dist / "folder" / name.removesuffix(".zip") / "lib" / "baton" / "build.json"
    note.parent.mkdir(parents=True)
    says = {"version": "1.2.3", "flavour": "full", "platform": "linux-x86_64", "gpu": ""} | expected
    note.write_text(json.dumps(says))
    (dist / name).write_text(name)
    (dist / f"{name.removesuffix('.zip')}.cdx.json").write_text(f"of {name}")
    return dist


def test_everything_is_called_as_the_installers_look_for_it(tmp_path: Path) -> None:
    from baton.download.releases import release_file_name

    built(tmp_path, "baton")
    built(tmp_path, "baton-slim-cuda", flavour="slim", gpu="cuda")
    built(tmp_path, "baton-slim.zip", flavour="slim", platform="windows-x86_64")
    (tmp_path / "sizes.md").touch()
    wanted = {
        release_file_name("1.2.3", "linux-x86_64", "full", "", "file"): "baton",
        release_file_name("1.2.3", "linux-x86_64", "slim", "cuda", "file"): "baton-slim-cuda",
        release_file_name("1.2.3", "windows-x86_64", "slim", "", "folder"): "baton-slim.zip",
    }
    for _ in range(2):
        made = {path.name: path.read_text() for path in ci.name(tmp_path)}
        bills = {f"{name}.cdx.json": f"of {built}" for name, built in wanted.items()}
        assert made == wanted | bills


def test_a_build_without_its_bill_is_not_released(tmp_path: Path) -> None:
    (built(tmp_path, "baton") / "baton.cdx.json").unlink()
    with pytest.raises(ci.Wrong, match="what baton is made of"):
        ci.name(tmp_path)


def test_builds_of_several_commits_are_not_released_together(tmp_path: Path) -> None:
    built(tmp_path, "baton", commit="abc")
    built(tmp_path, "baton-vulkan", commit="def", gpu="vulkan")
    with pytest.raises(ci.Wrong, match=r"of one commit, and .* holds builds of 2"):
        ci.name(tmp_path)
    assert not (tmp_path / "named").exists()


def test_nothing_is_not_a_release(tmp_path: Path) -> None:
    with pytest.raises(ci.Wrong, match="nothing to release"):
        ci.name(tmp_path)


def test_a_program_that_fails_its_own_test_ends_the_workflow(tmp_path: Path) -> None:
    built(tmp_path, "baton")
    for program, code in (
        (tmp_path / "folder" / "baton" / "baton", 0),
        (tmp_path / "baton", 3),
    ):
        program.write_text(
            f'#!/bin/sh\n[ "$*" = "doctor --self-test" ] && [ -d "$BATON_HOME" ] && exit {code}\n'
        )
        program.chmod(0o755)
    with pytest.raises(ci.Wrong, match=r"/baton doesn't prove itself: exit 3"):
        ci.self_test(tmp_path)


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, ""),
        ({"GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "main"}, ""),
        ({"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v9.9", "BATON_UPDATE_KEY": KEY}, ""),
        ({"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "9.9", "BATON_UPDATE_KEY": KEY}, "v9.9"),
        ({"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v9.9"}, "BATON_UPDATE_KEY"),
    ],
)
def test_only_the_version_s_own_tag_is_built(environ: dict[str, str], why: str) -> None:
    if not why:
        ci.check_tag(environ, "9.9")
        return
    with pytest.raises(ci.Wrong, match=why):
        ci.check_tag(environ, "9.9")


def test_the_version_is_the_package_s() -> None:
    import baton

    assert ci.version() == baton.__version__


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_use_pinned_actions_and_may_do_little(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}, "each job says what it needs"
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    for action in used:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action), action
    for name, job in workflow["jobs"].items():
        writes = {what for what, how in job["permissions"].items() if how == "write"}
        assert not writes or name == "publish"
        secret = "secrets." in json.dumps(job)
        assert not secret or job.get("environment") == "release"
    for step in steps(workflow):
        # What another user may have named must not be read as a command.
        assert "${{" not in step.get("run", "")
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_what_workflows_run_of_ours_is_there(file: Path) -> None:
    paths = re.findall(r"(?:packaging|scripts|\.ci)/[\w/.-]*\w", file.read_text(encoding="utf-8"))
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_folder_is_packed_the_same_way_each_time(tmp_path: Path) -> None:
    make = script("windows/make.py")
    packed = []
    for number, names in enumerate((("baton.exe", "lib/a.dll"), ("lib/a.dll", "baton.exe"))):
        for name in names:
            file = tmp_path / str(number) / "baton" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(name.encode() * 100)
            os.utime(file, (number * 10**6, number * 10**6))
        make.pack(tmp_path / str(number) / "baton", archive := tmp_path / f"{number}.zip")
        packed.append(archive.read_bytes())
    assert packed[0] == packed[1]
    with zipfile.ZipFile(archive) as opened:
        assert opened.namelist() == ["baton/baton.exe", "baton/lib/a.dll"]
        assert opened.read("baton/baton.exe") == b"baton.exe" * 100


def test_windows_gets_a_version_in_four_numbers() -> None:
    expected = script("windows/version_info.py").version_info("1.2.3rc4")
    assert "filevers=(1, 2, 3, 4)" in expected
    assert 'StringStruct("ProductVersion", "1.2.3rc4")' in expected
