"""Ranges of time, files of what is shown and the page of an agent, in a real Chromium over real agents."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli.jobs.results import HEAD
from tests.e2e import live_page
from tests.e2e.browser import Browser
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live_page import EXACT, HOSTILE, JOB, MARKS, interval_with, serious, with_token
from tests.e2e.zygote import elf

fleet, chrome, page = live_page.fleet, live_page.chrome, live_page.page
pytestmark = MARKS


def test_an_agent_has_a_page_with_its_streams_bad_lines_and_live_lines(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    with fleet.log(0).open("a") as file:
        file.write(f"not JSON {HOSTILE}\n")
    chrome = page("#/agents")
    chrome.until("document.querySelectorAll('tbody th').length >= 3")
    chrome.click("tbody th a", "agent-0")
    chrome.until("document.querySelector('h1').textContent === 'agent-0'")
    stream = "document.querySelector('[aria-label=streams] tbody tr')"
    chrome.until(f"{stream}?.cells.length === 7")
    shown = chrome.run(f"[...{stream}.cells].map((each) => each.textContent)")
    assert (shown[0], shown[5], shown[6]) == ("log", JOB, "none")
    reported = fleet[0].get("/v1/agent")["sources"]["log"]
    assert shown[1] == reported["path"]
    assert 0 < int(shown[3].replace(",", "")) <= reported["lines"]
    chrome.until("/Lines per second: [1-9]/.test(document.querySelector('.spark').ariaLabel)")
    bad = "[...document.querySelectorAll('.concerns li')].map((each) => each.textContent).join('\\n')"
    chrome.until(f"{bad}.includes('not JSON')", "a sample of a bad line")
    assert "\u202e" not in chrome.run("document.documentElement.outerHTML")
    assert "Only an operator" in chrome.run("document.querySelector('main').textContent")
    with_token(chrome, fleet)
    chrome.click("button", "Read log for 5 s")
    lines = "[...document.querySelectorAll('pre .line')].map((each) => each.textContent)"
    chrome.until(f"{lines}.length > 3", "live lines")
    assert all({"ts", "k", "v"} <= set(json.loads(line)) for line in chrome.run(lines))
    chrome.run("location.hash = '#/agents/agent-1'")
    chrome.until("document.querySelector('main').textContent.includes('Open the page of agent-1 itself.')")
    chrome.run("location.hash = '#/agents/nosuch'")
    chrome.until(
        "document.querySelector('main [role=status]').textContent"
        " === 'No agent that is called nosuch has answered.'"
    )


# -- time ------------------------------------------------------------------------------------------------

SLOTS = "[...document.querySelectorAll('.strip button')].map((each) => +each.dataset.index)"
LIVE_NOW = "document.querySelector('.title .pulse').textContent"


def closed(fleet: Fleet, count: int) -> list[dict[str, Any]]:
    """The oldest `count` closed intervals, at least four of which must follow them."""

    def find() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = fleet[0].results(JOB)
        return found[:count] if len(found) > count + 4 else None

    found: list[dict[str, Any]] = eventually(find, what=f"{count + 4} closed intervals")
    return found


def range_of(records: list[dict[str, Any]]) -> str:
    return f"?from={records[0]['interval']['start']}&to={records[-1]['interval']['end']}"


def numbers(records: list[dict[str, Any]]) -> list[int]:
    return [record["interval"]["index"] for record in records]


def test_an_address_with_a_range_shows_the_intervals_of_the_api_in_it(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    oldest = closed(fleet, 7)
    wanted = oldest[2:]
    chrome = page(f"#/job/{JOB}{range_of(wanted)}")
    chrome.until(f"{LIVE_NOW} === 'a range, not live'")
    assert chrome.run(SLOTS) == numbers(wanted)
    assert chrome.run("document.querySelector('.range [role=status]').textContent") == "5 intervals."
    times = chrome.run("['range-from', 'range-to'].map((each) => document.getElementById(each).value)")
    assert [f"{each}Z"[:20] for each in times] == [
        f"{each[:19]}Z" for each in (wanted[0]["interval"]["start"], wanted[-1]["interval"]["end"])
    ]
    assert serious(chrome) == []
    chrome.size(390, 740, phone=True)
    assert chrome.run("document.documentElement.scrollWidth") <= 390
    chrome.size(1280)
    chrome.click("button", "Earlier")
    chrome.until(f"{LIVE_NOW} === 'a range, not live' && {SLOTS}.length === 2", "the two oldest")
    assert chrome.run(SLOTS) == numbers(oldest[:2])
    chrome.run("window.history.back()")
    chrome.until(f"JSON.stringify({SLOTS}) === '{json.dumps(numbers(wanted), separators=(',', ':'))}'")
    select = "document.getElementById('range-last')"
    chrome.run(f"({select}.value = 'live', {select}.dispatchEvent(new Event('change')))")
    chrome.until(f"{LIVE_NOW} === 'live' && Math.max(...{SLOTS}) > {numbers(wanted)[-1]}")
    assert chrome.run("location.hash") == f"#/job/{JOB}"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("?from=yesterday&to=2026-01-01", "from=yesterday is not a time such as 2026-03-01T10:05:00Z."),
        ("?from=2026-01-01", "The address has no to=: a range needs from= and to=."),
        ("?from=2026-01-02&to=2026-01-01", "which is not after its start 2026-01-02T00:00:00Z."),
    ],
)
def test_a_range_that_is_wrong_in_the_address_gives_one_line(
    page: Callable[[str], Browser], query: str, reason: str
) -> None:
    chrome = page(f"#/job/{JOB}{query}")
    problem = "[...document.querySelectorAll('.problem')].map((each) => each.textContent).join('')"
    assert reason in chrome.until(problem)
    assert chrome.run(SLOTS) == []


def test_a_range_without_closed_intervals_is_reported_as_empty(page: Callable[[str], Browser]) -> None:
    chrome = page(f"#/job/{JOB}?from=2001-01-01&to=2001-01-02")
    note = "document.querySelector('.range [role=status]').textContent"
    chrome.until(f"{note} === 'No closed interval is in this range.'")


def test_dragging_in_the_chart_sets_the_range_and_escape_resets_it(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    wanted = closed(fleet, 8)
    chrome = page(f"#/job/{JOB}{range_of(wanted)}")
    chrome.until(f"{LIVE_NOW} === 'a range, not live' && document.querySelector('.u-over')")
    before = chrome.run("location.hash")
    box = "document.querySelector('.u-over').getBoundingClientRect()"
    chrome.run("document.querySelector('.u-over').scrollIntoView({block: 'center'})")
    x, y, width = chrome.run(f"[{box}.left, {box}.top + 50, {box}.width]")
    # eight intervals: the points are at sevenths of the width
    chrome.drag((x + width * 1.5 / 7, y), (x + width * 4.5 / 7, y))
    chrome.until(f"{SLOTS}.length === 3 && {LIVE_NOW} === 'a range, not live'")
    assert chrome.run(SLOTS) == numbers(wanted)[2:5]
    assert chrome.run("location.hash") == f"#/job/{JOB}{range_of(wanted[2:5])}"
    chrome.press("Escape", 27)
    chrome.until(f"{SLOTS}.length === 8")
    assert chrome.run("location.hash") == before
    shown = "[...document.querySelectorAll('button')].filter((each) => each.checkVisibility())"
    assert "Reset zoom" not in chrome.run(f"{shown}.map((each) => each.textContent)")


def test_the_rows_and_the_chart_are_saved_as_files(
    page: Callable[[str], Browser], fleet: Fleet, tmp_path: Path
) -> None:
    big = interval_with(fleet, "big")
    hostile = interval_with(fleet, HOSTILE)
    records = eventually(lambda: fleet[0].results(JOB))
    known = sorted((numbers([big])[0], numbers([hostile])[0]))
    wanted = [each for each in records if known[0] <= each["interval"]["index"] <= known[1]]
    chrome = page(f"#/job/{JOB}{range_of(wanted)}")
    chrome.until(f"{LIVE_NOW} === 'a range, not live' && document.querySelector('.u-over')")
    chrome.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    chrome.click("button", "Save CSV")
    name = f"e2e-live-{numbers(wanted)[0]}-{numbers(wanted)[-1]}.csv"
    eventually((tmp_path / name).exists, what=name)
    with (tmp_path / name).open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == [*HEAD, "k", "n", "s"]
    assert [row[6:] for row in rows] == [
        [each["k"], str(each["n"]), str(each["s"])] for record in wanted for each in record["rows"]
    ]
    assert {row[2] for row in rows} == {record["interval"]["end"] for record in wanted}
    assert any(row[8] == str(EXACT) for row in rows)
    printed = elf("results", JOB, "-o", "csv", "--api", fleet[0].api).stdout.splitlines()
    assert set((tmp_path / name).read_text(encoding="utf-8").splitlines()) <= set(printed)
    chrome.click("button", "Save PNG")
    png = eventually(lambda: next(tmp_path.glob("e2e-live-*.png"), None), what="the picture")
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert png.stat().st_size > 3000
