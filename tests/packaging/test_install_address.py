"""The installer, which gets a release from an address: what went wrong is reported."""

from __future__ import annotations

import shutil
import socket
import sys
import textwrap
from pathlib import Path

import pytest

from support.installer_machine import (
    INSTALL,
    PLATFORM,
    SHELLS,
    Machine,
    Server,
    program,
    refusal,
    release,
    serve_folder,
    well,
)

pytestmark = [
    pytest.mark.sampled(0.34),
    pytest.mark.skipif(sys.platform == "win32", reason="a script for Unix shells"),
]


NOBODY = "nobody..listed"
"""A name without an address. It has an empty label: no server is asked for it."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("downloader", ["curl", "wget"])
def test_from_an_address(machine: Machine, server: Server, downloader: str, shell: str) -> None:
    machine.shell = SHELLS[shell]
    machine.has(downloader)
    well(machine.install("--from", server.address + "/"))
    assert machine.baton.read_bytes() == program("0.1.0")
    assert machine.receipt["source"] == server.address


@pytest.mark.parametrize("protected", [True, False], ids=["to https", "to http"])
@pytest.mark.parametrize("downloader", ["curl", "wget"])
def test_it_is_led_nowhere_that_nothing_protects(
    machine: Machine, folder: Path, certificate: Path, downloader: str, protected: bool
) -> None:
    machine.has(downloader)
    (machine.root / "wgetrc").write_text(f"ca_certificate = {certificate}\n")
    with (
        serve_folder(folder, certificate if protected else None) as there,
        serve_folder(folder, certificate) as first,
    ):
        first.redirect_to = there.address
        done = machine.install(
            *("--from", first.address),
            CURL_CA_BUNDLE=str(certificate),
            WGETRC=str(machine.root / "wgetrc"),
        )
    if protected:
        well(done)
        assert machine.receipt["source"] == first.address
    else:
        assert "leads on to where nothing protects the way" in refusal(done)
        assert (machine.files(), machine.folders()) == ({}, set())


def test_a_wget_that_believes_every_certificate_is_not_used(machine: Machine) -> None:
    busybox = shutil.which("busybox") or pytest.skip("needs busybox")
    (machine.tools / "wget").symlink_to(busybox)
    said = refusal(machine.install("--from", "https://127.0.0.1:9"))
    assert "install curl" in said


@pytest.mark.sampled(1)
@pytest.mark.parametrize("downloader", ["curl", "wget"])
def test_a_download_that_breaks_off_changes_nothing(
    machine: Machine, server: Server, tmp_path: Path, downloader: str
) -> None:
    machine.has(downloader)
    well(machine.install("--from", server.address))
    before = machine.files()
    server.root = release(tmp_path / "newer", "0.2.0")
    server.cut_file = "baton-0.2.0"
    done = machine.install("--from", server.address)
    assert done.returncode == 1
    assert "Baton was not installed: " in done.stderr
    assert machine.files() == before
    server.cut_file = ""
    well(machine.install("--from", server.address))
    assert machine.baton.read_bytes() == program("0.2.0")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("downloader", ["curl", "wget"])
def test_a_file_that_is_listed_and_not_there(
    machine: Machine, server: Server, folder: Path, downloader: str
) -> None:
    machine.has(downloader)
    (folder / f"baton-0.1.0-{PLATFORM}").unlink()
    said = refusal(machine.install("--from", server.address))
    assert f"SHA256SUMS in {server.address} names baton-0.1.0-{PLATFORM}, but" in said
    assert (machine.files(), machine.folders()) == ({}, set())


HERE_OR = "or fetch the folder yourself and name it with --from."

ANSWERS = {
    404: "there is no SHA256SUMS in http://{host}, so nothing there can be checked; --from wants",
    403: "{host} doesn't let everybody have it (403); check the address, " + HERE_OR,
    401: "{host} doesn't let everybody have it (401); check the address, " + HERE_OR,
    503: "{host} has trouble of its own (503); run it again later, " + HERE_OR,
    418: "{host} answers with an error (418); check the address.",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("status", ANSWERS)
@pytest.mark.parametrize("downloader", ["curl", "wget", "busybox"])
def test_what_a_server_answers_is_reported(
    machine: Machine, server: Server, downloader: str, status: int
) -> None:
    give_downloader(machine, downloader)
    server.answers = status
    said = refusal(machine.install("--from", server.address))
    assert ANSWERS[status].format(host=server.address.removeprefix("http://")) in said
    assert (machine.files(), machine.folders()) == ({}, set())


def give_downloader(machine: Machine, name: str) -> None:
    if name == "busybox":
        (machine.tools / "wget").symlink_to(shutil.which("busybox") or pytest.skip("needs busybox"))
    else:
        machine.has(name)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("downloader", ["curl", "wget", "busybox"])
def test_an_unused_port_is_reported(machine: Machine, downloader: str) -> None:
    give_downloader(machine, downloader)
    with socket.socket() as taken:  # no other process listens there meanwhile
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refusal(machine.install("--from", f"http://{host}/baton"))
    assert f"{host} refuses the connection; check the address and its port" in said
    assert machine.folders() == set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("downloader", ["curl", "wget", "busybox"])
def test_a_connection_that_breaks_off_is_reported(
    machine: Machine, server: Server, downloader: str
) -> None:
    give_downloader(machine, downloader)
    server.cut_file = "SHA256SUMS"
    said = refusal(machine.install("--from", server.address))
    assert f"the connection to {server.address[7:]} broke off; run it again." in said


@pytest.mark.sampled(1)
@pytest.mark.parametrize("downloader", ["curl", "wget"])
def test_a_name_that_does_not_resolve_is_reported(machine: Machine, downloader: str) -> None:
    machine.has(downloader)
    said = refusal(machine.install("--from", f"https://{NOBODY}/baton"))
    assert f"there is no address for the name {NOBODY}; check how it is written" in said
    assert HERE_OR in said


@pytest.mark.sampled(2)
@pytest.mark.parametrize("downloader", ["curl", "wget"])
@pytest.mark.parametrize("why", ["no authority", "another name", "no https"])
def test_a_server_that_does_not_prove_itself_is_reported(
    machine: Machine, folder: Path, certificate: Path, downloader: str, why: str
) -> None:
    machine.has(downloader)
    (machine.root / "wgetrc").write_text(f"ca_certificate = {certificate}\n")
    with serve_folder(folder, certificate if why != "no https" else None) as server:
        name = "localhost" if why == "another name" else "127.0.0.1"
        host = f"{name}:{server.server_port}"
        if why == "no authority":
            done = machine.install("--from", f"https://{host}")
        else:
            wgetrc = str(machine.root / "wgetrc")
            done = machine.install(
                "--from", f"https://{host}", CURL_CA_BUNDLE=str(certificate), WGETRC=wgetrc
            )
    said = refusal(done)
    expected = "speak https" if why == "no https" else "nothing proves that {host} is itself"
    assert expected.format(host=host) in said
    assert "check the address" in said
    assert (machine.files(), machine.folders()) == ({}, set())


# As the programs say it of networks that can't be had here.
NETWORKS = [
    ("curl", 28, "Connection timed out after 30000 milliseconds", "doesn't answer"),
    ("curl", 7, "connect to 10.0.0.1 port 80 failed: No route to host", "can't be reached"),
    ("curl", 7, "Immediate connect fail: Network is unreachable", "can't be reached"),
    ("curl", 77, "error setting certificate verify locations", "install ca-certificates"),
    ("curl", 2, "", "curl can't bring it from 127.0.0.1 (it ended with 2)"),
    ("wget", 4, "failed: Connection timed out.", "doesn't answer"),
    ("wget", 4, "failed: No route to host.", "can't be reached"),
    ("wget", 4, "failed: Network is unreachable.", "can't be reached"),
    ("wget", 2, "", "wget can't bring it from 127.0.0.1 (it ended with 2)"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("downloader", "code", "says", "expected"), NETWORKS)
def test_what_is_wrong_with_the_network_is_reported(
    machine: Machine, downloader: str, code: int, says: str, expected: str
) -> None:
    machine.gives(
        downloader,
        "#!/bin/sh\nout=/dev/stderr\n"
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && [ "${0##*/}" = wget ] && out=$2; shift; done\n'
        f"echo '{says}' > \"$out\"\nexit {code}\n",
    )
    assert expected in refusal(machine.install("--from", "http://127.0.0.1/baton"))
    assert machine.folders() == set()


def test_whom_it_was_led_to_is_named(machine: Machine, folder: Path, certificate: Path) -> None:
    """It is that one who can't be reached."""
    machine.has("curl")
    with serve_folder(folder, certificate) as server:
        server.redirect_to = f"https://{NOBODY}"
        said = refusal(machine.install("--from", server.address, CURL_CA_BUNDLE=str(certificate)))
    assert f"no address for the name {NOBODY}" in said


