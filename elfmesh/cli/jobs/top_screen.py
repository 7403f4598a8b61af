"""The live screen of `elf top`, on textual: the fleet, one agent or job with its history, and a search.

A thread of its own asks an agent for samples, because a request may wait; the screen shows the last sample
meanwhile. All text is shown as it is, without markup, after `printable`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Key
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Label, Sparkline, Static

from elfmesh.cli.common import text_of
from elfmesh.cli.jobs.top_rows import (
    AGENTS,
    COLUMNS,
    HISTORIES,
    JOBS,
    SORTS,
    FleetView,
    LoadHistory,
    ordered,
    parts_of,
    rows_of,
)
from elfmesh.control.jobs.load import insecurity
from elfmesh.errors import ElfError
from elfmesh.text import printable

WORDS = (
    *("agent", "job", "state", "status", "result", "missing", "master", "slowed", "worst_job", "last_seen"),
    "security",
)
"""Columns that are not numeric."""

Rows = Sequence[Mapping[str, Any]]


class TopApp(App[None]):
    """The live screen.

    Args:
        look: takes a sample; raises ElfError while no agent answers.
        view: the first view, "agents" or "jobs".
        sort: its column to sort by; None: by processor.
        every_s: seconds between two samples.
    """

    CSS = """
    #head, #keys, #warning, #problem, #name { height: auto; padding: 0 1; }
    #head, #name { text-style: bold; }
    #keys { color: $text-muted; }
    #warning, #problem { color: $error; text-style: bold; }
    #search { display: none; height: 3; }
    DataTable { height: 1fr; }
    .line { height: 2; padding: 0 1; }
    .line Label { width: 20; }
    .line Sparkline { width: 1fr; height: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "view('agents')", "agents"),
        Binding("j", "view('jobs')", "jobs"),
        Binding("slash", "search", "search"),
        Binding("escape", "back", "back"),
        Binding("q", "quit", "quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, look: Callable[[], FleetView], view: str, sort: str | None, every_s: float) -> None:
        super().__init__()
        self._look, self._every_s = look, every_s
        self._view, self._sort = view, dict.fromkeys((AGENTS, JOBS), "cpu_percent")
        self._sort[view] = sort or self._sort[view]
        self._ended = threading.Event()
        self.before: FleetView | None = None
        self.now: FleetView | None = None
        self.history = LoadHistory()
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield Static(id="warning", markup=False)
        yield Static(id="keys", markup=False)
        yield Input(id="search", placeholder="part of a name")
        yield RowTable(id="rows")
        yield Static(id="problem", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#rows").focus()
        self._show()
        threading.Thread(target=self._sample, daemon=True).start()

    def on_unmount(self) -> None:
        self._ended.set()

    # -- samples

    def _sample(self) -> None:
        while not self._ended.is_set():
            try:
                found, problem = self._look(), ""
            except ElfError as error:  # the agent may return soon, so the last sample stays on the screen
                found, problem = None, str(error)
            try:
                self.call_from_thread(self.take, found, problem)
            except RuntimeError:  # the screen ended meanwhile
                return
            self._ended.wait(self._every_s)

    def take(self, found: FleetView | None, problem: str) -> None:
        """Show a sample, or why there is none."""
        self._problem = problem
        if found is not None:
            self.before, self.now = self.now, found
            self.history.add(self.before, found)
        self._show()
        if isinstance(self.screen, DetailScreen):
            self.screen.show()

    # -- keys

    def on_key(self, event: Key) -> None:
        column = SORTS[self._view].get(event.key)
        if column is not None and not isinstance(self.focused, Input) and not self._is_detail:
            self._sort[self._view] = column
            self._show()

    @property
    def _is_detail(self) -> bool:
        return isinstance(self.screen, DetailScreen)

    def action_view(self, view: str) -> None:
        while self._is_detail:
            self.pop_screen()
        self._view = view
        self._show()

    def action_search(self) -> None:
        if not self._is_detail:
            search = self.query_one("#search", Input)
            search.display = True
            search.focus()

    async def action_back(self) -> None:
        if self._is_detail:
            self.pop_screen()
            return
        search = self.query_one("#search", Input)
        search.value, search.display = "", False
        self.query_one("#rows").focus()
        self._show()

    def on_input_changed(self) -> None:
        self._show()

    def on_input_submitted(self) -> None:
        self.query_one("#rows").focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        view, _, name = str(event.row_key.value).partition(" ")
        self.push_screen(DetailScreen(self, view, name))

    # -- what is shown

    def _show(self) -> None:
        base = self.screen_stack[0]
        view, name = self._view, COLUMNS[self._view][0]
        rows = [] if self.now is None else rows_of(view, self.before, self.now)
        wanted = base.query_one("#search", Input).value.lower()
        chosen = [row for row in rows if wanted in str(row.get(name)).lower()]
        what = view.removesuffix("s") if len(rows) == 1 else view
        found = f" · {len(chosen)} found" if wanted else ""
        _set(base, "#head", f"{len(rows)} {what}{found} · {time.strftime('%H:%M:%S')}")
        sorts = " · ".join(f"{key} {heading(column)}" for key, column in SORTS[view].items())
        _set(base, "#keys", f"sort by: {sorts}")
        _set(base, "#warning", "" if self.now is None else printable(insecurity(self.now.agents)))
        _set(base, "#problem", printable(self._problem))
        sort = self._sort[view]
        base.query_one("#rows", RowTable).fill(COLUMNS[view], ordered(chosen, sort, name), view, sort)


class RowTable(DataTable[Text]):
    """A table whose rows are replaced while the cursor stays at its row, or at the first place."""

    def __init__(self, **given: Any) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True, **given)
        self._heads: tuple[str, ...] = ()

    def fill(self, columns: Iterable[str], rows: Rows, view: str, sort: str = "") -> None:
        """Show the rows of agents or jobs; columns without a value are left out, except the sorted one."""
        name, *rest = columns
        known = [each for each in rest if each == sort or any(_cell(row.get(each)) for row in rows)]
        heads = tuple(heading(each) + ("*" if each == sort else "") for each in (name, *known))
        at = (
            self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value if self.cursor_row > 0 else None
        )
        scrolled = self.scroll_offset
        self.clear(columns=heads != self._heads)
        if heads != self._heads:
            self._heads = heads
            for each, head in zip((name, *known), heads, strict=True):
                self.add_column(Text(head, justify="left" if each in WORDS else "right"))
        keys: dict[str, int] = {}
        for row in rows:
            key = f"{view} {row.get(name)}"
            if key not in keys:
                keys[key] = len(keys)
                cells = [_text(each, row.get(each)) for each in (name, *known)]
                self.add_row(*cells, key=key)
        self.move_cursor(row=keys.get(str(at), 0), scroll=False)
        self.scroll_to(*scrolled, animate=False)


class DetailScreen(Screen[None]):
    """One agent or job: its values, their history, and what it consists of."""

    def __init__(self, top: TopApp, view: str, name: str) -> None:
        super().__init__()
        self._top, self._view, self._subject = top, view, name

    def compose(self) -> ComposeResult:
        yield Static(id="name", markup=False)
        for column in HISTORIES[self._view]:
            with Horizontal(classes="line"):
                yield Label(id=f"value-{column}", markup=False)
                yield Sparkline([], id=f"line-{column}")
        yield RowTable(id="parts")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#parts").focus()
        self.show()

    def show(self) -> None:
        """Show the newest sample."""
        top, view = self._top, self._view
        if top.now is None or not self.query("#parts"):  # a sample may come before the widgets
            return
        key = COLUMNS[view][0]
        row = next(
            (each for each in rows_of(view, top.before, top.now) if each.get(key) == self._subject), {}
        )
        shown = [f"{heading(each)} {_cell(row[each])}" for each in COLUMNS[view][1:] if _cell(row.get(each))]
        _set(self, "#name", printable(f"{key} {self._subject}: {', '.join(shown) or 'no longer listed'}"))
        for column in HISTORIES[view]:
            self.query_one(f"#value-{column}", Label).update(f"{heading(column)} {_cell(row.get(column))}")
            self.query_one(f"#line-{column}", Sparkline).data = top.history.of(view, self._subject, column)
        other = AGENTS if view == JOBS else JOBS
        columns = (COLUMNS[other][0], "cpu_percent")
        self.query_one("#parts", RowTable).fill(
            columns, parts_of(view, self._subject, top.before, top.now), other
        )


def _set(screen: Screen[Any], which: str, text: str) -> None:
    widget = screen.query_one(which, Static)
    widget.update(text)
    widget.display = bool(text)


def _text(column: str, value: object) -> Text:
    return Text(_cell(value), justify="left" if column in WORDS else "right", no_wrap=True)


def _cell(value: object) -> str:
    return text_of(round(value, 3) if isinstance(value, float) else value)


def heading(column: str) -> str:
    """Return the heading of a column."""
    title = column.replace("_percent", " %").replace("_per_second", "/s").replace("_for_seconds", " s")
    return title.replace("_seconds", " s").replace("_", " ").replace(" mb", " MB").replace("teness", "te")
