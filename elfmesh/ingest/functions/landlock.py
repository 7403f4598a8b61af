"""Landlock: a worker of Python functions reads Python's libraries, and nothing else of the file system.

A worker loads this file by its path before anything else, so it imports nothing of ours. All rights over
files, TCP ports, signals and abstract sockets that the kernel's Landlock knows are taken, and only reading
below `library_paths` is given back. That counts for the calling thread and those that it makes, so `restrict`
refuses a process with others. `seccomp` confines what Landlock does not know (modes, owners, times, other
sockets, signals before ABI 6); names and sizes of files stay visible.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # on every architecture
_VERSION = 1
_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = (13, 14, 15, 15, 16)
"""How many rights over files the ABIs from 1 on know; those after the last know as many."""

_CONNECT_AND_BIND, _ABSTRACT_AND_SIGNAL = 0b11, 0b11
_NETWORK_ABI, _SCOPE_ABI = 4, 6
_WHY = {
    errno.ENOSYS: "this kernel is built without it",
    errno.EOPNOTSUPP: "this kernel was started without it",
}
SYSTEM_PATHS = (
    "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/lib/locale",
)  # fmt: skip
"""What libraries of the system read beside themselves: where others are, time zones, letters."""


def abi() -> int:
    """The version of this kernel's Landlock. Raises OSError: it has none; the text says why."""
    return _call(_CREATE, None, 0, _VERSION)


def library_paths() -> list[str]:
    """The directories that this process imports from and has libraries of, and `SYSTEM_PATHS`.

    A directory outside Python's own prefixes that a .pth file has added, such as a checkout, is left out.
    """
    prefixes = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
    found = {Path(path).resolve() for path in sys.path if path}
    found = {path for path in found if any(prefix in path.parents for prefix in prefixes)}
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    mapped = (Path(f"/{line.partition('/')[2]}") for line in maps.splitlines())
    found |= {path.parent for path in mapped if ".so" in path.name}
    return [*sorted(map(str, found)), *SYSTEM_PATHS]


def restrict(readable: Iterable[str]) -> None:
    """Leave this process only reading below some paths; absent ones are left out.

    OSError: the kernel refuses, or the process has several threads. Nothing is certain then.
    """
    version = abi()
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        raise OSError(errno.EBUSY, "Landlock: the process has several threads")
    files = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1
    network = _CONNECT_AND_BIND if version >= _NETWORK_ABI else 0
    scope = _ABSTRACT_AND_SIGNAL if version >= _SCOPE_ABI else 0
    handled = struct.pack("QQQ", files, network, scope)
    rules = _call(_CREATE, handled, len(handled), 0)
    try:
        for path in readable:
            _allow(rules, path)
        _call(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        rights = _READ_FILE | _READ_DIR if Path(path).is_dir() else _READ_FILE
        _call(_ADD, rules, _BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(number: int, *words: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    reported: int = libc.syscall(
        number, *(ctypes.c_long(word) if isinstance(word, int) else word for word in words)
    )
    if reported < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {_WHY.get(code, os.strerror(code))}")
    return reported
