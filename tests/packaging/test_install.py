"""The installer, run by every shell that is here, with small programs in the place of Baton."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from support.single import pack

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a script for Unix shells")

INSTALL = Path(__file__).parents[2] / "packaging" / "install.sh"
PLATFORM = "linux-x86_64"

SHELLS = {
    name: command
    for name, command in {
        "sh": ["sh"],
        "dash": ["dash"],
        "bash": ["bash", "--posix"],
        "busybox": ["busybox", "sh"],
    }.items()
    if shutil.which(command[0])
}

TOOLS = ["cat", "chmod", "cp", "grep", "ln", "mkdir", "mv", "rm", "sed", "sync"]
"""What the installer may use besides a shell: nothing that a bare system lacks."""

PROGRAM = """#!/bin/sh
case $1 in
    --version) echo "baton VERSION" ;;
    completion) echo "# how $2 completes VERSION" ;;
esac
# PADDING
"""


def program(version: str) -> bytes:
    return PROGRAM.replace("VERSION", version).replace("PADDING", "x" * 100_000).encode()


def release(folder: Path, version: str = "0.1.0", platform: str = PLATFORM) -> Path:
    """Make a folder as a release is: both flavours, one of them for a graphics card too."""
    folder.mkdir(parents=True)
    names = [f"baton-{version}-{platform}", f"baton-slim-{version}-{platform}"]
    for name in (*names, f"baton-{version}-{platform}-cuda"):
        (folder / name).write_bytes(program(version))
    shutil.copy(INSTALL, folder)
    write_sums(folder)
    return folder


def write_sums(folder: Path) -> None:
    sums = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(folder.glob("baton-*"))
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))


@dataclass
class Machine:
    """A person's home, and a PATH with no more on it than was put there."""

    root: Path
    shell: list[str] = field(default_factory=lambda: ["sh"])

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        self.tools.mkdir()
        for name in (*TOOLS, "sha256sum"):
            self.has(name)
        self.gives("uname", '#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo x86_64\n')

    @property
    def home(self) -> Path:
        return self.root / "a home"

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    @property
    def prefix(self) -> Path:
        return self.home / ".local"

    @property
    def baton(self) -> Path:
        return self.prefix / "bin" / "baton"

    @property
    def previous(self) -> Path:
        return self.prefix / "share" / "baton" / "previous"

    @property
    def receipt(self) -> dict[str, object]:
        file = self.prefix / "share" / "baton" / "install.json"
        read: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
        return read

    def has(self, *names: str) -> None:
        for name in names:
            found = shutil.which(name)
            if found is None:
                pytest.skip(f"needs {name}")
            (self.tools / name).symlink_to(found)

    def lacks(self, name: str) -> None:
        (self.tools / name).unlink()

    def gives(self, name: str, script: str) -> None:
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def install(
        self, *args: str | Path, script: Path = INSTALL, stdin: bytes = b"", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        command = [shutil.which(self.shell[0]) or "", *self.shell[1:], str(script), *map(str, args)]
        done = subprocess.run(
            command,
            cwd=self.root,
            env={"HOME": str(self.home), "PATH": str(self.tools), **environ},
            input=stdin,
            capture_output=True,
            timeout=60,
            start_new_session=True,
        )
        return subprocess.CompletedProcess(
            command, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def files(self) -> dict[str, bytes]:
        """Every file in the home, by its path."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return release(tmp_path / "the release")


def well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    return done.stdout


def refused(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """Check that it ended in one sentence, and return that."""
    assert done.returncode == code, done.stderr + done.stdout
    assert done.stderr.startswith("Baton was not installed: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


# From a folder


@pytest.mark.parametrize("shell", SHELLS)
def test_from_a_folder_with_nothing_but_what_any_unix_has(
    machine: Machine, folder: Path, shell: str
) -> None:
    machine.shell = SHELLS[shell]
    said = well(machine.install("--from", folder))
    assert f"Baton 0.1.0 is installed: {machine.baton}" in said
    assert machine.baton.read_bytes() == program("0.1.0")
    assert os.access(machine.baton, os.X_OK)
    receipt = machine.receipt
    files = receipt.pop("files")
    assert receipt == {
        "schema": 1,
        "version": "0.1.0",
        "flavour": "full",
        "platform": PLATFORM,
        "gpu": "",
        "source": str(folder),
    }
    assert isinstance(files, list)
    assert files[0] == str(machine.baton)
    there = {str(machine.home / name) for name in machine.files()}
    assert {*files, str(machine.prefix / "share/baton/install.json")} == there


def test_a_script_in_a_release_takes_that_release(machine: Machine, folder: Path) -> None:
    well(machine.install(script=folder / "install.sh"))
    assert machine.receipt["source"] == str(folder)
    assert machine.baton.exists()


def test_a_release_knows_the_address_that_it_came_from(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.sh"
    text = INSTALL.read_text()
    assert text.count('\norigin=""\n') == 1
    alone.write_text(text.replace('\norigin=""\n', f'\norigin="{folder}"\n'))
    well(machine.install(script=alone))
    assert machine.baton.exists()


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["--flavour", "slim"], f"baton-slim-0.1.0-{PLATFORM}"),
        (["--flavour=slim", "--gpu=none"], f"baton-slim-0.1.0-{PLATFORM}"),
        (["--gpu", "cuda"], f"baton-0.1.0-{PLATFORM}-cuda"),
    ],
)
def test_a_flavour_is_chosen_and_stays_chosen(
    machine: Machine, folder: Path, args: list[str], name: str
) -> None:
    assert f"Bringing {name} " in well(machine.install("--from", folder, *args))
    receipt = machine.receipt
    assert f"Bringing {name} " in well(machine.install("--from", folder))
    assert machine.receipt == receipt
    assert "Bringing baton-0.1.0-linux-x86_64 " in well(
        machine.install("--from", folder, "--flavour", "full", "--gpu", "none")
    )


@pytest.mark.parametrize(
    ("system", "machine_name", "platform"),
    [
        ("Linux", "amd64", "linux-x86_64"),
        ("Linux", "aarch64", "linux-aarch64"),
        ("Darwin", "arm64", "macos-arm64"),
    ],
)
def test_the_platform_is_found(
    machine: Machine, tmp_path: Path, system: str, machine_name: str, platform: str
) -> None:
    machine.gives("uname", f'#!/bin/sh\n[ "$1" = -s ] && echo {system} || echo {machine_name}\n')
    well(machine.install("--from", release(tmp_path / "r", platform=platform)))
    assert machine.receipt["platform"] == platform


def test_an_intel_shell_on_an_apple_processor_gets_the_apple_build(
    machine: Machine, tmp_path: Path
) -> None:
    machine.gives("uname", '#!/bin/sh\n[ "$1" = -s ] && echo Darwin || echo x86_64\n')
    machine.gives("sysctl", "#!/bin/sh\necho 1\n")
    well(machine.install("--from", release(tmp_path / "r", platform="macos-arm64")))
    assert machine.receipt["platform"] == "macos-arm64"


@pytest.mark.parametrize("tool", ["shasum", "openssl"])
def test_other_tools_check_the_sum_as_well(machine: Machine, folder: Path, tool: str) -> None:
    machine.lacks("sha256sum")
    machine.has(tool)
    if tool == "shasum":
        machine.has("env", "perl")
    well(machine.install("--from", folder))
    (folder / f"baton-0.1.0-{PLATFORM}").write_bytes(b"#!/bin/sh\necho baton 0.1.0 # worse\n")
    assert "damaged" in refused(machine.install("--from", folder))


def test_without_any_such_tool_nothing_is_installed(machine: Machine, folder: Path) -> None:
    machine.lacks("sha256sum")
    assert "sha256sum, shasum or openssl" in refused(machine.install("--from", folder))
    assert machine.files() == {}


@pytest.mark.parametrize("shell", SHELLS)
def test_any_path_will_do(machine: Machine, folder: Path, shell: str) -> None:
    machine.shell = SHELLS[shell]
    odd = machine.root / 'it\'s é "quoted" $HOME `id` %f \\n'
    prefix, data = odd / "prefix", odd / "data"
    said = well(machine.install("--from", folder, "--prefix", prefix, XDG_DATA_HOME=str(data)))
    target = prefix / "bin" / "baton"
    receipt = json.loads((prefix / "share/baton/install.json").read_text(encoding="utf-8"))
    assert receipt["files"][0] == str(target)
    assert all(Path(file).is_file() for file in receipt["files"])
    assert started_by((data / "applications/baton.desktop").read_text()) == str(target)
    # What it says to type is what a shell understands.
    typed = re.search(r"Until then: (.*)\n", said)
    assert typed
    ran = subprocess.run(["sh", "-c", f"{typed[1]} --version"], capture_output=True, text=True)
    assert ran.stdout == "baton 0.1.0\n"


def started_by(entry: str) -> str:
    """Read the program of a desktop entry as the specification says."""
    line = re.search(r"^Exec=(.*)$", entry, re.MULTILINE)
    assert line
    value = line[1].replace("\\\\", "\0").replace("\0", "\\")
    quoted = re.fullmatch(r'"((?:[^"`$\\]|\\["`$\\])*)"', value)
    assert quoted, value
    return re.sub(r"\\(.)", r"\1", quoted[1]).replace("%%", "%")


def test_what_baton_keeps_of_its_person_is_theirs_alone(machine: Machine, folder: Path) -> None:
    well(machine.install("--from", folder))
    assert (machine.prefix / "share" / "baton").stat().st_mode & 0o777 == 0o700
    shared = machine.root / "shared"
    well(machine.install("--from", folder, "--prefix", shared))
    assert (shared / "share" / "baton").stat().st_mode & 0o777 == 0o755


def test_a_relative_prefix_and_one_with_a_tilde(machine: Machine, folder: Path) -> None:
    well(machine.install("--from", "../the release", "--prefix=sub/folder"))
    assert (machine.root / "sub/folder/bin/baton").exists()
    well(machine.install("--from", folder, "--prefix=~/other"))
    assert (machine.home / "other/bin/baton").exists()


def test_without_a_home_a_prefix_is_enough_and_nothing_else_is_touched(
    machine: Machine, folder: Path
) -> None:
    assert "--prefix" in refused(machine.install("--from", folder, HOME=""), 2)
    well(machine.install("--from", folder, "--prefix", machine.root / "p", HOME=""))
    assert {path.name for path in (machine.root / "p").rglob("*") if path.is_file()} == {
        "baton",
        "install.json",
    }


# With the launcher in front


def packed(folder: Path, launcher: Path, version: str = "0.1.0") -> Path:
    """Make a release of a single file such as the real one, which unpacks a small program."""
    inside = folder.with_name(f"{folder.name} inside")
    (inside / "lib").mkdir(parents=True)
    (inside / "lib" / "data").write_text(version)
    (inside / "baton").write_bytes(program(version))
    (inside / "baton").chmod(0o755)
    folder.mkdir()
    pack.pack(inside, folder / f"baton-{version}-{PLATFORM}", launcher, level=1)
    write_sums(folder)
    return folder


def test_a_real_single_file_is_unpacked_once_and_starts(
    machine: Machine, tmp_path: Path, launcher: Path
) -> None:
    machine.has("bash")
    well(machine.install("--from", packed(tmp_path / "old", launcher)))
    assert machine.files()[COMPLETIONS["bash"]] == b"# how bash completes 0.1.0\n"
    apps = machine.home / ".cache" / "baton" / "app"
    assert len([path for path in apps.iterdir() if path.is_dir()]) == 1
    well(machine.install("--from", packed(tmp_path / "new", launcher, "0.2.0")))
    environ = {"HOME": str(machine.home), "PATH": os.environ["PATH"]}
    for file, version in ((machine.baton, "0.2.0"), (machine.previous, "0.1.0")):
        ran = subprocess.run([file, "--version"], env=environ, capture_output=True, text=True)
        assert ran.stdout == f"baton {version}\n"


def test_what_the_launcher_says_is_told(machine: Machine, tmp_path: Path, launcher: Path) -> None:
    (machine.home / ".cache").write_text("in the way")
    said = refused(machine.install("--from", packed(tmp_path / "old", launcher)))
    assert str(machine.home / ".cache") in said
    assert not machine.baton.exists()


# From an address


class Server(http.server.ThreadingHTTPServer):
    """Serves a release on loopback; `cut` names a file of which only half comes."""

    cut = ""
    elsewhere = ""
    scheme = "http"
    root: Path

    def finish_request(self, request: object, client_address: object) -> None:
        Handler(request, client_address, self, directory=str(self.root))  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"


class Handler(http.server.SimpleHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        if not self.is_elsewhere():
            super().do_HEAD()

    def is_elsewhere(self) -> bool:
        """Send it to another server, where there is one."""
        if self.server.elsewhere:
            self.send_response(302)
            self.send_header("Location", self.server.elsewhere + self.path)
            self.end_headers()
        return bool(self.server.elsewhere)

    def do_GET(self) -> None:
        if self.is_elsewhere():
            return
        if not self.server.cut or self.server.cut not in self.path:
            super().do_GET()
            return
        whole = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole[: len(whole) // 2])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path, certificate: Path | None = None) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.root = folder
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.scheme = "https"
        thread = threading.Thread(target=functools.partial(server.serve_forever, 0.05))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with serving(folder) as server:
        yield server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine, with its key."""
    file = tmp_path_factory.mktemp("certificate") / "own.pem"
    openssl = shutil.which("openssl") or pytest.skip("needs openssl")
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=own -addext"
    options = [*made.split(), "subjectAltName=IP:127.0.0.1", "-keyout", "-"]
    ran = subprocess.run([openssl, *options], check=True, capture_output=True)
    file.write_bytes(ran.stdout)
    return file


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
        serving(folder, certificate if protected else None) as there,
        serving(folder, certificate) as first,
    ):
        first.elsewhere = there.address
        done = machine.install(
            *("--from", first.address),
            CURL_CA_BUNDLE=str(certificate),
            WGETRC=str(machine.root / "wgetrc"),
        )
    if protected:
        well(done)
        assert machine.receipt["source"] == first.address
    else:
        assert done.returncode == 1
        assert "there is no SHA256SUMS" in done.stderr
        assert machine.files() == {}


def test_a_wget_that_believes_every_certificate_is_not_used(machine: Machine) -> None:
    busybox = shutil.which("busybox") or pytest.skip("needs busybox")
    (machine.tools / "wget").symlink_to(busybox)
    said = refused(machine.install("--from", "https://127.0.0.1:9"))
    assert "install curl" in said


@pytest.mark.parametrize("downloader", ["curl", "wget"])
def test_a_download_that_breaks_off_changes_nothing(
    machine: Machine, server: Server, tmp_path: Path, downloader: str
) -> None:
    machine.has(downloader)
    well(machine.install("--from", server.address))
    before = machine.files()
    server.root = release(tmp_path / "newer", "0.2.0")
    server.cut = "baton-0.2.0"
    done = machine.install("--from", server.address)
    assert done.returncode == 1
    assert "Baton was not installed: " in done.stderr
    assert machine.files() == before
    server.cut = ""
    well(machine.install("--from", server.address))
    assert machine.baton.read_bytes() == program("0.2.0")


@pytest.mark.parametrize("downloader", ["curl", "wget"])
def test_an_address_that_has_nothing(machine: Machine, server: Server, downloader: str) -> None:
    machine.has(downloader)
    done = machine.install("--from", server.address + "/nowhere")
    assert done.returncode == 1
    assert "there is no SHA256SUMS" in done.stderr
    assert machine.files() == {}


def test_without_a_downloader_it_says_what_to_do(machine: Machine, server: Server) -> None:
    said = refused(machine.install("--from", server.address))
    assert "curl or wget" in said
    assert "--from" in said


@pytest.mark.parametrize("shell", SHELLS)
def test_piped_into_a_shell(machine: Machine, server: Server, shell: str) -> None:
    machine.shell = SHELLS[shell]
    machine.has("curl")
    done = machine.install(
        "--", "--from", server.address, script=Path("-s"), stdin=INSTALL.read_bytes()
    )
    well(done)
    assert machine.baton.exists()


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


# What is wrong with what came


def test_a_damaged_file_is_not_installed(machine: Machine, folder: Path) -> None:
    file = folder / f"baton-0.1.0-{PLATFORM}"
    damaged = bytearray(file.read_bytes())
    damaged[5000] ^= 1
    file.write_bytes(damaged)
    said = refused(machine.install("--from", folder))
    assert hashlib.sha256(damaged).hexdigest() in said
    assert machine.files() == {}


def test_a_wrong_sum_is_not_believed(machine: Machine, folder: Path) -> None:
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  baton-0.1.0-{PLATFORM}\n")
    assert "0" * 64 in refused(machine.install("--from", folder))
    assert machine.files() == {}


@pytest.mark.parametrize(
    ("sums", "told"),
    [
        (None, "no SHA256SUMS"),
        ("<html>Please log in</html>\n", "not a list of checksums"),
        ("", "not a list of checksums"),
        (f"{'a' * 64}  baton-0.1.0-linux-riscv64\n", "only: baton-0.1.0-linux-riscv64"),
        (f"{'a' * 64}  baton-9/../../x-{PLATFORM}\n", "strange version"),
        (f"{'a' * 64}  baton-0.1.0-{PLATFORM}\n{'b' * 64}  baton-0.2.0-{PLATFORM}\n", "several"),
        (f"{'a' * 64}  baton-0.9.0-{PLATFORM}\n", "not there"),
        (f"{'a' * 64}  \033]0;x\007baton-1-{PLATFORM}\n", "not a list of checksums"),
        (f"{'a' * 64}  baton-9\033[2J-{PLATFORM}\n", "not a list of checksums"),
    ],
)
def test_a_release_that_is_none(
    machine: Machine, folder: Path, sums: str | None, told: str
) -> None:
    if sums is None:
        (folder / "SHA256SUMS").unlink()
    else:
        (folder / "SHA256SUMS").write_text(sums)
    assert told in refused(machine.install("--from", folder))
    assert machine.files() == {}


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("#!/bin/sh\necho 'GLIBC_2.99 not found' >&2\nexit 1\n", "GLIBC_2.99 not found"),
        ("#!/bin/sh\necho baton 0.0.9\n", "baton 0.0.9"),
        ("#!/nowhere/interpreter\n", "doesn't start here"),
    ],
)
def test_what_does_not_start_here_does_not_replace_what_does(
    machine: Machine, folder: Path, tmp_path: Path, script: str, told: str
) -> None:
    well(machine.install("--from", folder))
    before = machine.files()
    newer = release(tmp_path / "newer", "0.2.0")
    (newer / f"baton-0.2.0-{PLATFORM}").write_text(script)
    write_sums(newer)
    done = machine.install("--from", newer)
    assert done.returncode == 1
    assert told in done.stderr
    assert machine.files() == before


