"""seccomp: the system calls that a worker of Python functions may make; all others fail.

A worker loads this file by its path, so it imports no module of elfmesh. The list contains what is allowed,
so new calls are refused. No listed call changes files, creates processes, threads or sockets, or affects
another process; where needed, arguments are checked. The filter applies to all threads for the rest of the
process. A call with another convention (32 bits) kills the process. The list contains the calls that CPython
3.11 to 3.13, pyarrow and numpy make after loading. Other calls fail with EPERM, or with ENOSYS if libraries
have a fallback.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from dataclasses import dataclass

CALLS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "preadv": (295, 69), "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436),
    "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291), "stat": (4, None), "lstat": (6, None),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17),
    "fadvise64": (221, 223), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226), "madvise": (28, 233),
    "brk": (12, 214), "membarrier": (324, 283), "futex": (202, 98), "rseq": (334, 293),
    "set_robust_list": (273, 99), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    "getrusage": (98, 165), "getrlimit": (97, 163), "setrlimit": (160, 164), "getrandom": (318, 278),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "getpgrp": (111, None), "getpgid": (121, 155),
    "getsid": (124, 156), "getpriority": (140, 141), "uname": (63, 160), "sysinfo": (99, 179),
    "getcpu": (309, 168), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
"""Calls with any arguments: their numbers on x86_64 and aarch64; None: the architecture lacks the call."""

_CHANGES = 0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000 | 0o10000000 | 0o20000000
"""Flags of open, equal on both: write, create, truncate, append, O_ASYNC, O_PATH, O_TMPFILE."""

_OWN_FLAGS = (0, 1, 2, 3, 1030)
"""Commands of fcntl: duplicate a descriptor, get and set its flag, get its mode; not the receiver of its
signals."""

_TERMINAL_OR_INHERIT = (0x5401, 0x5450, 0x5451)
"""Requests of ioctl: whether it is a terminal, and whether it stays open across exec."""

_NEWER = 424
"""Calls from this number on are equal on all architectures. They fail with ENOSYS, because libraries try them
first."""

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _CONVENTION_AT, _ARGUMENTS_AT = 0, 4, 16
ALLOW, REFUSE, KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_SET_FILTER, _ACTION_AVAILABLE, _ALL_THREADS = 1, 2, 1


@dataclass(frozen=True, slots=True)
class Architecture:
    """Architecture of the machine.

    `column` is the column in `CALLS`; `convention` is the kernel's name for filters; `checked` has calls
    whose arguments are checked.
    """

    column: int
    convention: int
    seccomp: int
    checked: dict[str, int]


ARCHITECTURES = {
    "x86_64": Architecture(
        0, 0xC000_003E, 317,
        {"open": 2, "openat": 257, "fcntl": 72, "ioctl": 16, "kill": 62, "tgkill": 234, "prlimit64": 302},
    ),
    "aarch64": Architecture(
        1, 0xC000_00B7, 277,
        {"openat": 56, "fcntl": 25, "ioctl": 29, "kill": 129, "tgkill": 131, "prlimit64": 261},
    ),
}  # fmt: skip


def architecture() -> Architecture:
    """Return this machine's architecture. Raises OSError if its calls are not listed here."""
    machine = os.uname().machine
    found = ARCHITECTURES.get(machine)
    if found is None or sys.maxsize < 1 << 32:
        raise OSError(errno.ENOSYS, f"seccomp: there is no list of system calls for {machine}")
    return found


def check() -> None:
    """Raise if this kernel lacks what `restrict` needs; changes nothing."""
    _call(architecture(), _ACTION_AVAILABLE, 0, struct.pack("I", REFUSE))


def restrict() -> None:
    """Restrict all threads of this process to the listed calls, and forbid new privileges (no_new_privs).

    Raises OSError if the kernel refuses. The restrictions may then be incomplete.
    """
    here = architecture()
    program = ctypes.create_string_buffer(program_of(here, os.getpid()))
    head = struct.pack("HP", (len(program) - 1) // 8, ctypes.addressof(program))
    if _call(here, _SET_FILTER, _ALL_THREADS, head):
        raise OSError(errno.EBUSY, "seccomp: a thread has another filter")


def program_of(here: Architecture, pid: int) -> bytes:
    """Return the filter program for the kernel; signals may be sent only to the process `pid`."""
    made = [
        _step(_LOAD, _CONVENTION_AT), _step(_EQUAL, here.convention, 1, 0), _step(_RETURN, KILL),
        _step(_LOAD, _NUMBER_AT),
    ]  # fmt: skip
    for numbers in CALLS.values():
        if (number := numbers[here.column]) is not None:
            made += [_step(_EQUAL, number, 0, 1), _step(_RETURN, ALLOW)]
    refuse = _step(_RETURN, REFUSE | errno.EPERM)
    for name, number in here.checked.items():
        if name in ("open", "openat"):
            flags = 1 if name == "open" else 2
            test = [_argument(flags), _step(_ANY_BIT, _CHANGES, 0, 1), refuse, _step(_RETURN, ALLOW)]
        else:
            at, allowed = {
                "fcntl": (1, _OWN_FLAGS),
                "ioctl": (1, _TERMINAL_OR_INHERIT),
                "prlimit64": (0, (0,)),
            }.get(name, (0, (pid,)))
            test = [_argument(at)]
            for value in allowed:
                test += [_step(_EQUAL, value, 0, 1), _step(_RETURN, ALLOW)]
            test.append(refuse)
        made += [_step(_EQUAL, number, 0, len(test)), *test]
    made += [_step(_AT_LEAST, _NEWER, 0, 1), _step(_RETURN, REFUSE | errno.ENOSYS), refuse]
    return b"".join(made)


def _argument(at: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS_AT + 8 * at)


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)


def _call(here: Architecture, operation: int, flags: int, data: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    reported: int = libc.syscall(here.seccomp, ctypes.c_long(operation), ctypes.c_long(flags), data)
    if reported < 0:
        code = ctypes.get_errno()
        why = "this kernel is built without it" if code in (errno.ENOSYS, errno.EINVAL) else os.strerror(code)
        raise OSError(code, f"seccomp: {why}")
    return reported
