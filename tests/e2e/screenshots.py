"""The pictures of docs/page.md: real agents over the demo's shop, in Chromium. `make screenshots`.

Owns what is shown; nothing on the pictures is made up but the shop. An agent is killed before they are taken.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import elfmesh
from elfmesh.api.identity.bearer import TOKEN_FILE, read_token
from elfmesh.cli.demo.fleet import STREAM, ShopLogs
from elfmesh.cli.host.local_agents import LocalAgents
from tests.e2e.browser import Browser, chromium
from tests.patience import PATIENCE_S

ZONES = ("eu-1", "eu-1", "eu-2", "eu-2", "us-1", "us-1")
KILLED = "web5"
WATCHED = "shop/micro_promotion"
INTERVALS = 26
WIDTH, TALL = 1280, 1010
JOBS = (
    """CREATE JOB shop.micro_promotion EVERY '5 s' LATENESS '1 s' AS
SELECT product, SUM(clicks_count) AS clicks
FROM   clicks ON (role = 'web')
WHERE  directory = 'Video Games' AND user.location <> 'test'
GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), product
ORDER BY clicks DESC LIMIT 10""",
    """CREATE JOB shop.likes_and_buys AS
SELECT SUM(likes_count) AS likes, SUM(buys_count) AS buys
FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)""",
    """CREATE JOB shop.by_location AS
SELECT user.location AS location, COUNT(*) AS records, APPROX_COUNT_DISTINCT(user.id) AS people
FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), user.location ORDER BY records DESC LIMIT 20""",
    """CREATE JOB ops.kinds AS
SELECT kind, COUNT(*) AS records FROM clicks ON (zone = 'eu-1')
GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), kind ORDER BY kind""",
)
CHANGED = (
    JOBS[0].replace("clicks\nFROM", "clicks, SUM(likes_count) AS likes\nFROM").replace("LIMIT 10", "LIMIT 20")
)


def main(into: Path) -> None:
    """Take all pictures."""
    if chromium() is None:
        sys.exit("there is no chromium (Debian: apt-get install chromium)")
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, LocalAgents(Path(name)) as fleet, Browser() as browser:
        directory = Path(name)
        hosts = [f"web{number}" for number in range(1, len(ZONES) + 1)]
        logs = ShopLogs({host: directory / f"{host}.ndjson" for host in hosts}, seed=5, rate_per_s=40)
        options: dict[str, Sequence[str]] = {
            host: [
                *("--label", "role=web", "--label", f"zone={zone}"),
                *("--stream", f"{STREAM}={logs.paths[host]},format=json,idle=1 s"),
            ]
            for host, zone in zip(hosts, ZONES, strict=True)
        }
        fleet.start(options)
        logs.start()
        try:
            take(into, browser, fleet, logs)
        finally:
            logs.stop()


def take(into: Path, browser: Browser, fleet: LocalAgents, logs: ShopLogs) -> None:
    """From a fleet in order to one that lacks an agent."""
    agent = fleet.agents[0]
    client = elfmesh.connect(agent.api)
    for text in JOBS:
        client.apply(text)
    browser.size(WIDTH, TALL)
    browser.scheme("light")
    browser.open(f"http://{agent.api}/page/#/overlay")
    browser.until(f"document.querySelectorAll('.picture .mark text').length === {len(ZONES)}")
    browser.run(f"location.hash = '#/job/{WATCHED}'")
    final = "document.querySelectorAll('.strip .final').length"
    browser.until(f"{final} > {INTERVALS}", timeout_s=400)
    fleet.kill(KILLED)
    logs.silence(KILLED)
    browser.until("document.querySelectorAll('.strip .final_partial').length > 3", timeout_s=PATIENCE_S)
    token(browser, fleet)
    shot(browser, into / "job-light.webp")
    for view, scheme, width, tall, name in (
        (f"#/job/{WATCHED}", "dark", WIDTH, TALL, "job-dark"),
        ("#/", "light", WIDTH, 620, "overview-light"),
        ("#/agents", "dark", WIDTH, 330, "agents-dark"),
    ):
        browser.size(width, tall)
        browser.scheme(scheme)
        browser.run(f"location.hash = '{view}'")
        browser.until(
            "document.querySelectorAll('.concerns .dot.bad, .strip .final_partial, tr.gone').length"
        )
        shot(browser, into / f"{name}.webp")
    console(browser, into)
    browser.scheme("light")
    browser.size(360, 780, phone=True, scale=1.5)
    browser.run(f"location.hash = '#/job/{WATCHED}'")
    browser.until("document.querySelectorAll('.strip .final_partial').length")
    shot(browser, into / "job-phone.webp")


def token(browser: Browser, fleet: LocalAgents) -> None:
    """Paste the agent's token, as its operator would."""
    file = next(fleet.directory.glob(f"{fleet.agents[0].name}*/**/{TOKEN_FILE}"))
    browser.click("#me")
    browser.run("document.getElementById('token').focus()")
    browser.type(read_token(file))
    browser.click("dialog button", "Use the token")
    browser.until("document.getElementById('me').textContent === 'operator'")
    browser.until("document.querySelectorAll('.strip .final_partial').length > 3")


def console(browser: Browser, into: Path) -> None:
    """A change that is planned, and a mistake."""
    editor = "document.querySelector('.editor').shadowRoot.querySelector('.cm-content')"
    browser.size(WIDTH, 665)
    browser.scheme("dark")
    browser.run(f"location.hash = '#/console/{WATCHED}'")
    browser.until("document.querySelector('.verdict.good')")
    for text, name in (
        (CHANGED, "console-dark"),
        (CHANGED.replace("SUM(likes", "SUMM(likes"), "console-error-dark"),
    ):
        browser.run(f"{editor}.focus()")
        browser.press("a", 65, control=True)
        browser.press("Backspace", 8)
        browser.type(text)
        browser.press("Escape", 27)
        if name == "console-dark":
            browser.until("document.querySelector('.verdict.good')?.textContent.includes('likes')")
            browser.click("button", "Plan")
            browser.until("document.querySelector('.plan .state')")
            shot(browser, into / f"{name}.webp")
        else:
            browser.until("document.querySelector('.verdict.bad')")
            browser.size(WIDTH, 368)
            shot(browser, into / f"{name}.webp")


def shot(browser: Browser, path: Path) -> None:
    """A picture, once what is shown has settled."""
    time.sleep(1.5)
    browser.run("document.activeElement?.blur(); window.scrollTo(0, 0)")
    browser.picture(path)
    print(f"{path} {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
