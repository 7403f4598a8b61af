"""The live page in a real Chromium, over real agents: what it shows is what the API says, and stays inert."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.api.identity.bearer import TOKEN_FILE, read_token
from elfmesh.cli.jobs.results import HEAD
from elfmesh.control.protocol.events import Reply
from elfmesh.text import printable
from tests.control.fakes import FakeBackend, served
from tests.e2e.browser import Browser, chromium
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import LIVE, Traffic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="there is no chromium (Debian: apt-get install chromium)"),
]
JOB = "e2e/live"
EXACT = 9007199254740993
COUNT = 3
HOSTILE = '<img src=x onerror="window.pwned=1">\u202eevil\x1b[2J</script>'
HOSTILE_SHOWN = '<img src=x onerror="window.pwned=1">\\u202eevil\\x1b[2J</script>'
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
AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("page")) as fleet:
        for number in range(COUNT):
            fleet.start(1, extra=["--label", "role=web", "--label", f"rack=r{number}"])
        with Traffic(fleet, list(range(COUNT)), every_s=0.05):
            fleet[0].apply(LIVE.replace(" AS ", " STANDBY ALL LAG '200 ms' AS ", 1))
            say(fleet, 1, HOSTILE, 1)
            say(fleet, 2, "big", EXACT)
            yield fleet


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def page(chrome: Browser, fleet: Fleet) -> Iterator[Callable[[str], Browser]]:
    """Opens a view of the first agent's page afresh; the page must not have complained at the end."""

    def show(view: str) -> Browser:
        chrome.open("about:blank")
        chrome.size(1280)
        chrome.open(f"http://{fleet[0].api}/page/{view}")
        chrome.until("document.querySelector('main')?.children.length > 1")
        return chrome

    chrome.errors.clear()
    yield show
    assert chrome.errors == []


def say(fleet: Fleet, number: int, key: str, value: int) -> None:
    with fleet.log(number).open("a") as file:
        file.write(json.dumps({"ts": time.time(), "k": key, "v": value}) + "\n")


def with_token(chrome: Browser, fleet: Fleet) -> None:
    """Paste the agent's token, as its operator would."""
    chrome.click("#me")
    chrome.run("document.getElementById('token').focus()")
    chrome.type(read_token(fleet[0].directory / "data" / TOKEN_FILE))
    chrome.click("dialog button", "Use the token")
    chrome.until("document.getElementById('me').textContent === 'operator'")


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


def interval_with(fleet: Fleet, key: str) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        return next((r for r in fleet[0].results(JOB) if any(row["k"] == key for row in r["rows"])), None)

    found: dict[str, Any] = eventually(find, what=f"an interval with {key!r}")
    return found


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
    answer = fleet[0].ask("GET", f"/v1/what-if?each=rack&job={JOB}")
    first = json.loads(answer)["cases"][0]
    shown = next(row for row in chrome.run(losses) if row[0] == first["lost"] == "rack=r0")
    assert shown[4] == ", ".join(first["agents"])
    assert float(shown[2].rstrip("%\u00a0")) == pytest.approx(100 * first["jobs"][0]["fidelity"], abs=5)
    plan = json.loads(fleet[0].ask("GET", f"/v1/jobs/{JOB}/plan"))["standbys"]
    assert {(*row[:2],) for row in chrome.run(pairs)} == {(m["agent"], m["standby"]) for m in plan["members"]}


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
    rate = int(re.findall(r": (\d+) now", chrome.run(sparks)[0])[0])
    assert 1 <= rate <= 200
    drawn = "(document.querySelector('.fact .spark path').getAttribute('d').match(/L/g) ?? []).length"
    chrome.until(f"{drawn} >= 2", "a line of three samples")
    jobs = chrome.run("[...document.querySelectorAll('tbody .spark')].map((each) => each.ariaLabel)")
    assert len(jobs) == 1
    assert jobs[0].startswith(f"{JOB} held: ")


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
    wanted = closed(fleet, 7)[2:]
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
    assert chrome.run(SLOTS) == [numbers(wanted)[0] - 2, numbers(wanted)[0] - 1]
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
    chrome.click("button", "Save PNG")
    png = eventually(lambda: next(tmp_path.glob("e2e-live-*.png"), None), what="the picture")
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert png.stat().st_size > 3000


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
    text = LIVE.replace("e2e.live", "e2e.made")
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


def serious(chrome: Browser) -> list[Any]:
    """What axe finds serious or critical in what is open, in light and in dark."""
    script = """axe.run(document, {resultTypes: ["violations"]}).then((all) => all.violations
      .filter((each) => ["serious", "critical"].includes(each.impact))
      .map((each) => [each.id, each.help, ...each.nodes.slice(0, 3).map((node) => node.html)]))"""
    found = []
    chrome.run(AXE.read_text() + "; 0")
    for scheme in ("dark", "light"):
        chrome.scheme(scheme)
        found += chrome.run(script)
    return found


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
        chrome.run("document.querySelector('input[type=search]').focus()")
        chrome.type("job499")
        assert chrome.run(HEADS) == ["load/job499"]
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
