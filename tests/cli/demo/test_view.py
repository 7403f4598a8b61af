from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from elfmesh.cli.demo.view import LiveView, PlainView, heading, rows_shown

RECORD: dict[str, Any] = {
    "job": "shop/top",
    "interval": {"index": 7, "start": "2026-05-17T10:05:00Z", "end": "2026-05-17T10:05:05Z"},
    "state": "FINAL_PARTIAL",
    "completeness": 0.875,
    "agents": {"in": 7, "expected": 8, "missing": ["web5"]},
    "rows": [{"product": "Angry Birds", "clicks": 40}, {"product": "\x1b[2J[bold]evil", "clicks": 10}],
}


def test_the_heading_names_window_completeness_and_missing_agents() -> None:
    assert heading(RECORD) == (
        "shop/top 10:05:00-10:05:05 FINAL_PARTIAL completeness 0.875, agents 7/8, missing: web5"
    )


def test_plain_lines_are_one_per_event_and_interval_and_never_obey_the_log() -> None:
    out = io.StringIO()
    with PlainView(Console(file=out, width=40)) as view:
        view.say("killed [red]web5[/red]")
        view.status("not shown")
        view.result(RECORD)
        view.result(RECORD | {"rows": []})
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0] == "killed [red]web5[/red]"
    assert lines[1].endswith(r"Angry Birds 40, \x1b[2J[bold]evil 10")
    assert lines[2].endswith("no rows")


def test_the_live_table_shows_the_newest_interval_of_each_job() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, height=60)
    with LiveView(console) as view:
        view.say("killed web5")
        view.status("3 s of 30")
        view.result(RECORD | {"rows": [{"product": "Old", "clicks": 1}]})
        view.result(RECORD)
        view.result(RECORD | {"job": "shop/other", "rows": []})
    last = out.getvalue()
    assert "Angry Birds" in last
    assert r"\x1b[2J[bold]evil" in last
    assert "no rows in this interval" in last
    assert "\x1b[2J[" not in last


def test_a_small_screen_shows_fewer_rows_and_each_job_keeps_its_last_with_rows() -> None:
    assert rows_shown(60, 3) == (10, 5)
    assert rows_shown(24, 3) == (4, 2)
    assert rows_shown(10, 3) == (1, 1)
    out = io.StringIO()
    with LiveView(Console(file=out, force_terminal=True, width=120, height=60)) as view:
        view.result(RECORD)
        view.result(RECORD | {"rows": []})
    assert "no rows in this interval" not in out.getvalue()
