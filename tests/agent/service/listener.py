"""A service manager's end of NOTIFY_SOCKET."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.patience import PATIENCE_S

Fields = dict[str, str]


class Listener:
    """Receives what an agent says. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrived: list[Fields] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def next(self, timeout_s: float = PATIENCE_S) -> Fields | None:
        """The next message; None if none comes."""
        self._socket.settimeout(timeout_s)
        try:
            text = self._socket.recv(65536).decode()
        except TimeoutError:
            return None
        fields = dict(line.split("=", 1) for line in text.splitlines())
        self.arrived.append(fields)
        return fields

    def until(self, wanted: Callable[[Fields], bool]) -> Fields:
        """The first message that is wanted, of those to come."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            fields = self.next(max(0.01, end - time.monotonic()))
            if fields is not None and wanted(fields):
                return fields
        raise AssertionError(f"did not come within {PATIENCE_S:g} s, but: {self.arrived[-20:]}")
