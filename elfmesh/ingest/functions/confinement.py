"""Confinement of Python functions by the kernel (`landlock`, `seccomp`); protection of this process."""

from __future__ import annotations

import ctypes
import os
import sys

from elfmesh.ingest.functions import landlock, seccomp

PR_SET_DUMPABLE = 4


def absent() -> str:
    """Return the layers that this host lacks, with the reasons; "" if it has both. Cost: two system calls."""
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
    """Return why functions are off on a host that lacks a layer; "" if it lacks none."""
    if not absent:
        return ""
    return f"Python functions are off here: {absent} ([functions] dangerously_without_sandbox accepts that)"


def hide_memory() -> None:
    """Forbid the user's other processes to trace this one or read its memory; disable core dumps.

    Its files in /proc then belong to root, so only root and this process can open `environ`, `fd`, `io` and
    `maps`. Programs that it executes start without this protection.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, *[ctypes.c_ulong(0)] * 4):
        raise OSError(ctypes.get_errno(), f"PR_SET_DUMPABLE: {os.strerror(ctypes.get_errno())}")
