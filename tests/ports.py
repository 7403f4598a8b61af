"""Ports that a process of these tests may take, give up and take again, and no other process gets meanwhile.

A port from the kernel's own range may be an outgoing connection as soon as the process that had it is
gone; below it no process gets one without asking. Other processes of tests ask here: each port has a file
that is locked as long as the process that chose it lives.
"""

from __future__ import annotations

import atexit
import fcntl
import random
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST, COUNT_MAX = 10_000, 20_000
"""Below are ports of well-known services."""

PLACE = Path(tempfile.gettempdir()) / "elf-test-ports"

_locks: dict[int, IO[str]] = {}


@atexit.register
def _close() -> None:
    """Close the files, because Python warns of each that it closes by itself."""
    for file in _locks.values():
        file.close()


def kernels_first() -> int:
    """The lowest port that the kernel gives to a process that names none; Linux' usual one if unknown."""
    return int(KERNEL.read_text().split()[0]) if KERNEL.exists() else 32_768


def reserve(among: Sequence[int] = ()) -> int:
    """A port of loopback that is free, and ours until this process ends; `among`: one of these."""
    stop = kernels_first()
    candidates = among or range(max(FIRST, stop - COUNT_MAX), stop)
    for port in random.sample(candidates, len(candidates)):
        if port not in _locks and _lock(port):
            if _is_free(port):
                return port
            _locks.pop(port).close()
    raise AssertionError(f"no port is free below {stop}, where the kernel's own begin")


def _lock(port: int) -> bool:
    PLACE.mkdir(exist_ok=True)
    file = (PLACE / str(port)).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return False
    _locks[port] = file
    return True


def _is_free(port: int) -> bool:
    """As for a server, whom connections of an earlier one that are not quite over do not keep out."""
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            for each in (stream, datagrams):
                each.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
