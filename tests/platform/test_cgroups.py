"""What a container or a service may use: both versions of control groups, nested, and broken."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from baton.platform.cgroups import MemoryAllowance, Read, allowed_processors, memory_allowance

GB = 10**9
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
            "/memory.stat": f"anon 1\nfile 99\ninactive_file {GB}\nactive_file 7\n",
            "/cpu.max": "150000 100000\n",
        },
    )
    assert memory_allowance(read) == MemoryAllowance(4 * GB, 2 * GB)
    assert allowed_processors(read) == 2


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
            f"{place}/memory.stat": f"inactive_file 5\ntotal_inactive_file {GB // 2}\n",
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
def test_whatever_the_files_hold_it_ends_with_an_answer(seed: int) -> None:
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
