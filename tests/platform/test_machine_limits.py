"""What a container, a service or a set of processors leaves of this machine."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from baton.platform.machine_limits import (
    MemoryAllowance,
    Read,
    allowed_processors,
    memory_allowance,
    physical_cores,
)

GB = 10**9

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="these files are Linux's")

UNLIMITED = 9223372036854771712

SECOND = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
FIRST = (
    "30 23 0:27 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
    "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:29 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)


def reading(files: Mapping[str, str]) -> Read:
    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    return read


def second(own: str, mounts: str = SECOND, **files: str) -> Read:
    named = {f"/sys/fs/cgroup{name}": text for name, text in files.items()}
    return reading({"/proc/self/cgroup": own, "/proc/self/mountinfo": mounts} | named)


def test_a_container_with_its_own_view_of_the_second_version() -> None:
    read = second(
        "0::/\n",
        **{
            "/memory.max": f"{4 * GB}\n",
            "/memory.current": f"{3 * GB}\n",
            "/memory.stat": (
                f"anon {GB}\nfile {2 * GB}\nshmem 9\nfile_mapped 5\ninactive_file {GB}\n"
                f"active_file {GB // 2}\nslab_reclaimable 70\nslab_unreclaimable 3\n"
            ),
            "/cpu.max": "150000 100000\n",
        },
    )
    assert memory_allowance(read) == MemoryAllowance(4 * GB, 2 * GB + GB // 2 + 70)
    assert allowed_processors(read) == 1


def test_the_tightest_of_nested_groups_counts_for_limit_and_for_room() -> None:
    slice_, unit = "/user.slice", "/user.slice/app.service"
    read = second(
        "0::/user.slice/app.service\n",
        **{
            f"{unit}/memory.max": f"{6 * GB}",
            f"{unit}/memory.current": f"{1 * GB}",
            f"{slice_}/memory.max": f"{8 * GB}",
            f"{slice_}/memory.current": f"{7 * GB}",
            "/memory.max": "max",
            f"{unit}/cpu.max": "max 100000",
            f"{slice_}/cpu.max": "300000 100000",
        },
    )
    assert memory_allowance(read) == MemoryAllowance(6 * GB, 1 * GB)
    assert allowed_processors(read) == 3


def test_the_first_version_in_a_container_that_sees_a_part_of_the_tree() -> None:
    mounts = FIRST.replace(" / /sys/fs/cgroup/memory", " /docker/ab\\040c /sys/fs/cgroup/memory")
    place = "/sys/fs/cgroup/memory"
    read = reading(
        {
            "/proc/self/cgroup": "5:cpu,cpuacct:/docker/ab c\n4:memory:/docker/ab c\n1:name=x:/\n",
            "/proc/self/mountinfo": mounts,
            f"{place}/memory.limit_in_bytes": str(2 * GB),
            f"{place}/memory.usage_in_bytes": str(GB),
            f"{place}/memory.stat": (
                f"inactive_file 5\nactive_file 5\ntotal_inactive_file {GB // 4}\n"
                f"total_active_file {GB // 4}\n"
            ),
            "/sys/fs/cgroup/cpu,cpuacct/docker/ab c/cpu.cfs_quota_us": "50000",
            "/sys/fs/cgroup/cpu,cpuacct/docker/ab c/cpu.cfs_period_us": "100000",
        }
    )
    assert memory_allowance(read) == MemoryAllowance(2 * GB, GB + GB // 2)
    assert allowed_processors(read) == 1


def test_both_versions_side_by_side() -> None:
    unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    read = reading(
        {
            "/proc/self/cgroup": "4:memory:/a/b\n2:cpu:/\n0::/x\n",
            "/proc/self/mountinfo": FIRST + unified,
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": str(UNLIMITED),
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(3 * GB),
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": str(UNLIMITED),
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        }
    )
    assert memory_allowance(read) == MemoryAllowance(3 * GB, 3 * GB)
    assert allowed_processors(read) is None


def test_nothing_limits_where_nothing_is_said() -> None:
    for files in ({}, {"/proc/self/cgroup": ""}, {"/proc/self/cgroup": "0::/\n"}):
        assert memory_allowance(reading(files)) is None
        assert allowed_processors(reading(files)) is None
    full = second("0::/\n", **{"/memory.max": str(GB), "/memory.current": str(2 * GB)})
    assert memory_allowance(full) == MemoryAllowance(GB, 0), "more is used than is allowed"


def test_the_usual_places_serve_where_the_mounts_are_hidden() -> None:
    files = {"/proc/self/cgroup": "0::/a\n", "/sys/fs/cgroup/a/memory.max": str(GB)}
    assert memory_allowance(reading(files)) == MemoryAllowance(GB, GB)


@pytest.mark.parametrize("seed", range(30))
def test_with_any_files_it_ends_with_an_answer(seed: int) -> None:
    dice = random.Random(seed)
    pieces = ["0::", "/", "..", "4:memory:", "\n", " - ", "cgroup2", "cgroup", "max", "-1", "1e9"]
    pieces += ["\\040", "\0", str(GB), "100000 0", " ", ":", "x" * 50, "/sys/fs/cgroup", "٣"]

    def read(path: str) -> str:
        if dice.random() < 0.2:
            raise dice.choice([OSError, ValueError])(path)
        if path.startswith("/proc"):
            return "".join(dice.choices(pieces, k=dice.randrange(60)))
        return dice.choice([*pieces, str(dice.randrange(10**12)), "50000 100000"])

    for _ in range(20):
        allowed, cores = memory_allowance(read), allowed_processors(read)
        assert allowed is None or allowed.limit >= 0 <= allowed.room
        assert cores is None or cores >= 1


@pytest.mark.parametrize(
    ("quota", "processors"),
    [("50000 100000", 1), ("100000 100000", 1), ("199999 100000", 1), ("250000 100000", 2),
     ("1000 1000000", 1), ("35000 10000", 3), ("max 100000", None), ("100000", None)],
)  # fmt: skip
def test_a_part_of_a_processor_counts_for_none(quota: str, processors: int | None) -> None:
    read = second("0::/a/b\n", **{"/a/cpu.max": quota, "/a/b/cpu.max": "max 100000"})
    assert allowed_processors(read) == processors


def test_where_a_group_is_slowed_down_its_room_ends() -> None:
    read = second("0::/\n", **{"/memory.high": f"{2 * GB}", "/memory.max": f"{3 * GB}"})
    assert memory_allowance(read) == MemoryAllowance(2 * GB, 2 * GB)


@LINUX
def test_two_processors_of_one_core_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number % 4},{number % 4 + 4}\n")
    for allowed, cores in [({0, 4}, 1), ({0, 1, 4, 5}, 2), ({1, 2, 3}, 3), (set(range(8)), 4)]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, allowed=allowed: allowed)
        assert physical_cores(tmp_path) == cores


@contextmanager
def control_group(controller: str) -> Iterator[Path]:
    """Make a group of the first version; skip where that isn't possible."""
    groups = Path("/sys/fs/cgroup") / controller
    if not os.access(groups / "cgroup.procs", os.W_OK):
        pytest.skip("needs root, and control groups of the first version")
    group = groups / f"baton-test-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        with suppress(OSError):  # the kernel may hold it for a moment
            group.rmdir()


