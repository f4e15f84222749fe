"""Confines untrusted code to computing, with Linux' seccomp.

The filter lists what is allowed, and nothing on the list opens a file, a socket or a process: a
path can't even be looked at, so there is nothing for Landlock to add, and it works as root, where
a limit on processes wouldn't. Limits on memory and time come from the kernel too. A process is
confined for good, after it has imported all it will ever need.

Numbers of system calls are those of the kernel's tables, which never change.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import resource  # here, since nothing can be imported any more where code is about to be run

MEMORY_BYTES = 512 * 1024 * 1024

_ALLOWED_CALLS = {  # name: x86_64, aarch64
    "write": (1, 64),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "futex": (202, 98),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrandom": (318, 278),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column above, and the kernel's name for the machine."""

_UNPRIVILEGED_ID = 65534
_SET_DEATH_SIGNAL, _SET_SECCOMP, _NO_NEW_PRIVILEGES = 1, 22, 38
_FILTER_MODE = 2
_KILL, _ALLOW, _REFUSE = 0x80000000, 0x7FFF0000, 0x00050000
_JUMP_IF_EQUAL = 0x15
_LOAD_NUMBER, _LOAD_MACHINE = (0x20, 0, 0, 0), (0x20, 0, 0, 4)
_RETURN_KILL, _RETURN_REFUSE, _RETURN_ALLOW = (
    (0x06, 0, 0, action) for action in (_KILL, _REFUSE | errno.EPERM, _ALLOW)
)


def describe_sandbox() -> str:
    """Say in a sentence what code would run in on this machine, or "" where there is nothing."""
    known = sys.platform == "linux" and platform.machine() in _MACHINES
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    with suppress(OSError):
        if known and "errno" in actions.read_text("ascii").split():
            return (
                "Code runs in a process of its own that can only compute (seccomp),"
                f" with {MEMORY_BYTES // 1024**2} MB of memory."
            )
    return ""


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the one that forked it ends."""
    _prctl(_SET_DEATH_SIGNAL, 9)
    if os.getppid() != parent:
        os._exit(1)


def confine(seconds: int) -> None:
    """Give everything up for good but computing and writing. Raises OSError."""
    import ctypes

    parent = os.getppid()
    os.nice(10)
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(limit, (value, value))
    if os.geteuid() == 0:
        with suppress(OSError):  # already without the right to: then it isn't root's process
            os.setgroups([])
            os.setresgid(_UNPRIVILEGED_ID, _UNPRIVILEGED_ID, _UNPRIVILEGED_ID)
            os.setresuid(_UNPRIVILEGED_ID, _UNPRIVILEGED_ID, _UNPRIVILEGED_ID)
    die_with_parent(parent)  # changing the user has forgotten it
    _prctl(_NO_NEW_PRIVILEGES, 1)
    program = _filter()
    buffer = ctypes.create_string_buffer(program, len(program))
    packed = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    header = ctypes.create_string_buffer(packed, len(packed))
    _prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(header))


def _filter() -> bytes:
    """Return the program that the kernel runs before each system call."""
    column, machine = _MACHINES[platform.machine()]
    numbers = [both[column] for both in _ALLOWED_CALLS.values()]
    program = [
        _LOAD_MACHINE,
        (_JUMP_IF_EQUAL, 1, 0, machine),
        _RETURN_KILL,  # another machine's calls have other numbers
        _LOAD_NUMBER,
    ]
    for left, number in zip(reversed(range(len(numbers))), numbers, strict=True):
        program.append((_JUMP_IF_EQUAL, left + 1, 0, number))
    program += [_RETURN_REFUSE, _RETURN_ALLOW]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def _prctl(option: int, second: int, third: int = 0) -> None:
    """Call the kernel's prctl, which wants zeros for what an option doesn't use. Raises OSError."""
    import ctypes

    given = map(ctypes.c_ulong, (second, third, 0, 0))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(ctypes.c_int(option), *given) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
