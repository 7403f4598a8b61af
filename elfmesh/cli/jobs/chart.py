"""`elf results --chart`: draws the intervals of a job as a chart in the terminal, updated as they arrive.

The upper part shows a column over time, summed over the rows of each interval. The lower part shows the rows
of the newest interval as bars. plotext draws both (the extra `shell`); the module decides what is drawn, and
escapes text from rows.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

from elfmesh.errors import DataError, NotInstalled
from elfmesh.text import printable, suggest

INTERVALS_MAX = 512
"""Number of intervals kept for the line over time; larger than the width of a terminal."""

LABEL_MAX = 40
HEAD_LINES = 2
LINE_MIN, LINE_MAX = 4, 10
"""Heights of the line over time, with its axis: a third of the screen between both."""

AXIS_LINES = 2
BAR_WIDTH = 0.001
"""Height of a bar as a share of its line; a larger one would also draw into the next line."""


class Chart:
    """Chart of the intervals that `show` receives; `close` ends it.

    Args:
        column: column to draw; None: the last numeric column.
        follow: whether more intervals will arrive. If so, the chart is redrawn on a terminal; otherwise it is
            drawn once, at the end.

    Raises:
        NotInstalled: plotext is not installed.
    """

    def __init__(self, column: str | None, *, follow: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        try:
            import plotext  # noqa: F401 - the library is missing at the start, not at the first interval
        except ImportError:
            hint = "Install it with: pip install 'elfmesh[shell]', or leave out --chart."
            raise NotInstalled("--chart needs plotext, which is not installed", hint=hint) from None
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
        from rich.console import Group
        from rich.text import Text

        assert self._last is not None
        interval, agents = self._last["interval"], self._last["agents"]
        head = f"{self._last['job']}  interval {interval['index']}  {interval['start'] or ''}  "
        head += f"{self._last['state']}  {agents['in']}/{agents['expected']} agents"
        totals = [total for _, total in self._totals]
        title = f"{self._column or 'no rows'}: {totals[-1]:,.6g} now, {max(totals):,.6g} at most"
        lines = [
            Text(printable(reported), style=style, no_wrap=True, overflow="ellipsis")
            for reported, style in ((head, "bold"), (title, ""))
        ]
        line_height = min(max(height // 3, LINE_MIN), LINE_MAX)
        indices = [index for index, _ in self._totals]
        lines.append(_text(line_plot(indices, totals, width, line_height), "cyan"))
        bars = bars_of(self._last["rows"], self._column or "")
        room = max(1, height - HEAD_LINES - line_height - AXIS_LINES - 2)
        if bars:
            lines.append(_text(bar_plot(bars[:room], width), "green"))
        more = [Text(f"{len(bars) - room} more rows", style="dim")] if len(bars) > room else []
        return Group(*lines, *more)


def _text(plot: str, style: str) -> Any:
    from rich.text import Text

    return Text(plot, style=style, no_wrap=True, overflow="crop")


def line_plot(indices: Sequence[int], values: Sequence[float], width: int, height: int) -> str:
    """Draw values over the numbers of their intervals."""
    plotext = _canvas(width, height)
    low, high = min(0.0, *values), max(0.0, *values)
    plotext.ylim(low, high if high > low else 1.0)
    ends = sorted({indices[0], indices[-1]})
    plotext.xticks(ends, list(map(str, ends)))
    plotext.yticks(*_ticks(low, high))
    plotext.plot(list(indices), list(values), marker="hd")
    return _built(plotext)


def bar_plot(bars: Sequence[tuple[str, float]], width: int) -> str:
    """Draw a bar for each label and value, the first one at the top."""
    plotext = _canvas(width, len(bars) + AXIS_LINES)
    values = [value for _, value in bars]
    numbers = [f"{value:,.6g}" for value in values]
    room = max(8, min(LABEL_MAX, width // 3))
    names = [_cut(printable(label), room) for label, _ in bars]
    wide, digits = max(map(len, names)), max(map(len, numbers))
    labels = [f"{name:<{wide}} {number:>{digits}} " for name, number in zip(names, numbers, strict=True)]
    places = list(range(len(bars), 0, -1))  # the first place is at the bottom
    plotext.bar(places, values, orientation="h", width=BAR_WIDTH, marker="sd")
    plotext.yticks(places, labels)
    low, high = min(0.0, *values), max(0.0, *values)
    plotext.xlim(low, high if high > low else 1.0)
    plotext.ylim(1, max(len(bars), 2))  # an empty range has no scale
    plotext.xticks(*_ticks(low, high))
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    return _built(plotext)


def _ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    ends = sorted({low, high})
    return ends, [f"{end:,.6g}" for end in ends]


def _canvas(width: int, height: int) -> Any:
    """Return plotext with an empty figure of this size, without colours."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plotsize(width, height)
    return plotext


def _built(plotext: Any) -> str:
    drawn: str = plotext.uncolorize(plotext.build())
    return drawn.rstrip("\n")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


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