# What is wrong with what was asked


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--from"], "--from needs a value"),
        (["--from", ""], "--from needs a value"),
        (["--from="], "--from needs a value"),
        (["--form", "x"], "--form is not an option"),
        (["folder"], "folder is not an option"),
        (["--from", "nowhere"], "no folder nowhere"),
        (["--from", "http://example.org/baton"], "https"),
        (["--from", "ftp://example.org"], "ftp://example.org"),
        (["--flavour", "huge"], "full or slim, not huge"),
        (["--gpu", "metal"], "none, cuda or vulkan, not metal"),
        (["--prefix", "a\nb"], "can't be printed"),
        ([], "--from FOLDER"),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_bad_input_is_one_sentence(
    machine: Machine, shell: str, args: list[str], told: str
) -> None:
    machine.shell = SHELLS[shell]
    assert told in refused(machine.install(*args), 2)
    assert machine.files() == {}


def test_no_path_is_used_that_would_be_two_in_the_receipt(machine: Machine, folder: Path) -> None:
    odd, home = replace(machine, root=machine.root / "a\nb"), str(machine.home)
    said = refused(odd.install("--from", folder, "--prefix", "p", HOME=home), 2)
    assert "can't be printed" in said
    shutil.copytree(folder, odd.root / "release")
    assert "can't be printed" in refused(odd.install("--from", "release", HOME=home), 2)
    assert machine.files() == {}


