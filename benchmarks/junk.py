"""A second log at each agent, four of five lines of which are unusable: what one bad job reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

STREAM = "junk"
TICK_S = 0.02

KINDS = (  # the first is a record, and tells the time, so that windows close
    '{{"ts":"{ts}","product":"used"}}\n',
    '{{"ts":"{ts}","product":"torn\n',
    "\x00\x01 no line of any log \x7f\n",
    "[1, 2, 3]\n",
    '{{"ts":"no time at all","product":"unused"}}\n',
)


class Junk:
    """Appends to some logs, stamped with the clock. Use as a context manager.

    Args:
        paths: the logs; none: nothing is done.
        rate_per_s: lines per second of each.
        backlog: lines that each log begins with, of the time before.
    """

    def __init__(self, paths: Sequence[Path], rate_per_s: float, backlog: int) -> None:
        self._paths, self._rate_per_s, self._backlog = paths, rate_per_s, backlog
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="junk", daemon=True)

    def __enter__(self) -> Junk:
        if self._paths:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        began_s, written = time.time() - self._backlog / self._rate_per_s, 0
        while not self._stopping.is_set():
            due = int((time.time() - began_s) * self._rate_per_s)
            text = "".join(self._line(number, began_s) for number in range(written, due))
            for path in self._paths:
                with path.open("a") as log:
                    log.write(text)
            written = due
            self._stopping.wait(TICK_S)

    def _line(self, number: int, began_s: float) -> str:
        stamp = datetime.fromtimestamp(began_s + number / self._rate_per_s, UTC)
        return KINDS[number % len(KINDS)].format(ts=stamp.isoformat(timespec="milliseconds"))
