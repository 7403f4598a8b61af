"""`elf results --chart`: draws the intervals of a job as a chart in the terminal, updated as they arrive.

The upper part shows a column over time, summed over the rows of each interval. The lower part shows the rows
of the newest interval as bars. The module escapes text from rows.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Any

from elfmesh.errors import DataError
from elfmesh.text import printable, suggest

INTERVALS_MAX = 512
"""Number of intervals kept for the line over time; larger than the width of a terminal."""

LEVELS = "▁▂▃▄▅▆▇█"
LABEL_MAX = 40
HEAD_LINES = 5
"""Number of screen lines that are not bars."""


class Chart:
    """Chart of the intervals that `show` receives; `close` ends it.

    Args:
        column: column to draw; None: the last numeric column.
        follow: whether more intervals will arrive. If so, the chart is redrawn on a terminal; otherwise it is
            drawn once, at the end.
    """

    def __init__(self, column: str | None, *, follow: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._column = column
        self._totals: deque[tuple[int, float]] = deque(maxlen=INTERVALS_MAX)
        self._last: dict[str, Any] | None = None
        self._console = Console(highlight=False)
        self._live: Live | None = None
        if follow and sys.stdout.isatty():
            self._live = Live(console=self._console, auto_refresh=False, screen=True)
            self._live.start()

    def show(self, line: bytes) -> None:
        """Add a record. A revision replaces the record that it revises.

        Raises:
            DataError: the column does not exist or is not numeric.
        """
        found = json.loads(line)
        index = found["interval"]["index"]
        if found["rows"]:
            self._column = number_column(found["rows"], self._column)
        total = sum(_number(row.get(self._column or "")) for row in found["rows"])
        # a further part of the same record; the chart draws the first rows of a record
        more = found.get("part", 1) > 1
        if self._totals and self._totals[-1][0] == index:
            before = self._totals.pop()[1]
            total += before if more else 0
        self._totals.append((index, total))
        self._last = self._last if more else found
        if self._live is not None:
            self._live.update(self.drawn(*self._console.size), refresh=True)

    def close(self) -> None:
        """Restore the terminal, and print the last chart."""
        if self._live is not None:
            self._live.stop()
        if self._last is not None:
            width, height = self._console.size
            self._console.print(self.drawn(width, height if sys.stdout.isatty() else 10_000))

    def drawn(self, width: int, height: int) -> Any:
        """Return the chart for a screen of `width` columns and `height` lines."""
        from rich.bar import Bar
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        assert self._last is not None
        interval, agents = self._last["interval"], self._last["agents"]
        head = f"{self._last['job']}  interval {interval['index']}  {interval['start'] or ''}  "
        head += f"{self._last['state']}  {agents['in']}/{agents['expected']} agents"
        shown = [total for _, total in self._totals][-max(1, width - 2) :]
        title = f"{self._column or 'no rows'}: {shown[-1]:,.6g} now, {max(shown):,.6g} at most"
        lines = [
            Text(printable(reported), style=style, no_wrap=True, overflow="ellipsis")
            for reported, style in ((head, "bold"), (title, ""), (line_of(shown), "cyan"))
        ]
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True, max_width=min(LABEL_MAX, max(8, width // 3)), overflow="ellipsis")
        table.add_column(justify="right", no_wrap=True)
        table.add_column(ratio=1, min_width=5)
        bars = bars_of(self._last["rows"], self._column or "")
        room = max(1, height - HEAD_LINES)
        most = max((abs(value) for _, value in bars[:room]), default=0.0) or 1.0
        for label, value in bars[:room]:
            table.add_row(
                Text(printable(label)), Text(f"{value:,.6g}"), Bar(most, 0, abs(value), color="green")
            )
        more = [Text(f"{len(bars) - room} more rows", style="dim")] if len(bars) > room else []
        return Group(*lines, Text(""), table, *more)


def bars_of(rows: list[dict[str, Any]], column: str) -> list[tuple[str, float]]:
    """Return label and value of each bar.

    Each row is a bar with the value of the column. If there is one row and all its columns are numeric, each
    column is a bar. The label of a row consists of its columns that are not numeric, or of its other numeric
    columns if there are none.
    """
    if len(rows) == 1 and all(_is_number(cell) for cell in rows[0].values()):
        return [(name, _number(cell)) for name, cell in rows[0].items()]
    others = [name for name in (rows[0] if rows else ()) if name != column]
    named = [name for name in others if not all(_is_number(row.get(name)) for row in rows)]
    return [
        (", ".join(str(row.get(name)) for name in named or others), _number(row.get(column))) for row in rows
    ]


def line_of(values: list[float]) -> str:
    """Draw values as blocks of eight heights; equal values get the same height."""
    low, high = min(0.0, *values), max(values, default=0.0)
    span = (high - low) or 1.0
    return "".join(LEVELS[min(7, int(8 * (value - low) / span))] for value in values)


def number_column(rows: list[dict[str, Any]], wanted: str | None) -> str:
    """Return the column to draw. Raises DataError if it does not exist or none is numeric."""
    numbers = [
        name
        for name in rows[0]
        if any(_is_number(row.get(name)) for row in rows)
        and all(row.get(name) is None or _is_number(row.get(name)) for row in rows)
    ]
    if wanted is not None and wanted not in numbers:
        raise DataError(f"{wanted!r} is not a numeric column of this result", hint=suggest(wanted, numbers))
    if not numbers:
        raise DataError("this result has no numeric column", hint="Leave out --chart.")
    return wanted or numbers[-1]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float:
    return float(value) if _is_number(value) else 0.0
