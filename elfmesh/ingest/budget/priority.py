"""Priority of the agent's process on its host: nice, and the class of its disk traffic.

The priority applies to the whole process, because a thread with a lower one would keep the interpreter's lock
while it is not scheduled.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform

log = logging.getLogger("elf.agent")
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
"""Numbers of the system call, which the C library does not wrap."""

_IO = {"best-effort": (2 << 13) | 7, "idle": 3 << 13}
"""Class; for best effort also the lowest of its eight levels."""


def lower(nice: int | None, io_class: str) -> None:
    """Lower the priority of this process and its later threads. A refusal of the system is a warning."""
    if nice is not None and nice > os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    if io_class:
        number = _IOPRIO_SET.get(platform.machine())
        if number is None or platform.system() != "Linux":
            log.warning("limits.io_class is not supported on this system")
            return
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(number, 1, 0, _IO[io_class]) != 0:
            log.warning("limits.io_class is refused: %s", os.strerror(ctypes.get_errno()))
