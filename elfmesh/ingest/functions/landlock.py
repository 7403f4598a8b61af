"""Landlock: a worker of Python functions may read Python's libraries and nothing else of the file system.

A worker loads this file by its path before anything else, so it imports no module of elfmesh. It revokes all
rights over files, TCP ports, signals and abstract sockets that the kernel's Landlock supports, and grants
only reading below `library_paths`. This applies to the calling thread and its children, so `restrict` raises
in a process with other threads. `seccomp` covers what Landlock does not (modes, owners, times, other sockets,
signals before ABI 6). Names and sizes of files stay visible.
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
"""Number of file rights that each ABI from 1 on supports; later ABIs support as many as the last."""

_CONNECT_AND_BIND, _ABSTRACT_AND_SIGNAL = 0b11, 0b11
_NETWORK_ABI, _SCOPE_ABI = 4, 6
_WHY = {
    errno.ENOSYS: "this kernel is built without it",
    errno.EOPNOTSUPP: "this kernel was started without it",
}
SYSTEM_PATHS = (
    "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/lib/locale",
)  # fmt: skip
"""Files that system libraries read besides libraries: the linker cache, time zones, locales."""


def abi() -> int:
    """Return the version of this kernel's Landlock. Raises OSError with the reason if there is none."""
    return _call(_CREATE, None, 0, _VERSION)


def library_paths() -> list[str]:
    """Return the directories of this process's Python modules and libraries, and `SYSTEM_PATHS`.

    Directories outside Python's prefixes that a .pth file has added, such as a checkout, are excluded.
    """
    prefixes = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
    found = {Path(path).resolve() for path in sys.path if path}
    found = {path for path in found if any(prefix in path.parents for prefix in prefixes)}
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    mapped = (Path(f"/{line.partition('/')[2]}") for line in maps.splitlines())
    found |= {path.parent for path in mapped if ".so" in path.name}
    return [*sorted(map(str, found)), *SYSTEM_PATHS]


def restrict(readable: Iterable[str]) -> None:
    """Restrict this process to reading below these paths; missing ones are ignored.

    Raises OSError if the kernel refuses or the process has several threads. The restrictions may then be
    incomplete.
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
