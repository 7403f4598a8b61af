"""What Spark prints besides answers: the lines of its start, and the text of its errors.

Owns which lines are left out. The JVM inherits the standard error of the process that starts it, so its
lines go through a pipe for its whole life; every other line is passed on.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

START_S = 1.0
"""After it, a terminal shows that Spark is starting."""

STARTING = "starting Spark ..."
NOISE = re.compile(
    rb"WARNING: Using incubator modules|Using Spark's default log4j profile"
    rb"|Setting (?:default|Spark) log level|To adjust logging level use"
    rb"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:INFO|WARN) "
)
"""Lines of a start without a problem. Sessions of this package log errors only."""

_ERROR = re.compile(
    r"(?:^|: |Caused by: )(?:[\w.$]+\.)?\w*(?:Error|Exception|Failure|Unreachable): (?P<text>.*\S)",
    re.MULTILINE,
)
_CODE = re.compile(r"^\[[A-Z_.]+\] |\s*SQLSTATE: \w+$")
_TRACEBACK = "Traceback (most"


@contextmanager
def quiet_start(*, launches: bool) -> Iterator[None]:
    """Leave out the noise of a JVM that starts inside, and show on a terminal that it does.

    `launches`: whether this process has no JVM yet.
    """
    if not launches:
        yield
        return
    reading, writing = os.pipe()
    before = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, os.dup(before)), daemon=True).start()
    is_terminal = os.isatty(before)
    shown = threading.Event()

    def show() -> None:
        shown.set()
        os.write(before, STARTING.encode())

    timer = threading.Timer(START_S, show)
    timer.daemon = True
    if is_terminal:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if is_terminal:
            timer.join()
        sys.stderr.flush()
        os.dup2(before, 2)
        if shown.is_set():
            os.write(before, b"\r\x1b[K")
        os.close(before)


def _pass_on(reading: int, to: int) -> None:
    """Copy lines until all writers have closed the pipe. A line without an end is copied at the end."""
    rest = b""
    with open(reading, "rb", buffering=0) as file:
        while block := file.read(1 << 16):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                if not NOISE.match(line):
                    os.write(to, line + b"\n")
    if rest:
        os.write(to, rest)
    os.close(to)


def reason_of(error: BaseException) -> str:
    """Return the reason of an error of Spark as one line: that of the innermost error which its text has."""
    text = str(error).strip()
    found = [match["text"] for match in _ERROR.finditer(text) if _TRACEBACK not in match["text"]]
    lines = text.splitlines() or [type(error).__name__]
    return _CODE.sub("", found[-1] if found else lines[0])
