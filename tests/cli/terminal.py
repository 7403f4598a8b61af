"""A command in a pseudo-terminal, as a user at a keyboard has it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence

from tests.patience import PATIENCE_S


class Terminal:
    """`elf`, or another command with its path, in a pseudo-terminal of some size, and all it wrote."""

    def __init__(
        self, *arguments: str, rows: int = 24, columns: int = 120, command: Sequence[str] = ()
    ) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", COLUMNS="", LINES="")
            os.environ.pop("COLUMNS")
            os.environ.pop("LINES")
            words = [*(command or (sys.executable, "-m", "elfmesh.agent")), *arguments]
            os.execv(words[0], words)
        self.resize(rows, columns)
        self.text = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, key: str) -> None:
        self.text = ""
        os.write(self.descriptor, key.encode())

    def wait_for(self, pattern: str, timeout_s: float = PATIENCE_S) -> str:
        deadline = time.monotonic() + timeout_s
        while not re.search(pattern, self.text, re.DOTALL):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text[-3000:]!r}"
            if not self._read():
                break
        return self.text

    def end(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the command has ended, and return its exit code. One that does not end is killed."""
        deadline = time.monotonic() + timeout_s
        while self._read():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        """Read for up to 0.2 s. Return whether the other side is still there."""
        if select.select([self.descriptor], [], [], 0.2)[0]:
            try:
                text = os.read(self.descriptor, 65536).decode("utf-8", "replace")
            except OSError:
                return False
            self.text += text
            return bool(text)
        return True
