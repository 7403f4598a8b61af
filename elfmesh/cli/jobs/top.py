"""`elf top`: shows the load of agents and jobs, live on a terminal; elsewhere it prints one measurement.

The module owns the keys and the screen. All shown text passes through `printable`. Rows that do not fit on
the screen are left out and counted, so that 200 agents and 500 jobs need one screen.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_json, print_rows, say, text_of
from elfmesh.cli.jobs.top_rows import (
    AGENT_COLUMNS,
    AGENT_SORTS,
    JOB_COLUMNS,
    JOB_SORTS,
    FleetView,
    agent_rows,
    fitted,
    job_rows,
    ordered,
)
from elfmesh.control.jobs.load import insecurity
from elfmesh.errors import ElfError
from elfmesh.text import printable

BETWEEN_S = 1.0
"""Seconds between the two samples of a single measurement."""

WORDS = ("agent", "job", "state", "result", "missing", "master", "slowed", "worst_job", "security")
"""Columns that are not numeric."""

KEYS = "a agents · j jobs · by {sorts} · q ends"
TAKEN_LINES = 6
"""Number of screen lines that are not rows."""


@click.command("top")
@click.option("--jobs", "view", flag_value="jobs", help="Show jobs.")
@click.option("--agents", "view", flag_value="agents", default="agents", help="Show agents. [default]")
@click.option(
    "--sort", metavar="COLUMN", help="Column to sort by. In the live view, press the key of the column."
)
@click.option(
    "--once", is_flag=True, help="Print one measurement and exit. [default if the output is not a terminal]"
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    help="Seconds between two measurements.",
)
@output_option
@api_option
def top_command(view: str, sort: str | None, once: bool, every: float, output: str, api: str | None) -> None:
    """Show the load of all agents or jobs: processor, memory, lines and lag."""
    client = Client(api)
    columns = JOB_COLUMNS if view == "jobs" else AGENT_COLUMNS
    if sort is not None and sort not in columns:
        raise click.BadParameter(f"{sort!r} is not a column; the columns are {', '.join(columns)}")
    if once or output != "table" or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _answer(client, view, sort, output)
    else:
        Screen(client, view, sort, every).run()


def look(client: Client) -> FleetView:
    return FleetView(client.get("agents"), client.get("jobs"))


def _answer(client: Client, view: str, sort: str | None, output: str) -> None:
    before = look(client)
    time.sleep(BETWEEN_S)
    now = look(client)
    name, rows = _rows(view, before, now)
    columns = JOB_COLUMNS if view == "jobs" else AGENT_COLUMNS
    shown = ordered(rows, sort or "cpu_percent", name)
    if output == "json":
        for row in shown:
            print_json(row)
    else:
        if warning := insecurity(now.agents):
            say(warning)
        print_rows(output, columns, shown)


def _rows(view: str, before: FleetView | None, now: FleetView) -> tuple[str, list[dict[str, Any]]]:
    return ("job", job_rows(before, now)) if view == "jobs" else ("agent", agent_rows(before, now))


class Screen:
    """The live table.

    Args:
        client: client of any agent.
        view: "agents" or "jobs".
        sort: column to sort by; None: by processor.
        every_s: seconds between two samples.
    """

    def __init__(self, client: Client, view: str, sort: str | None, every_s: float) -> None:
        self._client, self._every_s = client, every_s
        self._view, self._sort = view, {"agents": "cpu_percent", "jobs": "cpu_percent"}
        if sort is not None:
            self._sort[view] = sort
        self._before: FleetView | None = None
        self._now: FleetView | None = None
        self._problem = ""

    def run(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            next_s = 0.0
            size = console.size
            while True:
                if time.monotonic() >= next_s:
                    self._look()
                    next_s = time.monotonic() + self._every_s
                elif console.size == size and not pressed.waiting:
                    pressed.wait(min(0.2, max(0.0, next_s - time.monotonic())))
                size = console.size
                key = pressed.take()
                if key == "q":
                    return
                self._press(key)
                live.update(self._table(size.height, size.width), refresh=True)

    def _look(self) -> None:
        try:
            found = look(self._client)
            self._before, self._now, self._problem = self._now, found, ""
        except ElfError as error:  # the agent may return soon, so the last sample stays on the screen
            self._problem = str(error)

    def _press(self, key: str) -> None:
        views = {"a": "agents", "j": "jobs"}
        if key in views and not (key == "a" and self._view == "agents"):
            self._view = views[key]
            return
        sorts = JOB_SORTS if self._view == "jobs" else AGENT_SORTS
        self._sort[self._view] = sorts.get(key, self._sort[self._view])

    def _table(self, height: int, width: int) -> Any:
        from rich.console import Group
        from rich.text import Text

        jobs = self._view == "jobs"
        columns, sorts = (JOB_COLUMNS, JOB_SORTS) if jobs else (AGENT_COLUMNS, AGENT_SORTS)
        name, rows = ("agent", []) if self._now is None else _rows(self._view, self._before, self._now)
        warning = "" if self._now is None else insecurity(self._now.agents)
        room = max(1, height - TAKEN_LINES - bool(warning))
        shown = ordered(rows, self._sort[self._view], name)[:room]
        table = self._fill(columns, shown, ("job" if jobs else "agent", self._sort[self._view]), width)
        left = len(rows) - room
        more = f" · {left} more" if left > 0 else ""
        what = self._view.removesuffix("s") if len(rows) == 1 else self._view
        head = f"{len(rows)} {what}{more} · {time.strftime('%H:%M:%S')}"
        keys = KEYS.format(sorts=" ".join(f"{key} {_heading(column)}" for key, column in sorts.items()))
        parts: list[Any] = [
            Text(head, style="bold"),
            Text(keys[: max(20, width)], style="dim"),
            Text(""),
            table,
        ]
        if warning:
            parts.insert(1, Text(printable(warning), style="bold red"))
        if self._problem:
            parts.append(Text(printable(self._problem), style="red"))
        return Group(*parts)

    def _fill(
        self, columns: Sequence[str], rows: list[dict[str, Any]], keep: Sequence[str], width: int
    ) -> Any:
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        heads = {column: _heading(column) + ("*" if column == keep[1] else "") for column in columns}
        cells = {column: [_cell(row.get(column)) for row in rows] for column in columns}
        wanted = {
            column: max(cell_len(text) for text in (heads[column], *cells[column]))
            if any(cells[column])
            else 0
            for column in columns
        }
        for column in keep:
            wanted[column] = wanted[column] or len(heads[column])
        table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
        widths = fitted(wanted, keep, width)
        for column, cut in widths.items():
            side: Literal["left", "right"] = "left" if column in WORDS else "right"
            table.add_column(Text(heads[column]), justify=side, no_wrap=True, overflow="ellipsis", width=cut)
        for row in zip(*(cells[column] for column in widths), strict=True):
            table.add_row(*map(Text, row))
        return table


def _heading(column: str) -> str:
    title = column.replace("_percent", " %").replace("_per_second", "/s").replace("_for_seconds", " s")
    return title.replace("_seconds", " s").replace("_", " ").replace(" mb", " MB").replace("teness", "te")


def _cell(value: object) -> str:
    return text_of(round(value, 3) if isinstance(value, float) else value)


class _Pressed:
    """Reads keys as they are pressed, without Enter."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def waiting(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def wait(self, seconds: float) -> None:
        select.select([self._descriptor], [], [], seconds)

    def take(self) -> str:
        """Return the next key, "" if none is pressed, or "q" if the terminal is closed."""
        if not self.waiting:
            return ""
        data = os.read(self._descriptor, 1)
        return data.decode("ascii", "replace").lower() if data else "q"


@contextlib.contextmanager
def _keys() -> Iterator[_Pressed]:
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _Pressed(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