def run_within(group: Path, code: str) -> str:
    """Run some lines of Python in a control group and return what they print."""
    enter = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n"
    command = [sys.executable, "-c", enter + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout


@LINUX
@pytest.mark.parametrize(("quota", "threads"), [(50_000, 1), (100_000, 1), (150_000, 1)])
def test_a_real_quota_of_the_kernel(quota: int, threads: int) -> None:
    with control_group("cpu") as group:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text(str(quota))
        code = (
            "from baton.platform.hardware import inspect_machine\n"
            "from baton.platform.machine_limits import physical_cores\n"
            "print(physical_cores(), inspect_machine().threads)\n"
        )
        assert run_within(group, code) == f"{threads} {threads}\n"


@LINUX
def test_a_file_that_was_read_three_times_leaves_its_room_to_models(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as filled:
        filled.write(os.urandom(1 << 20) * 160)
        os.fsync(filled.fileno())
        os.posix_fadvise(filled.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with control_group("memory") as group:
        (group / "memory.limit_in_bytes").write_text(str(256 << 20))
        code = (
            "from pathlib import Path\n"
            "from baton.workers.local.model_memory import machine_memory\n"
            f"for _ in range(3):\n    file = open({str(file)!r}, 'rb')\n"
            "    while file.read(1 << 20): pass\n"
            f"used = int(Path({str(group / 'memory.usage_in_bytes')!r}).read_text())\n"
            "print(used, machine_memory().available)\n"
        )
        used, available = map(int, run_within(group, code).split())
    if used < 160 << 20:
        pytest.skip("this file system's cache isn't counted")
    assert available > 160 << 20
