"""A kernel that lacks Landlock or seccomp: for this process and all that it starts, their calls do not exist.

`python -m tests.ingest.functions.lesser_kernel LAYER WORDS` is `elf WORDS` on such a kernel.
The filter is one of the kernel's own, so what is tested meets a real ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

CALLS = {
    "landlock": {"x86_64": 444, "aarch64": 444},
    "seccomp": {"x86_64": 317, "aarch64": 277},
}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2


def take_away(name: str) -> None:
    """Have a layer's first call answer ENOSYS for good."""
    number = CALLS[name][os.uname().machine]
    steps = [
        (0x20, 0, 0, 0),  # load the number of the call
        (0x15, 0, 1, number),
        (0x06, 0, 0, 0x0005_0000 | errno.ENOSYS),
        (0x06, 0, 0, 0x7FFF_0000),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    head = struct.pack("HP", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = [ctypes.c_ulong(0)] * 3
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *zero):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(FILTER), head, *zero[1:]):
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def main() -> None:
    """Be `elf` on that kernel."""
    take_away(sys.argv[1])
    os.execv(sys.executable, [sys.executable, "-m", "elfmesh.agent", *sys.argv[2:]])


if __name__ == "__main__":
    main()
