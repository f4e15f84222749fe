"""This machine, as it is found: also in containers, and with odd GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from baton.core.machine import Gpu
from baton.platform.hardware import inspect_machine

GB = 10**9

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="these files are Linux's")

RTX = "NVIDIA GeForce RTX 3070"
XT = "AMD Radeon RX 6800/6800 XT / 6900 XT"

IDS = """# A comment
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t73bf  Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]
\t\t1002 0e3a  Radeon RX 6900 XT
10de  NVIDIA Corporation
\t2484  GA104 [GeForce RTX 3070]
8086  Intel Corporation
\t56a0  DG2 [Arc A770]
"""


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


def nvidia(version: str, *names: str) -> dict[str, str]:
    about = {
        f"proc/driver/nvidia/gpus/0000:0{n}:00.0/information": f"Model: \t\t {name}\nIRQ: 9\n"
        for n, name in enumerate(names)
    }
    return {"proc/driver/nvidia/version": version, **about}


def card(number: int, pci: str, driver: str, slot: str = "0000:03:00.0") -> dict[str, str]:
    uevent = f"DRIVER={driver}\nPCI_CLASS=30000\nPCI_ID={pci}\nPCI_SLOT_NAME={slot}\n"
    return {
        f"sys/class/drm/card{number}/device/uevent": uevent,
        f"sys/class/drm/card{number}-HDMI-A-1/device/uevent": uevent,
    }


@pytest.fixture(autouse=True)
def no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave nothing on PATH that could name cards."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_this_machine_as_it_is(tmp_path: Path) -> None:
    found = inspect_machine(tmp_path / "not" / "there", [])
    assert 0 < found.available <= found.memory <= psutil.virtual_memory().total
    assert 1 <= found.cores <= found.threads <= (os.cpu_count() or 1)
    assert found.processor.strip()
    assert found.disk == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    assert found.battery is None or 0 <= found.battery <= 1
    assert inspect_machine().disk == 0


@LINUX
def test_a_container_counts_as_what_it_may_use(tmp_path: Path) -> None:
    whole = inspect_machine()
    limit = whole.memory // 2
    files = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/memory.max": f"{limit}\n",
        "sys/fs/cgroup/memory.current": f"{limit - 1000}\n",
        "sys/fs/cgroup/cpu.max": "100000 100000\n",
    }
    found = inspect_machine(root=plant(tmp_path, files))
    assert (found.memory, found.available) == (limit, 1000)
    assert (found.cores, found.threads) == (1, 1)


@LINUX
def test_a_real_memory_limit_of_the_kernel(tmp_path: Path) -> None:
    groups = Path("/sys/fs/cgroup/memory")
    if not os.access(groups / "cgroup.procs", os.W_OK):
        pytest.skip("needs root, and control groups of the first version")
    group = groups / f"baton-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(4 << 30))
        code = (
            f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n"
            "from baton.platform.hardware import inspect_machine\n"
            "found = inspect_machine()\n"
            "print(found.memory, found.available)\n"
        )
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    finally:
        group.rmdir()
    memory, available = map(int, ran.stdout.split())
    assert memory == min(4 << 30, psutil.virtual_memory().total)
    assert 0 < available < 4 << 30


@LINUX
@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD Ryzen 7 5800X 8-Core Processor\n", "AMD Ryzen 7 5800X"),
        ("model name\t: Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz\n", "Intel Core i7-8650U"),
        ("processor : 0\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
        ("model name : \x1b]0;evil\x07\x1b[31m " + "x" * 500 + "\n", None),
    ],
)
def test_the_processor_has_a_name(tmp_path: Path, cpuinfo: str, name: str | None) -> None:
    found = inspect_machine(root=plant(tmp_path, {"proc/cpuinfo": cpuinfo})).processor
    assert found == name if name else (len(found) <= 80 and found.isprintable())


@LINUX
def test_a_processor_without_a_name_is_called_by_its_kind(tmp_path: Path) -> None:
    assert inspect_machine(root=tmp_path).processor == os.uname().machine
    plant(tmp_path, {"proc/device-tree/model": "Some Board Rev 1\0"})
    assert inspect_machine(root=plant(tmp_path, {"proc/cpuinfo": "processor : 0\n"})).processor == (
        "Some Board Rev 1"
    )


@LINUX
@pytest.mark.parametrize(
    "version",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release\nGCC 12\n",
    ],
)
def test_a_card_of_nvidias_that_the_engine_uses_gets_its_driver(
    tmp_path: Path, version: str
) -> None:
    root = plant(tmp_path, nvidia(version, RTX) | card(1, "10DE:2484", "nvidia"))
    found = inspect_machine(gpus=[Gpu(RTX, 7 * GB, 8 * GB)], root=root)
    assert found.gpus == (Gpu(RTX, 7 * GB, 8 * GB, "550.54.14"),)
    assert found.idle_gpus == ()


@LINUX
def test_a_card_that_this_build_can_not_use_is_named(tmp_path: Path) -> None:
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\n"
    root = plant(tmp_path, nvidia(version, RTX, "NVIDIA GeForce GT 1030"))
    assert inspect_machine(gpus=[], root=root).idle_gpus == (RTX, "NVIDIA GeForce GT 1030")
    used = [Gpu(RTX, 7 * GB, 8 * GB)]
    assert inspect_machine(gpus=used, root=root).idle_gpus == ("NVIDIA GeForce GT 1030",)
    assert inspect_machine(root=root).idle_gpus == (), "the engine was not asked"


@LINUX
def test_other_cards_are_named_from_the_list_and_parts_of_processors_left_out(
    tmp_path: Path,
) -> None:
    files = {
        **card(0, "8086:9A49", "i915", "0000:00:02.0"),
        **card(1, "1002:73BF", "amdgpu"),
        "sys/class/drm/card1/device/mem_info_vram_total": f"{16 * GB}\n",
        **card(2, "1002:1638", "amdgpu"),
        "sys/class/drm/card2/device/mem_info_vram_total": f"{GB // 2}\n",
        **card(3, "10DE:2484", "nouveau"),
        **card(4, "1AF4:1050", "virtio-pci"),
        **card(5, "8086:56A0", "xe"),
        **card(6, "1002:FFFF", ""),
        "proc/sys/kernel/osrelease": "6.8.0-48-generic\n",
    }
    root = plant(tmp_path, files)
    assert inspect_machine(gpus=[], root=root).idle_gpus == (
        "AMD GPU 73bf",
        "NVIDIA GPU 2484",
        "Intel GPU 56a0",
    )
    plant(root, {"usr/share/misc/pci.ids": IDS})
    assert inspect_machine(gpus=[], root=root).idle_gpus == (
        XT,
        "NVIDIA GeForce RTX 3070",
        "Intel Arc A770",
    )
    found = inspect_machine(
        gpus=[Gpu("AMD Radeon RX 6900 XT (RADV NAVI21)", GB, 16 * GB)], root=root
    )
    assert found.gpus[0].driver == "amdgpu of Linux 6.8.0-48-generic"
    assert found.idle_gpus == ("NVIDIA GeForce RTX 3070", "Intel Arc A770")


def program(folder: Path, text: str) -> None:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    file.chmod(0o755)


@LINUX
def test_where_the_driver_lists_nothing_its_program_does(tmp_path: Path, no_program: Path) -> None:
    root = tmp_path / "root"
    program(no_program, f'echo "{RTX}, 551.23"')
    assert inspect_machine(gpus=[], root=root).idle_gpus == (RTX,)
    assert inspect_machine(gpus=[Gpu(RTX, GB, GB)], root=root).gpus[0].driver == "551.23"
    for broken in ("exit 9", "echo NVIDIA-SMI has failed", "printf '\\377\\n\\n'", "kill -9 $$"):
        program(no_program, broken)
        assert inspect_machine(gpus=[], root=root).idle_gpus == ()


@LINUX
def test_a_program_that_hangs_is_left_alone(
    tmp_path: Path, no_program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.platform.hardware.PROBE_SECONDS", 0.1)
    program(no_program, "while :; do :; done")
    assert inspect_machine(gpus=[], root=tmp_path).idle_gpus == ()


@LINUX
def test_invalid_files_are_nothing(tmp_path: Path) -> None:
    for name in ("proc/cpuinfo", "proc/self/cgroup", "proc/self/mountinfo"):
        plant(tmp_path, {name: "\0:::\n=\n" * 20})
    plant(tmp_path, card(0, "no such id", "x") | nvidia("\0", "\x1b[31mRed"))
    (tmp_path / "sys/class/drm/card7").mkdir()
    found = inspect_machine(gpus=[], root=tmp_path)
    assert found.memory == psutil.virtual_memory().total
    assert all(name.isprintable() for name in found.idle_gpus)


@pytest.mark.parametrize(
    ("battery", "expected"),
    [
        ((43, 3600, False), (0.43, False, True)),
        ((100, -2, True), (1.0, True, False)),
        ((80, -1, None), (0.8, True, False)),
        ((float("nan"), 1, False), (None, True, False)),
        ((-5, 1, False), (None, True, False)),
        (None, (None, True, False)),
    ],
)
def test_what_the_system_says_of_a_battery(
    battery: tuple[float, int, bool | None] | None,
    expected: tuple[float | None, bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("percent", "secsleft", "power_plugged")
    said = SimpleNamespace(**dict(zip(names, battery, strict=True))) if battery else None
    monkeypatch.setattr(psutil, "sensors_battery", lambda: said, raising=False)
    found = inspect_machine()
    assert (found.battery, found.plugged, found.is_on_battery) == expected


def test_a_system_that_knows_no_batteries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    assert inspect_machine().battery is None


def test_a_full_disk_is_not_an_unknown_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=0))
    assert inspect_machine(tmp_path).disk == 1
