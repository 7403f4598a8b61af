"""Output of the demo while it runs: a live table on a terminal, plain lines elsewhere.

The module does not know where results come from. It escapes values from logs.
"""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from elfmesh.text import printable

BAR_WIDTH = 28
EVENTS_SHOWN = 4
ROWS_SHOWN = (10, 5)
"""Maximum number of rows of the first job, and of each other job."""

AROUND_ROWS = 5
"""Lines of a table that are not rows: the heading above it, its frame, its column names."""


class View(Protocol):
    """Interface of the two kinds of output."""

    def say(self, text: str) -> None: ...

    def result(self, record: dict[str, Any]) -> None: ...

    def status(self, text: str) -> None:
        """Show the progress of the demo in place of the previous status."""
        ...

    def __enter__(self) -> View: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class PlainView:
    """Output with one line per event and interval, for pipes and log files."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        self._print(text)

    def status(self, text: str) -> None:
        """Ignored, because a log file does not need a clock."""

    def result(self, record: dict[str, Any]) -> None:
        best = ", ".join(
            " ".join(printable(str(value)) for value in row.values()) for row in record["rows"][:3]
        )
        self._print(f"{heading(record)}   {best or 'no rows'}")

    def __enter__(self) -> PlainView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveView:
    """Output with the newest interval of each job as a table, redrawn in place below the last events."""

    def __init__(self, console: Console) -> None:
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._newest: dict[str, dict[str, Any]] = {}
        self._order: list[str] = []
        self._status = ""
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._draw, transient=False)
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        self._events.append(f"{time.monotonic() - self._began:5.1f} s  {text}")

    def status(self, text: str) -> None:
        self._status = text

    def result(self, record: dict[str, Any]) -> None:
        if record["job"] not in self._order:
            self._order.append(record["job"])
        if record["rows"] or not self._newest.get(record["job"], record)["rows"]:
            self._newest[record["job"]] = record

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status = ""
        self._live.stop()

    def _draw(self) -> Group:
        parts: list[Text | Table] = [Text(event, style="cyan") for event in self._events]
        shown = rows_shown(self._console.height - EVENTS_SHOWN - 2, len(self._order))
        for place, job in enumerate(self._order):
            record = self._newest[job]
            whole = record["completeness"] == 1.0
            parts.append(Text(heading(record), style="bold green" if whole else "bold yellow"))
            parts.append(_table(record["rows"][: shown[min(place, len(shown) - 1)]]))
        if self._status:
            parts.append(Text(self._status, style="dim"))
        return Group(*parts)


def rows_shown(lines: int, jobs: int) -> tuple[int, int]:
    """Return how many rows of the first job, and of each other job, fit into `lines`. At least one each."""
    room = max(lines - AROUND_ROWS * jobs, jobs)
    first = min(ROWS_SHOWN[0], max(room // 2, 1)) if jobs > 1 else min(ROWS_SHOWN[0], room)
    return first, min(ROWS_SHOWN[1], max((room - first) // max(jobs - 1, 1), 1))


def heading(record: dict[str, Any]) -> str:
    """Return one line about an interval: job, window, completeness, and agents. It names missing agents."""
    agents = record["agents"]
    window = record["interval"]
    missing = (
        f", missing: {', '.join(printable(name) for name in agents['missing'])}" if agents["missing"] else ""
    )
    return (
        f"{record['job']} {clock(window['start'])}-{clock(window['end'])} {record['state']} "
        f"completeness {record['completeness']:.3g}, agents {agents['in']}/{agents['expected']}{missing}"
    )


def clock(iso: str | None) -> str:
    """Return the time of day of a timestamp such as "2026-05-17T10:05:00Z"."""
    return iso[11:19] if iso else "-"


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table()
    columns = list(rows[0]) if rows else ["no rows in this interval"]
    table.add_column("", justify="right", style="dim")
    for name in columns:
        numeric = bool(rows) and all(isinstance(row[name], int | float) for row in rows)
        table.add_column(printable(name), justify="right" if numeric else "left", no_wrap=True)
    sizes = [next((v for v in row.values() if isinstance(v, int | float)), 0) for row in rows]
    table.add_column("", width=BAR_WIDTH, no_wrap=True)
    top = max(sizes, default=0) or 1
    for place, (row, size) in enumerate(zip(rows, sizes, strict=True), 1):
        bar = Text("\u2588" * max(1, round(BAR_WIDTH * size / top)), style="blue")
        table.add_row(str(place), *(Text(printable(str(row[name]))) for name in columns), bar)
    return table