def test_nobody_else_may_write_to_what_is_installed(machine: Machine, folder: Path) -> None:
    machine.shell = ["sh", "-c", 'umask 0; . "$0"']
    well(machine.install("--from", folder))
    for path in machine.prefix.rglob("*"):
        assert not path.lstat().st_mode & 0o022, path


def test_a_folder_where_a_completion_should_be_stays_as_it_is(
    machine: Machine, folder: Path
) -> None:
    machine.has("bash")
    there = machine.home / ".local/share/bash-completion/completions/baton"
    there.mkdir(parents=True)
    done = machine.install("--from", folder)
    assert done.returncode == 0
    assert f"{there} could not be written" in done.stderr
    assert not list(there.iterdir())
    assert str(there) not in machine.receipt["files"]  # type: ignore[operator]


def test_help_names_every_option(machine: Machine) -> None:
    said = well(machine.install("--help"))
    for option in ("--from", "--flavour", "--gpu", "--prefix", "--no-completions"):
        assert option in said
    assert machine.files() == {}


def test_an_unknown_machine(machine: Machine, folder: Path) -> None:
    machine.gives("uname", '#!/bin/sh\n[ "$1" = -s ] && echo Plan9 || echo mips\n')
    assert "Plan9 on mips" in refused(machine.install("--from", folder))


