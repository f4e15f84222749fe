"""`baton self update` and `rollback`: only what was signed, never down unasked, always whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from baton.platform.paths import find_paths
from support.command_line import Call
from support.http_server import Fault
from support.packaged_machine import Machine, machine, serve_release
from support.sample_releases import PLATFORM, program
from support.terminal import Terminal
from support.update_processes import NEW, OLD

pytestmark = [
    pytest.mark.sampled(0.34),
    pytest.mark.skipif(sys.platform == "win32", reason="there it is a folder build"),
]

BINARY = f"baton-{NEW}-{PLATFORM}"

AS_BINARY = """
from baton.platform import build_info
from baton.platform.build_info import BuildInfo
from baton.cli import main
from pathlib import Path
what = {own.built!r}
build_info.build_info = lambda: what
build_info.binary_path = lambda: Path("{own.world.target}")
main({args!r})
"""
"""The command line in a process of its own, which takes itself for a packaged binary."""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine(tmp_path, monkeypatch)


def test_from_a_folder_and_back_and_forth(call: Call, own: Machine) -> None:
    release = own.publish()
    done = call("self", "update", "--from", str(release))
    assert done.code == 0, done.err
    assert f"Updated to {NEW} (full)" in done.err
    assert own.world.version() == NEW
    assert own.world.version(own.world.share / "previous") == OLD
    assert own.world.receipt() | {"files": 0, "folders": 0} == {
        "schema": 1,
        "version": NEW,
        "flavour": "full",
        "platform": PLATFORM,
        "gpu": "",
        "source": str(release),
        "files": 0,
        "folders": 0,
    }
    assert sorted(path.name for path in own.world.target.parent.iterdir()) == ["baton"]

    own.become(version=NEW)
    for here, before in ((OLD, NEW), (NEW, OLD)):
        done = call("self", "rollback", "--json")
        assert done.code == 0, done.err
        report = json.loads(done.out)
        assert (report["version"], report["previous_version"]) == (here, before)
        assert (own.world.version(), own.world.receipt()["version"]) == (here, here)
        assert own.world.version(own.world.share / "previous") == before
        own.become(version=here)

    again = call("self", "update", "--json")  # from where it was installed, now that folder
    report = json.loads(again.out)
    assert (report["standing"], report["action"], report["available"]) == ("here", "none", False)


def test_from_an_address_with_a_cut_it_continues_where_it_was(call: Call, own: Machine) -> None:
    content = program(NEW, size=2_000_000)
    with serve_release(own.publish(programs={("full", ""): content})) as mirror:
        mirror.fault[BINARY] = Fault(cut=700_000)
        mirror.times[BINARY] = 1
        done = call("self", "update", "--from", mirror.address + "/")
        assert done.code == 0, done.err
        assert own.world.target.read_bytes() == content
        starts = [seen.start for seen in mirror.seen if seen.path.endswith(BINARY)]
        assert starts[0] == 0 < starts[1] <= 700_000
        assert own.world.receipt()["source"] == mirror.address + "/"
        assert not [seen for seen in mirror.seen if "authorization" in seen.headers]


def test_a_mirror_may_be_plain_http_and_never_sees_an_accounts_token(
    call: Call, own: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # of the hub, which this isn't
    with serve_release(own.publish()) as mirror:
        monkeypatch.setenv("http_proxy", mirror.address.removesuffix("/b"))
        done = call("self", "update", "--from", "http://mirror.example/b")
        assert done.code == 0, done.err
        assert own.world.version() == NEW
        assert not [seen for seen in mirror.seen if "hf_secret" in str(seen.headers)]


def test_check_only_reports(call: Call, own: Machine) -> None:
    own.publish()
    release = str(own.folder / "release")
    done = call("self", "update", "--check", "--from", release)
    assert (done.code, done.out) == (
        0,
        f"There is {NEW} (full) of 2026-11-21; this is {OLD} (full).\n",
    )
    report = json.loads(call("self", "update", "--check", "--json", "--from", release).out)
    assert (report["available"], report["version"], report["installed_version"]) == (True, NEW, OLD)
    assert own.is_as_before


def test_quiet_says_nothing_where_all_went_well(call: Call, own: Machine) -> None:
    done = call("self", "update", "-q", "--from", str(own.publish()))
    assert (done.code, done.out, done.err) == (0, "", "")
    assert own.world.version() == NEW


def test_what_is_not_from_the_publisher_is_reported_as_json_too(call: Call, own: Machine) -> None:
    release = own.publish()
    (release / "manifest.json.sig").write_text("0" * 128)
    done = call("self", "update", "--from", str(release), "--force", "-y", "--json", "-q")
    assert done.code == 2
    assert "its signature is wrong" in json.loads(done.out)["error"]["message"]
    assert own.is_as_before


def test_an_old_release_that_was_signed_long_ago_is_not_taken_unasked(
    call: Call, own: Machine
) -> None:
    release = str(own.publish("0.0.5"))
    done = call("self", "update", "--from", release)
    assert (done.code, "is older than this" in done.err, "--force" in done.err) == (1, True, True)
    assert own.is_as_before
    done = call("self", "update", "--from", release, "--force")
    assert (done.code, "no terminal to ask on" in done.err) == (2, True)
    assert own.is_as_before
    assert call("self", "update", "--from", release, "--force", "-y").code == 0
    assert own.world.version() == "0.0.5"


def test_another_binary_of_the_same_version_is_not_taken_unasked(call: Call, own: Machine) -> None:
    content = program(OLD, seed=7)
    release = str(own.publish(OLD, {("full", ""): content}))
    done = call("self", "update", "--from", release)
    assert (done.code, "of the same version" in done.err) == (1, True)
    assert own.is_as_before
    assert call("self", "update", "--from", release, "--force").code == 0
    assert own.world.target.read_bytes() == content


def test_flavour_and_gpu_are_kept_and_can_be_changed(call: Call, own: Machine) -> None:
    own.become(flavour="slim", gpu="vulkan")
    contents = {
        (flavour, gpu): program(NEW, seed=seed)
        for seed, (flavour, gpu) in enumerate(
            [("full", ""), ("slim", ""), ("full", "vulkan"), ("slim", "vulkan")]
        )
    }
    release = str(own.publish(programs=contents))
    assert call("self", "update", "--from", release).code == 0
    assert own.world.target.read_bytes() == contents["slim", "vulkan"]
    own.become(version=NEW)
    done = call("self", "update", "--flavour", "full", "--gpu", "none")
    assert done.code == 0, done.err
    assert own.world.target.read_bytes() == contents["full", ""]
    noted = own.world.receipt()
    assert (noted["flavour"], noted["gpu"]) == ("full", "")
    own.become(flavour="full", gpu="")
    assert call("self", "rollback").code == 0
    noted = own.world.receipt()
    assert (noted["flavour"], noted["gpu"]) == ("slim", "vulkan")
    done = call("self", "update", "--gpu", "cuda")
    assert (done.code, "has no file for linux-x86_64, full, cuda" in done.err) == (1, True)


@pytest.mark.parametrize("how", ["flag", "environment", "settings"])
def test_offline_sends_no_request_and_takes_folders(
    call: Call, own: Machine, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    flags = ["--offline"] if how == "flag" else []
    if how == "environment":
        monkeypatch.setenv("BATON_OFFLINE", "1")
    elif how == "settings":
        find_paths().config.mkdir(parents=True)
        find_paths().config_file.write_text("offline = true\n")
    release = own.publish()
    with serve_release(release) as mirror:
        done = call("self", "update", "--from", mirror.address, *flags)
        assert (done.code, "Baton is offline" in done.err) == (2, True)
        assert "--from FOLDER" in done.err
        assert mirror.seen == []
    assert own.is_as_before
    assert call("self", "update", "--from", str(release), *flags).code == 0
    assert own.world.version() == NEW


def test_a_missing_or_bad_source_is_reported_with_what_to_do(
    call: Call, own: Machine, tmp_path: Path
) -> None:
    done = call("self", "update")
    assert (done.code, "--from" in done.err) == (2, True)
    done = call("self", "update", "--from", str(tmp_path / "nowhere"))
    assert (done.code, "Name a folder that holds a release" in done.err) == (2, True)
    done = call("self", "update", "--from", "https://me:secret@example.org/")
    assert (done.code, "isn't the address of a release" in done.err) == (2, True)
    assert "secret" not in done.err
    done = call("self", "update", "--from", "http://127.0.0.1:1/b")
    assert (done.code, "can't be reached" in done.err) == (6, True)
    assert "models" not in done.err
    own.become(update_key="")
    done = call("self", "update", "--from", str(own.publish()))
    assert (done.code, "has no key to check updates with" in done.err) == (2, True)
    assert "`scripts/build --key FILE.pub`" in done.err
    assert "none, so it takes no updates" in call("self", "show").out
    own.world.share.joinpath("previous").unlink()
    done = call("self", "rollback")
    assert (done.code, "No version before this one is kept" in done.err) == (1, True)


def test_a_previous_version_that_does_not_start_is_not_gone_back_to(
    call: Call, own: Machine
) -> None:
    previous = own.world.share / "previous"
    previous.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 127\n")
    done = call("self", "rollback")
    assert (done.code, "no such library" in done.err) == (1, True)
    assert own.world.version() == OLD
    assert not own.world.staging.exists()
    previous.write_bytes(own.world.target.read_bytes())
    done = call("self", "rollback")
    assert (done.code, "this very one" in done.err) == (1, True)


def test_a_damaged_previous_version_is_not_gone_back_to(call: Call, own: Machine) -> None:
    """It starts from what it had unpacked, so that starting it shows nothing."""
    assert call("self", "update", "--from", str(own.publish())).code == 0
    previous = own.world.share / "previous"
    previous.write_bytes(previous.read_bytes() + b"# 4 bytes")
    done = call("self", "rollback")
    assert (done.code, "is damaged, so nothing was changed" in done.err) == (1, True)
    assert own.world.version() == NEW
    assert not own.world.staging.exists()


def test_settings_that_this_version_cannot_read_are_not_a_reason_to_stay_with_it(
    call: Call, own: Machine
) -> None:
    find_paths().config.mkdir(parents=True)
    find_paths().config_file.write_text("from_the_future = true\n")
    assert call("self", "update", "--from", str(own.publish())).code == 2
    assert call("self", "rollback").code == 0
    assert own.world.version() == "0.0.9"


def test_of_two_at_once_one_does_it(call: Call, own: Machine) -> None:
    from baton.install.installation import Installation

    release = str(own.publish())
    with Installation(own.world.target, find_paths().state, find_paths().cache).hold_lock():
        for command in (["update", "--from", release], ["rollback"], ["uninstall", "-y"]):
            done = call("self", *command)
            assert (done.code, "Another Baton is just changing" in done.err) == (1, True)
    assert own.is_as_before


def test_one_that_was_started_before_another_updated_it_takes_nothing_back(
    call: Call, own: Machine
) -> None:
    """It still believes that it is the old one."""
    newest = str(own.publish("0.3.0", name="newest"))
    assert call("self", "update", "--from", newest).code == 0
    done = call("self", "update", "--from", str(own.publish()))
    assert (done.code, "is older than this (0.3.0" in done.err) == (1, True)
    done = call("self", "update", "--from", newest)
    assert (done.code, "already" in done.err) == (0, True)
    assert own.world.version(own.world.share / "previous") == OLD


def test_a_checkout_a_package_and_a_folder_build_are_distinguished(
    call: Call, own: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import baton
    from baton.platform import build_info as building

    monkeypatch.delenv("BATON_BINARY")
    for command in (["update"], ["rollback"], ["uninstall", "-y"], ["show"]):
        done = call("self", *command)
        assert (done.code, "This Baton is a folder" in done.err) == (2, True)
    monkeypatch.setattr(building, "build_info", lambda: None)
    for command in (["update"], ["rollback"], ["uninstall", "-y"], ["show"]):
        done = call("self", *command)
        assert (done.code, "runs from a checkout" in done.err, "`git pull`" in done.err) == (
            2,
            True,
            True,
        )
        assert str(find_paths().data) in done.err
    monkeypatch.setattr(baton, "__file__", str(tmp_path / "site-packages/baton/__init__.py"))
    done = call("self", "update")
    assert (done.code, "`pip install -U" in done.err) == (2, True)
    assert own.is_as_before


def test_show_names_the_installed_version(call: Call, own: Machine) -> None:
    own.become(commit="abc1234")
    assert call("self", "update", "--from", str(own.publish())).code == 0
    own.become(version=NEW)
    out = call("self", "show").out
    for report in (NEW, PLATFORM, "abc1234", str(own.world.target), f"{OLD} (full), in "):
        assert report in out
    report = json.loads(call("self", "show", "--json").out)
    assert (report["version"], report["previous_version"]) == (NEW, OLD)


def test_the_help_has_examples(call: Call) -> None:
    for command in ([], ["update"], ["uninstall"]):
        done = call("self", *command, "--help")
        assert (done.code, "Examples:" in done.out) == (0, True)
    assert "self" in call("--help").out


def test_going_down_is_asked(own: Machine) -> None:
    release = str(own.publish("0.0.5"))
    args = ["self", "update", "--force", "--from", release]
    code = AS_BINARY.format(own=own, args=args)
    for typed, version in (("\r", OLD), ("y\r", "0.0.5")):
        screen = Terminal([sys.executable, "-P", "-c", code], os.environ)
        screen.wait_for("[y/N]:")
        screen.answer(typed)
        assert screen.wait_end() == (1 if version == OLD else 0)
        assert own.world.version() == version


def test_an_interrupted_download_is_kept_and_the_exit_code_says_so(own: Machine) -> None:
    content = program(NEW, size=1_000_000)
    with serve_release(own.publish(programs={("full", ""): content})) as mirror:
        mirror.fault[BINARY] = Fault(rate=100_000)
        code = AS_BINARY.format(own=own, args=["self", "update", "--from", mirror.address])
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code], stderr=subprocess.PIPE, text=True
        )
        with process:
            while not any(f.stat().st_size > 9000 for f in own.world.staging.glob("*.partial")):
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        assert "Stopped; the program is whole. The same command continues from there.\n" in err
        assert own.is_as_before
        assert [path.suffix for path in own.world.staging.iterdir()] == [".partial"]


def test_the_front_never_loads_what_checks_signatures_or_talks_to_servers() -> None:
    code = (
        "import sys, baton.cli.installation, baton.install.installation, baton.download,"
        " baton.install, baton.install.updater;"
        "print({'cryptography', 'httpx', 'huggingface_hub'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize("name", ["previous", "previous.json", "outgoing", "switch.json"])
def test_a_folder_under_a_name_of_its_own_is_said_before_anything_changes(
    call: Call, own: Machine, name: str
) -> None:
    release, folder = own.publish(), own.world.share / name
    folder.unlink(missing_ok=True)
    folder.mkdir()
    for command in (["rollback"], ["update", "--from", str(release)]):
        done = call("self", *command)
        assert (done.code, own.world.version()) == (1, OLD)
        assert f"{folder} is a folder, where Baton keeps a file" in done.err
        assert "so nothing was changed. Move it away" in done.err
    folder.rmdir()
    assert call("self", "update", "--from", str(release)).code == 0
    assert (own.world.version(), own.world.version(own.world.share / "previous")) == (NEW, OLD)


def test_a_version_before_that_does_not_start_is_refused_with_what_to_do(
    call: Call, own: Machine
) -> None:
    (own.world.share / "previous").write_bytes(b"#!/bin/sh\nkill -9 $$\n")
    done = call("self", "rollback")
    assert (done.code, own.world.version()) == (1, OLD)
    assert "signal 9 ended it" in done.err
    assert "`baton self update --from` takes any release" in done.err
