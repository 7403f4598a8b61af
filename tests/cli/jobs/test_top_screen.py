"""The live screen of `elf top`: views, order, search, drill-down, history, and an agent that is away."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Label, Sparkline, Static

from elfmesh.cli.jobs.top_rows import AGENTS, JOBS, FleetView
from elfmesh.cli.jobs.top_screen import DetailScreen, RowTable, TopApp, heading
from elfmesh.errors import Unreachable
from tests.cli.jobs.test_top import agent

pytestmark = pytest.mark.asyncio


def samples() -> Iterator[FleetView]:
    """web2 spends most, on t/hot; t/evil has a control character in its name."""
    for at in itertools.count(100):
        agents = [agent(f"web{n}", float(at), {"t/hot": at * 0.1 * (n + 1)}) for n in range(3)]
        agents[2]["load"]["cpu_seconds"] = at * 0.9
        jobs = [{"job": "t/hot", "state": "running", "completeness": 1.0}]
        jobs.append({"job": "t/evil\x1b[2J", "state": "[b]held[/b]", "completeness": 1 / 3})
        yield FleetView(agents, jobs)


def top(view: str = AGENTS, sort: str | None = None) -> tuple[TopApp, Callable[[], None]]:
    """A screen whose samples the test takes, and what takes one."""
    given = samples()
    app = TopApp(lambda: next(given), view, sort, 3600.0)
    return app, lambda: app.take(next(given), "")


def shown(app: TopApp, which: str = "#rows") -> list[list[str]]:
    table = app.screen.query_one(which, RowTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


def text(app: TopApp, which: str) -> str:
    return str(app.screen.query_one(which, Static).render())


async def settle(pilot: Pilot[None], app: TopApp) -> None:
    while app.now is None:
        await pilot.pause()
    await pilot.pause()


async def test_the_costliest_agent_stands_first_and_keys_change_the_order() -> None:
    app, take = top()
    async with app.run_test() as pilot:
        await settle(pilot, app)
        take()
        assert [row[0] for row in shown(app)] == ["web2", "web0", "web1"]
        assert text(app, "#head").startswith("3 agents")
        await pilot.press("n")
        assert [row[0] for row in shown(app)] == ["web0", "web1", "web2"]
        table = app.screen.query_one(RowTable)
        assert str(next(iter(table.columns.values())).label) == "agent*"
        await pilot.press("down", "down")
        take()
        assert table.cursor_row == 2, "the cursor stays at its row"


async def test_jobs_are_a_view_of_their_own_and_text_is_no_markup() -> None:
    app, take = top(JOBS, "completeness")
    async with app.run_test() as pilot:
        await settle(pilot, app)
        take()
        rows = shown(app)
        assert [row[0] for row in rows] == ["t/evil\\x1b[2J", "t/hot"]
        assert "[b]held[/b]" in rows[0]
        await pilot.press("a")
        assert text(app, "#head").startswith("3 agents")
        await pilot.press("j")
        assert text(app, "#head").startswith("2 jobs")


async def test_a_search_keeps_the_rows_with_a_part_of_a_name() -> None:
    app, take = top()
    async with app.run_test() as pilot:
        await settle(pilot, app)
        take()
        await pilot.press("slash", *"EB1")
        assert [row[0] for row in shown(app)] == ["web1"]
        assert "1 found" in text(app, "#head")
        await pilot.press("enter")
        assert app.focused is app.screen.query_one(RowTable)
        await pilot.press("escape")
        assert len(shown(app)) == 3
        assert not app.screen.query_one(Input).display


async def test_enter_leads_from_the_fleet_to_an_agent_to_a_job_with_their_history() -> None:
    app, take = top()
    async with app.run_test() as pilot:
        await settle(pilot, app)
        for _ in range(4):
            take()
        await pilot.press("enter")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, DetailScreen)
        assert text(app, "#name").startswith("agent web2: ")
        assert screen.query_one("#line-cpu_percent", Sparkline).data == [90.0] * 4
        assert str(screen.query_one("#value-cpu_percent", Label).render()) == "cpu % 90.0"
        assert shown(app, "#parts") == [["t/hot", "30.0"]]
        take()
        assert len(screen.query_one("#line-cpu_percent", Sparkline).data or ()) == 5
        await pilot.press("enter")
        await pilot.pause()
        assert text(app, "#name").startswith("job t/hot: ")
        assert shown(app, "#parts") == [["web2", "30.0"], ["web1", "20.0"], ["web0", "10.0"]]
        await pilot.press("escape", "escape")
        assert not isinstance(app.screen, DetailScreen)
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("j")
        assert text(app, "#head").startswith("2 jobs")


async def test_the_last_sample_stays_while_no_agent_answers() -> None:
    def away() -> FleetView:
        raise Unreachable("no agent answers\x1b[2J")

    app = TopApp(away, AGENTS, None, 3600.0)
    async with app.run_test() as pilot:
        while not text(app, "#problem"):
            await pilot.pause()
        assert text(app, "#problem") == "no agent answers\\x1b[2J"
        app.take(next(samples()), "")
        app.take(None, "gone again")
        assert len(shown(app)) == 3
        await pilot.press("enter")
        app.take(FleetView([], []), "")
        await pilot.pause()
        assert text(app, "#name").endswith("no longer listed")


async def test_an_agent_that_lets_strangers_in_is_named() -> None:
    app, _ = top()
    async with app.run_test() as pilot:
        await settle(pilot, app)
        sample: Any = next(samples())
        sample.agents[0]["security"] = {"mode": "INSECURE"}
        app.take(sample, "")
        assert text(app, "#warning").endswith("is trusted: web0")


async def test_headings_are_short() -> None:
    assert [heading(each) for each in ("cpu_percent", "lines_per_second", "held_for_seconds", "rss_mb")] == [
        "cpu %", "lines/s", "held s", "rss MB",
    ]  # fmt: skip
