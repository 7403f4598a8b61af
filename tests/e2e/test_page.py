"""The live page in a real Chromium, over real agents: what it shows is what the API says, and stays inert."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from elfmesh.control.protocol.events import Reply
from elfmesh.text import printable
from tests.control.fakes import FakeBackend, served
from tests.e2e import live_page
from tests.e2e.browser import Browser
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import MORTAL
from tests.e2e.live_page import (
    COUNT,
    EXACT,
    HOSTILE,
    HOSTILE_SHOWN,
    JOB,
    MARKS,
    interval_with,
    serious,
    with_token,
)

fleet, chrome, page = live_page.fleet, live_page.chrome, live_page.page
pytestmark = MARKS
VIEWS = (
    "#/",
    "#/agents",
    "#/agents/agent-0",
    "#/overlay",
    "#/coordination",
    f"#/job/{JOB}",
    f"#/standbys/{JOB}",
    "#/console",
)
HEADS = "[...document.querySelectorAll('tbody th')].map((each) => each.textContent)"


def rows_of(chrome: Browser) -> list[list[str]]:
    found = chrome.run(
        """[...document.querySelectorAll("[aria-label='Rows of the interval'] tbody tr")].map(
             (row) => [...row.cells].map((each) => each.textContent))"""
    )
    assert isinstance(found, list)
    return found


def choose(chrome: Browser, index: int) -> None:
    slot = f"""document.querySelector('.strip [data-index="{index}"]')"""
    chrome.until(f"{slot} && ({slot}.click(), true)", f"interval {index}")
    chrome.until(f"{slot}?.getAttribute('aria-pressed') === 'true'")


# -- what it shows -------------------------------------------------------------------------------------


def test_numbers_on_the_page_are_those_of_the_api_to_the_last_digit(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    record = interval_with(fleet, "big")
    chrome = page(f"#/job/{JOB}")
    choose(chrome, record["interval"]["index"])
    shown = [[k, n.replace(",", ""), s.replace(",", "")] for k, n, s in rows_of(chrome)]
    assert shown == [[printable(row["k"]), str(row["n"]), str(row["s"])] for row in record["rows"]]
    assert any(s == str(EXACT) for _, _, s in shown)
    cells = "(row) => [row.cells[0].textContent, row.cells[2].textContent]"
    bars = chrome.run(f"[...document.querySelectorAll('.bars tr')].map({cells})")
    assert sorted(bars) == sorted([printable(row["k"]), str(row["n"])] for row in record["rows"])
    assert chrome.run("document.querySelectorAll('.chart canvas').length") == 1


def test_the_labels_of_outputs_are_those_of_the_api(page: Callable[[str], Browser]) -> None:
    chrome = page("#/coordination")
    cells = "(row) => [...row.cells].slice(0, 2).map((each) => each.textContent)"
    row = f"[...document.querySelectorAll('tbody tr')].map({cells})"
    chrome.until(f"{row}.length > 0")
    assert [JOB.replace("/", "."), "Async"] in chrome.run(row)
    assert "0 of 1 outputs" in chrome.run("document.querySelector('.title').textContent")


def test_standbys_and_what_the_loss_of_each_rack_leaves_are_those_of_the_api(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    chrome = page(f"#/job/{JOB}")
    chrome.until("document.querySelector('.title .row a')")
    chrome.click(".title .row a", "Standbys")
    cells = "(row) => [...row.cells].map((each) => each.textContent)"
    table = "[...document.querySelectorAll(`[aria-label='${name}'] tbody tr`)]"
    losses, pairs = (f"{table.replace('${name}', name)}.map({cells})" for name in ("losses", "standbys"))
    chrome.until(f"{losses}.length === {COUNT} && {losses}[0][1].includes('%')", "one case for each rack")
    chrome.until(f"{pairs}.length === {COUNT} && {pairs}.every((row) => !/none/.test(row[1]))", "standbys")

    def agrees() -> bool:
        """Whether both say the same: rates are measured again all the time, on a busy machine unevenly."""
        first = fleet[0].get(f"/v1/what-if?each=rack&job={JOB}")["cases"][0]
        shown = next(row for row in chrome.run(losses) if row[0] == first["lost"] == "rack=r0")
        assert shown[4] == ", ".join(first["agents"])
        plan = fleet[0].get(f"/v1/jobs/{JOB}/plan")["standbys"]["members"]
        same = {(*row[:2],) for row in chrome.run(pairs)} == {(m["agent"], m["standby"]) for m in plan}
        fidelity = float(shown[2].rstrip("%\u00a0"))
        return same and fidelity == pytest.approx(100 * first["jobs"][0]["fidelity"], abs=5)

    eventually(agrees, what="the figures of the API")


def test_results_arrive_without_a_reload(page: Callable[[str], Browser], fleet: Fleet) -> None:
    chrome = page(f"#/job/{JOB}")
    newest = (
        "Math.max(0, ...[...document.querySelectorAll('.strip .final')].map((each) => +each.dataset.index))"
    )
    first = chrome.until(newest)
    later = chrome.until(f"{newest} > {first} && {newest}")
    assert later > first
    fleet_says = fleet[0].results(JOB)[-1]["interval"]["index"]
    assert later <= fleet_says
    chrome.until(
        "/gathering contributions .* to this page \\d/.test(document.querySelector('.spent').textContent)"
    )


def test_a_key_from_a_log_is_text_and_nothing_else(page: Callable[[str], Browser], fleet: Fleet) -> None:
    record = interval_with(fleet, HOSTILE)
    chrome = page(f"#/job/{JOB}")
    choose(chrome, record["interval"]["index"])
    assert HOSTILE_SHOWN in [row[0] for row in rows_of(chrome)]
    assert HOSTILE_SHOWN in chrome.run(
        "[...document.querySelectorAll('.bars th')].map((each) => each.textContent)"
    )
    assert chrome.run("document.querySelectorAll('main img, main script').length") == 0
    assert chrome.run("window.pwned") is None
    assert "\u202e" not in chrome.run("document.documentElement.outerHTML")


def test_the_overlay_and_its_agents_are_drawn(page: Callable[[str], Browser], fleet: Fleet) -> None:
    chrome = page("#/agents")
    chrome.until("document.querySelectorAll('tbody th').length >= 3")
    names = chrome.run(HEADS)
    assert sorted(names) == sorted(agent.name for agent in fleet)
    text = chrome.run("document.querySelector('tbody').textContent")
    assert "role=web" in text
    assert re.search(r"\d MB", text), "the memory of the process"
    chrome.until(
        r"/\d\s%/.test(document.querySelector('tbody').textContent)", "processor time, once asked twice"
    )
    assert chrome.run("document.getElementById('insecure').hidden")
    chrome = page("#/overlay")
    chrome.until("document.querySelectorAll('.picture .mark text').length === 3")
    chrome.until("document.querySelectorAll('.picture .edge').length === 2")


def test_the_overview_shows_throughput_lag_and_a_spark_line_for_each_job(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    chrome = page("#/")
    sparks = "[...document.querySelectorAll('.fact .spark')].map((each) => each.getAttribute('aria-label'))"
    # three agents with 20 lines a second each
    pattern = r"/Lines per second of all agents: [1-9]\d* now/"
    chrome.until(f"{pattern}.test({sparks}[0]) && {sparks}[1].includes(' now')", "rates, once asked twice")
    rate = f"Number(/: (\\d+) now/.exec({sparks}[0])[1])"
    chrome.until(f"{rate} >= 1 && {rate} <= 200", "a rate that is about that of the lines")
    drawn = "(document.querySelector('.fact .spark path').getAttribute('d').match(/L/g) ?? []).length"
    chrome.until(f"{drawn} >= 2", "a line of three samples")
    jobs = chrome.run("[...document.querySelectorAll('tbody .spark')].map((each) => each.ariaLabel)")
    assert len(jobs) == 1
    assert jobs[0].startswith(f"{JOB} held: ")


# -- the console ---------------------------------------------------------------------------------------

EDITOR = "document.querySelector('.editor').shadowRoot"


def write(chrome: Browser, text: str) -> None:
    """Replace the text of the editor, as a user who types would."""
    chrome.until(f"{EDITOR}?.querySelector('.cm-content') && !document.querySelector('.verdict:empty')")
    chrome.run(f"{EDITOR}.querySelector('.cm-content').focus()")
    chrome.press("a", 65, control=True)
    chrome.press("Backspace", 8)
    chrome.type(text)


def test_an_error_is_marked_at_its_line_and_column(page: Callable[[str], Browser]) -> None:
    chrome = page("#/console")
    write(chrome, "CREATE JOB e2e.wrong AS\nSELECT k, nosuch(v) AS x FROM log")
    verdict = chrome.until("document.querySelector('.verdict.bad')?.textContent")
    assert verdict.startswith("line 2, column 11: ")
    assert chrome.until(f"{EDITOR}.querySelector('.cm-lintRange-error')?.textContent") == "nosuch"


def test_names_of_streams_and_functions_are_completed(page: Callable[[str], Browser]) -> None:
    chrome = page("#/console")
    write(chrome, "CREATE JOB e2e.c AS SELECT approx_co")
    offered = f"[...{EDITOR}.querySelectorAll('.cm-completionLabel')].map((each) => each.textContent)"
    assert "approx_count_distinct" in chrome.until(f"{offered}.length && {offered}")
    write(chrome, "CREATE JOB e2e.c AS SELECT k FROM lo")
    chrome.until(f"{offered}.includes('log')")


def test_nothing_can_be_changed_without_a_token(page: Callable[[str], Browser], fleet: Fleet) -> None:
    chrome = page("#/console")
    chrome.until("document.querySelector('.verdict.good')")
    assert chrome.run("document.getElementById('me').textContent") == "read-only"
    assert chrome.run(
        "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Plan').disabled"
    )
    chrome = page(f"#/job/{JOB}")
    chrome.until("document.querySelector('.why')?.textContent")
    assert not {"Pause", "Delete"} & set(
        chrome.run("[...document.querySelectorAll('button')].map((b) => b.textContent)")
    )


def test_a_job_is_planned_applied_changed_paused_and_deleted_from_the_page(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    chrome = page("#/console")
    with_token(chrome, fleet)
    text = MORTAL.replace("e2e.live", "e2e.made")
    write(chrome, text)
    chrome.until("document.querySelector('.verdict.good')?.textContent.startsWith('e2e/made ')")
    chrome.click("button", "Plan")
    chrome.until("document.querySelector('.plan .state')?.textContent === 'new'")
    jobs = [each["job"] for each in fleet[1].get("/v1/jobs")["jobs"]]
    assert "e2e/made" not in jobs, "a plan changes nothing"
    chrome.click("button", "Create the job")
    chrome.until("document.querySelector('.plan .verdict.good')?.textContent.includes('3 of 3 agents')")
    assert fleet[1].get("/v1/jobs/e2e/made")["text"] == text
    write(chrome, text.replace("count(*) AS n, ", ""))
    chrome.until("document.querySelector('.verdict.good')?.textContent.endsWith('gives k, s')")
    chrome.click("button", "Plan")
    chrome.until("document.querySelector('.plan .state')?.textContent === 'keep'")
    assert "n removed" in chrome.run("document.querySelector('.effects').textContent")
    assert "AS n" in chrome.run("document.querySelector('.difference .gone').textContent")
    chrome.click("button", "Apply version 2")
    chrome.until("document.querySelector('.plan .verdict.good')?.textContent.startsWith('Version 2: 3 of 3')")
    chrome.run("location.hash = '#/job/e2e/made'")
    chrome.click("button", "Pause")
    chrome.click("dialog button", "Pause")
    eventually(lambda: fleet[1].get("/v1/jobs/e2e/made")["state"] == "paused")
    chrome.click("button", "Delete")
    chrome.click("dialog button", "Delete")
    chrome.until("location.hash === '#/'")
    eventually(lambda: [each["job"] for each in fleet[1].get("/v1/jobs")["jobs"]] == [JOB])


# -- for all users ------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_needs_no_horizontal_scrolling(page: Callable[[str], Browser], view: str) -> None:
    chrome = page(view)
    chrome.size(360, 740, phone=True)
    chrome.until("document.querySelector('tbody tr, .cm-line, .verdict, .picture circle')")
    assert chrome.run("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(page: Callable[[str], Browser], view: str) -> None:
    chrome = page(view)
    chrome.until("document.querySelector('tbody th, .verdict.good, .strip button, .picture circle')")
    assert serious(chrome) == []
    if view == "#/console":
        chrome.click("#me")
        chrome.until("document.querySelector('dialog[open] input')")
        assert serious(chrome) == []


def test_five_hundred_jobs_and_two_hundred_agents_stay_usable(chrome: Browser) -> None:
    backend = FakeBackend()
    agent = {
        "labels": {"role": "web"},
        "streams": ["log"],
        "jobs": [],
        "masters": [],
        "version": "1",
        "skew_seconds": 0,
    }
    agents = [{**agent, "name": f"web{n:03}", "id": f"{n * 2**160 // 200:040x}"} for n in range(200)]
    root = {"agent": "web000", "root": True, "parent": None, "children": [], "depth": 0}
    trees = [
        root,
        *({**root, "agent": each["name"], "root": False, "parent": "0" * 40} for each in agents[1:]),
    ]
    job = {
        "state": "running",
        "stream": "log",
        "agents": 200,
        "master": "web000",
        "version": 1,
        "missing": [],
    }
    jobs = [{**job, "id": f"{n:040x}", "job": f"load/job{n:03}", "completeness": 1.0} for n in range(500)]
    asked = {"answered": 200, "expected": 200}
    bodies: dict[str, dict[str, Any]] = {
        "agents": {"agents": agents, "asked": asked},
        "list": {"jobs": jobs, "asked": asked},
        "trees": {"trees": trees, "asked": asked},
        "health": {"agent": "web000", "status": "ok", "insecure": "INSECURE NETWORK"},
    }
    backend.replies |= {verb: Reply(0, 200, body) for verb, body in bodies.items()}
    with served(backend) as address:
        chrome.open(f"http://{address}/page/")
        chrome.until("document.querySelectorAll('tbody tr').length === 25")
        chrome.run("location.hash = '#/overlay'")
        chrome.until("document.querySelectorAll('.picture .edge').length === 199")
        chrome.run("location.hash = '#/'")
        chrome.until("document.getElementById('insecure').textContent.includes('web000')")
        chrome.until("document.querySelectorAll('tbody tr').length === 25")
        chrome.run("document.querySelector('input[type=search]').focus()")
        chrome.type("job499")
        chrome.until(f"{HEADS}.join() === 'load/job499'")
        chrome.run("location.hash = '#/agents'")
        chrome.until("document.querySelectorAll('tbody tr').length === 50")
        chrome.click("button", "Next")
        chrome.until("document.querySelector('tbody th').textContent === 'web050'")


# -- last, because they change the fleet -----------------------------------------------------------------


def test_the_page_comes_back_to_an_agent_that_was_restarted(
    page: Callable[[str], Browser], fleet: Fleet
) -> None:
    chrome = page(f"#/job/{JOB}")
    live = "document.querySelector('.title .pulse').textContent"
    chrome.until(f"{live} === 'live' && document.querySelector('.strip button')")
    newest = "Math.max(...[...document.querySelectorAll('.strip button')].map((each) => +each.dataset.index))"
    fleet[0].kill()
    chrome.until(f"{live} === 'connection lost, trying again'")
    before = chrome.run(newest)
    fleet[0].start([fleet[1].overlay])
    fleet[0].wait_ready()
    chrome.until(f"{live} === 'live' && {newest} > {before}")
    indices = chrome.run("[...document.querySelectorAll('.strip button')].map((each) => +each.dataset.index)")
    assert indices == sorted(set(indices)), "every interval once, in order"
    chrome.until("document.getElementById('pulse').textContent === 'live at agent-0'")


def test_a_killed_agent_appears_as_missing(page: Callable[[str], Browser], fleet: Fleet) -> None:
    chrome = page("#/")
    chrome.until("document.querySelectorAll('tbody tr .spark').length === 1")
    fleet[2].kill()
    chrome.until("document.querySelector('.concerns').textContent.includes('agent-2 does not answer')")
    chrome.run("location.hash = '#/overlay'")
    chrome.until("document.querySelector('.picture .mark.gone text')?.textContent === 'agent-2'")
    chrome.run(f"location.hash = '#/job/{JOB}'")
    titles = "[...document.querySelectorAll('.strip .final_partial')].map((each) => each.title)"
    chrome.until(f"{titles}.some((each) => each.endsWith('missing agent-2'))")
    chrome.until("document.querySelector('.lines').textContent.includes('not complete: ')")
    chrome.until("document.querySelector('.tree tr.gone')?.textContent.includes('agent-2')")
    assert serious(chrome) == []
    chrome.until(
        "[...document.querySelectorAll('.fact.bad')].some((each) => each.textContent.includes('agent-2'))"
    )
    chrome = page("#/agents")
    chrome.until("document.querySelector('tr.gone th')?.textContent === 'agent-2'", "who had gone before")
    reported = {"gone": 1, "skew_seconds": 9, "overlay_stats": {"lag_s": 9}}
    troubles = f"import('/page/agents.js').then((agents) => agents.troubles({json.dumps(reported)}).join())"
    assert chrome.run(troubles) == "does not answer", "what it said of itself is over"
