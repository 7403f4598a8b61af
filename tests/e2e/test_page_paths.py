"""The view of a job's paths in a real Chromium: gateways, sites, which site votes first, and late paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.control.protocol.events import Reply
from tests.control.fakes import FakeBackend, served
from tests.e2e import live_page
from tests.e2e.browser import Browser
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import LIVE, Traffic
from tests.e2e.live_page import MARKS, serious

chrome, page = live_page.chrome, live_page.page
pytestmark = MARKS
REGIONS = ("ap", "eu", "us")
JOB = "e2e/live"
CELLS = """[...document.querySelectorAll("[aria-label='Paths'] tbody tr")].map(
    (row) => [...row.cells].map((each) => each.innerText))"""
HEADS = """[...document.querySelectorAll("[aria-label='Paths'] thead th")].map((each) => each.innerText)"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("paths")) as fleet:
        for region in REGIONS:
            fleet.start(1, extra=["--label", f"region={region}"])
        with Traffic(fleet, list(range(len(REGIONS))), every_s=0.05):
            fleet.apply(LIVE.replace(" AS ", " PATHS 3 ACROSS region AS ", 1))
            yield fleet


def test_each_path_and_the_site_that_votes_first_are_those_of_the_api(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    chrome = page(f"#/job/{JOB}")
    chrome.until("document.querySelector('.title .row a')")
    chrome.click(".title .row a", "Paths")
    chrome.until(f"{HEADS}.filter((each) => /votes first in/.test(each)).length === 3", "sites that vote")

    def planned() -> dict[str, Any] | None:
        """The plan that the page shows: a busy machine measures other latencies, and the sites move."""
        found: dict[str, Any] = fleet[0].get(f"/v1/jobs/{JOB}/plan")
        shown = zip(chrome.run(HEADS)[1:], found["layout"]["sites"], strict=True)
        return (
            found if all(site["agent"] in head and site["domain"] in head for head, site in shown) else None
        )

    plan: dict[str, Any] = eventually(planned, what="the sites of the plan")
    assert sum(each["first"] for each in plan["layout"]["sites"]) == pytest.approx(1)
    chrome.until(f"{CELLS}.flatMap((row) => row.slice(1)).every((cell) => /live/.test(cell))", "live paths")
    rows = chrome.run(CELLS)
    assert [len(row) for row in rows] == [4, 4, 4]
    streams = [(each["group"], each["gateway"], each["site"]) for each in plan["streams"]]
    assert len(set(streams)) == len(streams) == 9
    assert {row[0].split()[0] for row in rows} == {gateway for _, gateway, _ in streams}
    chrome.until(
        f"{CELLS}.filter((row) => /arrives after/.test(row[1])).length >= 2", "arrivals at the master"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_the_view_needs_no_horizontal_scrolling_and_axe_finds_nothing_serious(
    page: Callable[[str], Browser], width: int
) -> None:
    chrome = page(f"#/paths/{JOB}")
    chrome.size(width, 844, phone=width < 1000)
    chrome.until(f"{CELLS}.length === 3")
    assert chrome.run("document.documentElement.scrollWidth") <= width
    assert serious(chrome) == []
    if "ELF_PICTURES" in os.environ:
        chrome.picture(Path(os.environ["ELF_PICTURES"]) / f"paths-{width}.png", kind="png", quality=100)


def test_late_and_idle_paths_stand_out(chrome: Browser) -> None:
    sites = [{"agent": name, "id": "", "domain": name} for name in REGIONS]
    groups = [{"group": name, "agents": 4, "gateways": [{"agent": f"{name}1"}]} for name in REGIONS]
    streams = [
        {
            "group": group,
            "copy": 0,
            "gateway": f"{group}1",
            "site": site,
            "live": True,
            "latency_seconds": 0.05,
        }
        for group in REGIONS
        for site in REGIONS
    ]
    streams[0] |= {"behind": 5, "lag_seconds": 0.2, "first": 1.0}
    streams[1] |= {"live": False, "latency_seconds": None}
    plan = {
        "job": JOB, "paths": 3, "layout": {"label": "region", "sites": sites, "groups": groups},
        "messages": 6, "messages_of_one": 2, "streams": streams, "notes": ["one", "two"], "warnings": ["two"],
    }  # fmt: skip
    why = {"because": "all is well", "sites": {"voted": ["eu"], "lacking": ["ap", "us"]}}
    backend = FakeBackend()
    backend.replies |= {"plan": Reply(0, 200, plan), "why": Reply(0, 200, why)}
    with served(backend) as address:
        chrome.open(f"http://{address}/page/#/paths/{JOB}")
        chrome.until(f"{CELLS}.length === 3")
    first = chrome.run(CELLS)[0]
    assert "late: 5 intervals behind" in first[1]
    assert "idle" in first[2]
    assert "not measured" in first[2]
    assert "live" in first[3]
    facts = chrome.run("document.querySelector('.facts').innerText").split()
    assert facts[facts.index("Late") :][:3] == ["Late", "paths", "1"]
    assert [("has voted" in each) for each in chrome.run(HEADS)] == [False, False, True, False]
