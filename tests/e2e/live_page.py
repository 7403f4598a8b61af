"""The live page of a fleet of real agents in Chromium: fixtures and helpers of the tests of the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.api.identity.bearer import TOKEN_FILE, read_token
from tests.e2e.browser import Browser, chromium
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import MORTAL, Traffic, now

MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="there is no chromium (Debian: apt-get install chromium)"),
]
JOB = "e2e/live"
EXACT = 9007199254740993
COUNT = 3
HOSTILE = '<img src=x onerror="window.pwned=1">\u202eevil\x1b[2J</script>'
HOSTILE_SHOWN = '<img src=x onerror="window.pwned=1">\\u202eevil\\x1b[2J</script>'
AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("page")) as fleet:
        for number in range(COUNT):
            fleet.start(1, extra=["--label", "role=web", "--label", f"rack=r{number}"])
        with Traffic(fleet, list(range(COUNT)), every_s=0.05):
            fleet.apply(MORTAL.replace(" AS ", " STANDBY ALL LAG '200 ms' AS ", 1))
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
        file.write(json.dumps({"ts": now(), "k": key, "v": value}) + "\n")


def with_token(chrome: Browser, fleet: Fleet) -> None:
    """Paste the agent's token, as its operator would."""
    chrome.click("#me")
    chrome.run("document.getElementById('token').focus()")
    chrome.type(read_token(fleet[0].directory / "data" / TOKEN_FILE))
    chrome.click("dialog button", "Use the token")
    chrome.until("document.getElementById('me').textContent === 'operator'")


def interval_with(fleet: Fleet, key: str) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        return next((r for r in fleet[0].results(JOB) if any(row["k"] == key for row in r["rows"])), None)

    found: dict[str, Any] = eventually(find, what=f"an interval with {key!r}")
    return found


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