def test_windows_is_sent_to_its_own_script(machine: Machine, folder: Path) -> None:
    machine.gives("uname", "#!/bin/sh\necho MINGW64_NT-10.0\n")
    assert "install.ps1" in refused(machine.install("--from", folder))


def test_a_prefix_that_cannot_be_written(machine: Machine, folder: Path) -> None:
    file = machine.root / "a file"
    file.write_text("")
    for prefix in (file / "x", Path("/proc/baton")):
        said = refused(machine.install("--from", folder, "--prefix", prefix))
        assert f"{prefix} can't be written" in said
        assert "--prefix" in said


def test_a_folder_in_the_way(machine: Machine, folder: Path) -> None:
    machine.baton.mkdir(parents=True)
    assert "is a folder" in refused(machine.install("--from", folder))


# Again


def test_a_second_run_upgrades_and_keeps_the_one_before(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    well(machine.install("--from", folder))
    well(machine.install("--from", release(tmp_path / "newer", "0.2.0")))
    assert machine.baton.read_bytes() == program("0.2.0")
    assert machine.previous.read_bytes() == program("0.1.0")
    assert machine.receipt["version"] == "0.2.0"
    assert sorted(machine.prefix.joinpath("bin").iterdir()) == [machine.baton]


def test_what_the_one_before_was_is_noted_for_a_rollback(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    note = machine.previous.with_name("previous.json")
    well(machine.install("--from", folder, "--flavour", "slim"))
    well(machine.install("--from", release(tmp_path / "newer", "0.2.0"), "--flavour", "full"))
    assert json.loads(note.read_text()) == {
        "schema": 1,
        "version": "0.1.0",
        "flavour": "slim",
        "platform": PLATFORM,
        "gpu": "",
    }
    # A binary that isn't the one of the receipt: nothing is known of it.
    machine.baton.write_bytes(program("0.1.5"))
    well(machine.install("--from", release(tmp_path / "newest", "0.3.0")))
    assert machine.previous.read_bytes() == program("0.1.5")
    assert not note.exists()


def test_the_same_again_keeps_what_was_before_it(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    newer = release(tmp_path / "newer", "0.2.0")
    well(machine.install("--from", folder))
    well(machine.install("--from", newer))
    before = machine.files()
    assert "is that one already" in well(machine.install("--from", newer))
    assert machine.files() == before


def test_a_damaged_installation_is_repaired_and_the_damage_not_kept(
    machine: Machine, folder: Path
) -> None:
    well(machine.install("--from", folder))
    machine.baton.write_bytes(b"#!/bin/sh\nexit 1\n")
    machine.baton.chmod(0o644)
    (machine.home / ".local/share/applications/baton.desktop").unlink()
    assert "not kept" in well(machine.install("--from", folder))
    assert machine.baton.read_bytes() == program("0.1.0")
    assert os.access(machine.baton, os.X_OK)
    assert (machine.home / ".local/share/applications/baton.desktop").exists()
    assert not machine.previous.exists()


def test_what_somebody_else_put_there_is_kept(machine: Machine, folder: Path) -> None:
    checkout = machine.root / "checkout"
    checkout.write_text("#!/bin/sh\nexit 7\n")
    checkout.chmod(0o755)
    machine.baton.parent.mkdir(parents=True)
    machine.baton.symlink_to(checkout)
    said = well(machine.install("--from", folder))
    assert f"kept as {machine.previous}" in said
    assert machine.previous.readlink() == checkout
    assert not machine.baton.is_symlink()
    assert checkout.read_text() == "#!/bin/sh\nexit 7\n"


def test_two_at_once_don_t_meet(machine: Machine, folder: Path) -> None:
    other = machine.prefix / "bin" / f".baton-install.{os.getpid()}"
    other.mkdir(parents=True)
    assert f"process {os.getpid()}" in refused(machine.install("--from", folder))
    assert other.exists()
    gone = subprocess.Popen(["true"])
    gone.wait()
    other.rename(other.with_name(f".baton-install.{gone.pid}"))
    well(machine.install("--from", folder))
    assert sorted(machine.prefix.joinpath("bin").iterdir()) == [machine.baton]


# Interrupted

TRAP = """#!{sh}
echo "$0 $*" >> "{count}"
if [ "$({wc} -l < "{count}")" -eq {at} ]; then
    case $0 in *cat) {head} -c 5000 "$1" ;; esac
    kill -s {signal} 0
    {sleep} 5
fi
exec {real} "$@"
"""


def interrupt(machine: Machine, at: int, kind: str) -> Path:
    """Have the installer, and all that it runs, stopped when it starts its so-manieth program."""
    count = machine.root / "count"
    count.write_text("")
    where = {name: shutil.which(name) for name in ("sh", "wc", "head", "sleep")}
    for name in (*TOOLS, "sha256sum"):
        real = shutil.which(name)
        machine.lacks(name)
        machine.gives(name, TRAP.format(**where, count=count, at=at, signal=kind, real=real))
    return count


def stopped(machine: Machine, newer: Path, old: dict[str, bytes], kind: str) -> None:
    """Check what a run that was stopped has left behind."""
    assert machine.baton.read_bytes() in (program("0.1.0"), program("0.2.0"))
    assert os.access(machine.baton, os.X_OK)
    assert machine.receipt["version"] in ("0.1.0", "0.2.0")
    for name, content in machine.files().items():
        if "baton-install" not in name and not name.endswith(".new"):
            assert content == old.get(name) or b"0.2.0" in content or "previous" in name
        elif kind != "KILL":
            raise AssertionError(f"{name} was left behind")


@pytest.mark.parametrize(
    ("kind", "first", "step"),
    [
        ("KILL", 3, 7),
        ("TERM", 5, 7),
        ("INT", 1, 7),
        pytest.param("KILL", 1, 1, marks=pytest.mark.long),
        pytest.param("TERM", 1, 1, marks=pytest.mark.long),
        pytest.param("INT", 1, 1, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("shell", [pytest.param(SHELLS.get("dash", ["sh"]), id="sh")])
def test_stopped_anywhere_there_is_the_old_version_or_the_new(
    tmp_path: Path, folder: Path, shell: list[str], kind: str, first: int, step: int
) -> None:
    newer = release(tmp_path / "newer", "0.2.0")
    machine = Machine(tmp_path / "machine", shell)
    well(machine.install("--from", folder))
    installed, old = shutil.copytree(machine.prefix, tmp_path / "installed"), machine.files()
    for at in range(first, 1000, step):
        shutil.rmtree(machine.prefix)
        shutil.copytree(installed, machine.prefix)
        interrupt(machine, at, kind)
        done = machine.install("--from", newer)
        if done.returncode == 0:
            break
        expected = {"KILL": -signal.SIGKILL, "TERM": 143, "INT": 130}[kind]
        assert done.returncode in (expected, -signal.Signals[f"SIG{kind}"]), done.stderr
        stopped(machine, newer, old, kind)
        (machine.root / "count").write_text("\n" * 1000)
        well(machine.install("--from", newer))
        assert machine.baton.read_bytes() == program("0.2.0")
        assert machine.previous.read_bytes() == program("0.1.0")
        left = [n for n in machine.files() if "baton-install" in n or n.endswith(".new")]
        assert left == []
    assert at > first + step, "it was never stopped"


def test_the_one_before_may_be_kept_already(machine: Machine, folder: Path, tmp_path: Path) -> None:
    """Stopped just before the new version took its name."""
    well(machine.install("--from", folder))
    machine.previous.hardlink_to(machine.baton)
    well(machine.install("--from", release(tmp_path / "newer", "0.2.0")))
    assert machine.baton.read_bytes() == program("0.2.0")
    assert machine.previous.read_bytes() == program("0.1.0")


def test_a_full_disk_is_one_sentence(machine: Machine, folder: Path) -> None:
    well(machine.install("--from", folder))
    before = machine.files()
    machine.lacks("cat")
    machine.gives(
        "cat",
        f'#!/bin/sh\ncase $1 in *SUMS) exec {shutil.which("cat")} "$1" ;; esac\n'
        "echo part; exit 1\n",
    )
    assert "is the disk full?" in refused(machine.install("--from", folder))
    assert machine.files() == before


# Beside the program


def put_shells(machine: Machine, *names: str) -> None:
    for name in names:
        machine.gives(name, "#!/bin/sh\n")


COMPLETIONS = {
    "bash": ".local/share/bash-completion/completions/baton",
    "zsh": ".local/share/zsh/site-functions/_baton",
    "fish": ".config/fish/completions/baton.fish",
}


def test_each_shell_that_is_here_learns_to_complete(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash", "fish")
    well(machine.install("--from", folder))
    files = machine.files()
    assert files[COMPLETIONS["bash"]] == b"# how bash completes 0.1.0\n"
    assert files[COMPLETIONS["fish"]] == b"# how fish completes 0.1.0\n"
    assert COMPLETIONS["zsh"] not in files
    listed = machine.receipt["files"]
    assert isinstance(listed, list)
    assert {str(machine.home / COMPLETIONS[name]) for name in ("bash", "fish")} <= set(listed)


def test_zsh_is_told_where_to_look(machine: Machine, folder: Path) -> None:
    put_shells(machine, "zsh")
    said = well(machine.install("--from", folder))
    assert f"fpath=('{machine.prefix}/share/zsh/site-functions' $fpath)" in said


def test_the_folders_that_a_person_chose_are_used(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash", "fish")
    data, config = machine.root / "data", machine.root / "config"
    well(machine.install("--from", folder, XDG_DATA_HOME=str(data), XDG_CONFIG_HOME=str(config)))
    assert (data / "bash-completion/completions/baton").exists()
    assert (data / "applications/baton.desktop").exists()
    assert (config / "fish/completions/baton.fish").exists()


def test_no_completions_leaves_what_is_there_in_the_receipt(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash")
    well(machine.install("--from", folder, "--no-completions"))
    assert COMPLETIONS["bash"] not in machine.files()
    well(machine.install("--from", folder))
    well(machine.install("--from", folder, "--no-completions"))
    assert str(machine.home / COMPLETIONS["bash"]) in str(machine.receipt["files"])


def test_a_completion_that_cannot_be_written_stops_nothing(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash")
    (machine.home / ".local/share").mkdir(parents=True)
    (machine.home / ".local/share/bash-completion").write_text("in the way")
    done = machine.install("--from", folder)
    assert done.returncode == 0
    assert "could not be written; Baton works without it." in done.stderr
    assert "bash-completion" not in str(machine.receipt["files"])


@pytest.mark.parametrize(
    ("shell", "file"), [("/bin/bash", ".bashrc"), ("/bin/zsh", ".zshrc"), ("", ".profile")]
)
def test_path_is_told_and_no_file_of_the_shell_changed(
    machine: Machine, folder: Path, shell: str, file: str
) -> None:
    (machine.home / file).write_text("# mine\n")
    said = well(machine.install("--from", folder, SHELL=shell))
    assert (machine.home / file).read_text() == "# mine\n"
    typed = re.search(r"^ +(echo .*) >> ~/", said, re.MULTILINE)
    assert typed
    assert f">> ~/{file}" in said
    line = subprocess.run(["sh", "-c", typed[1]], capture_output=True, text=True).stdout
    ran = subprocess.run(["sh", "-c", f"{line}\nbaton --version"], capture_output=True, text=True)
    assert ran.stdout == "baton 0.1.0\n"


def test_on_the_path_nothing_is_said_of_it(machine: Machine, folder: Path) -> None:
    said = well(machine.install("--from", folder, PATH=f"{machine.baton.parent}:{machine.tools}"))
    assert "Start it with: baton" in said
    assert "PATH" not in said


def test_another_baton_that_comes_first_is_told(machine: Machine, folder: Path) -> None:
    machine.gives("baton", "#!/bin/sh\n")
    done = machine.install("--from", folder, PATH=f"{machine.tools}:{machine.baton.parent}")
    assert done.returncode == 0
    assert f"starts {machine.tools}/baton" in done.stderr


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="needs shellcheck")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", INSTALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
