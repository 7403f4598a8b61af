"""Framing of a byte stream into messages: RFC 6587's octet counting, or lines.

A number, a space and `<` begin a counted message; other messages end at a newline or a NUL. In the spool a
message is one line: a newline in it becomes `#012`, as syslog daemons write it.
"""

from __future__ import annotations

import re

from elfmesh.limits import LINE_BYTES_MAX

_COUNTED = re.compile(rb"([1-9]\d{0,8}) (?=<)")
_MAYBE_COUNTED = re.compile(rb"[1-9]\d{0,8} ?\Z")
_END = re.compile(rb"[\n\0]")
NEWLINE = b"#012"


def one_line(message: bytes) -> bytes:
    body = message.strip(b"\r\n\0")
    if not body.strip():
        return b""
    return body.replace(b"\n", NEWLINE) + b"\n" if b"\n" in body else body + b"\n"


class MessageCutter:
    """Framing of one sender's bytes; messages above `bytes_max` are dropped and counted."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self.overlong = 0
        self._max = bytes_max
        self._rest = b""
        self._skip = 0  # remaining bytes of a counted message that is too long
        self._dropping = False  # skip a line that is too long, up to its end

    def push(self, chunk: bytes) -> list[bytes]:
        """Return the lines of the messages that `chunk` completes.

        Cost: keeps at most one message in memory.
        """
        data, self._rest = self._rest + chunk, b""
        lines: list[bytes] = []
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            found = None if self._dropping else _COUNTED.match(data, at)
            if found is not None:
                size, begin = int(found[1]), found.end()
                if size > self._max:
                    self.overlong += 1
                    self._skip, at = size, begin
                    continue
                if begin + size > len(data):
                    break
                lines.append(one_line(data[begin : begin + size]))
                at = begin + size
                continue
            if not self._dropping and len(data) - at < 12 and _MAYBE_COUNTED.match(data, at):
                break
            end = _END.search(data, at)
            if end is None:
                break
            if self._dropping or end.start() - at > self._max:
                self.overlong += not self._dropping
                self._dropping = False
            else:
                lines.append(one_line(data[at : end.start()]))
            at = end.end()
        self._keep(data[at:])
        return [line for line in lines if line]

    def _keep(self, rest: bytes) -> None:
        if self._dropping:
            return
        self._rest = rest
        if len(rest) > self._max + 16:
            self.overlong += 1
            self._dropping, self._rest = True, b""

    def finish(self) -> list[bytes]:
        """Return the last message if it has no newline at the end.

        An incomplete counted message is dropped.
        """
        rest, self._rest = self._rest, b""
        line = b"" if _COUNTED.match(rest) else one_line(rest)
        return [line] if line else []
