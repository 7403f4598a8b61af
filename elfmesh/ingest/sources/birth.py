"""Creation times of files, which Python has no function for on Linux."""

from __future__ import annotations

import ctypes
import os
import struct

AT_FDCWD, STATX_BTIME, STATX_BTIME_AT, STATX_BYTES = -100, 0x800, 80, 256
"""Constants of linux/stat.h: the working directory, the bit and the position of the creation time, the size
of the struct."""


def born_ns(path: str) -> int | None:
    """Return when a file was created, in nanoseconds of Unix time; None if the file system does not say."""
    statx = getattr(_LIBC, "statx", None)
    found = ctypes.create_string_buffer(STATX_BYTES)
    if statx is None or statx(AT_FDCWD, os.fsencode(path), 0, STATX_BTIME, found):
        return None
    (mask,) = struct.unpack_from("=I", found, 0)
    seconds, nanoseconds = struct.unpack_from("=qI", found, STATX_BTIME_AT)
    return int(seconds * 10**9 + nanoseconds) if mask & STATX_BTIME else None


def is_younger(path: str, other: str) -> bool:
    """Return whether a file was created after another one; False if that is unknown."""
    born, other_born = born_ns(path), born_ns(other)
    return born is not None and other_born is not None and born > other_born


_LIBC = ctypes.CDLL(None)
