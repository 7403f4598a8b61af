"""What this host confines Python functions with (`landlock`, `seccomp`), and who may read this process."""

from __future__ import annotations

import ctypes
import os
import sys

from elfmesh.ingest.functions import landlock, seccomp

PR_SET_DUMPABLE = 4


def absent() -> str:
    """Which layers this host lacks, each with the reason; "" if it has both. Cost: two system calls."""
    if not sys.platform.startswith("linux"):
        return "Landlock and seccomp: they are Linux's"
    found = []
    for ask in (landlock.abi, seccomp.check):
        try:
            ask()
        except OSError as error:
            found.append(str(error.strerror))
    return "; ".join(found)


def off_here(absent: str) -> str:
    """Why functions are off on a host that lacks what holds them in; "" if it lacks nothing."""
    if not absent:
        return ""
    return f"Python functions are off here: {absent} ([functions] dangerously_without_sandbox accepts that)"


def hide_memory() -> None:
    """Let no process of the same user trace this one or read its memory; it leaves no core dump either.

    Its files in /proc belong to root from then on, so only root and this process can open `environ`, `fd`,
    `io` and `maps`. Programs that it executes begin without the flag.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, *[ctypes.c_ulong(0)] * 4):
        raise OSError(ctypes.get_errno(), f"PR_SET_DUMPABLE: {os.strerror(ctypes.get_errno())}")