def test_without_a_downloader_it_says_what_to_do(machine: Machine, server: Server) -> None:
    said = refusal(machine.install("--from", server.address))
    assert "curl or wget" in said
    assert "--from" in said


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", SHELLS)
def test_piped_into_a_shell(machine: Machine, server: Server, shell: str) -> None:
    machine.shell = SHELLS[shell]
    machine.has("curl")
    done = machine.install(
        "--", "--from", server.address, script=Path("-s"), stdin=INSTALL.read_bytes()
    )
    well(done)
    assert machine.baton.exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_that_came_only_in_part_does_nothing(
    machine: Machine, folder: Path, shell: str
) -> None:
    machine.shell = SHELLS[shell]
    whole = INSTALL.read_bytes()
    call = whole.rindex(b'main "$@"')
    for end in (*range(0, call, len(whole) // 12), call - 1):
        machine.install("--", "--from", folder, script=Path("-s"), stdin=whole[:end])
        assert machine.files() == {}, f"the first {end} bytes did something"


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("columns", [80, 50, 200])
def test_at_a_terminal_its_sentences_break_between_words(machine: Machine, columns: int) -> None:
    machine.has("wget", "fold", "stty")
    said = refusal(machine.install("--from", f"https://{NOBODY}"))
    screen = machine.at_a_terminal("--from", f"https://{NOBODY}", columns=columns)
    assert screen.wait_end() == 1
    assert [line.strip() for line in screen.text.splitlines() if line.strip()] == [
        line.strip() for line in textwrap.wrap(said, columns)
    ]


def test_at_a_terminal_it_shows_how_far_it_is(machine: Machine, server: Server) -> None:
    machine.has("curl")
    screen = machine.at_a_terminal("--from", server.address)
    assert screen.wait_end() == 0
    assert b"100.0%" in screen.raw
    assert f"Baton 0.1.0 is installed: {machine.baton}" in "".join(screen.text.split("\n"))
