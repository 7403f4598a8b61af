"""Social spam (ELF 4.1): find who posts most, then zoom in on it, by changing the filter of the running job.

    python examples/programs/social_spam.py

The job lists the users with the most posts of every second. Who leads it by far, twice in a row, is a
suspect: the master side changes the filter and the key of the running job (`elf update`), and its next
intervals say where that user posts from. The job stays the same: its name, its numbering, its readers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from datetime import UTC, datetime
from pathlib import Path

import click
import fleet

import elfmesh
from elfmesh.api.client.job_values import Result
from elfmesh.cli.host.local_agents import LocalAgents

HOSTS = 3
POSTS_PER_S = 100
SPAMMER, SPAM_SHARE = "buy_now", 0.3
PLACES = ("Ohio", "Georgia", "Texas", "Lyon", "Osaka")
ZOOMED = 3
"""Intervals that are looked at after zooming in."""

TOP_USERS = """CREATE JOB social.spam LATENESS '2 s' AS
SELECT name AS what, count(*) AS posts FROM posts
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), name ORDER BY posts DESC, what LIMIT 5"""
ZOOM = """CREATE JOB social.spam LATENESS '2 s' AS
SELECT place AS what, count(*) AS posts FROM posts WHERE name = '{suspect}'
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), place ORDER BY posts DESC, what LIMIT 5"""


class SocialSpam(elfmesh.Job):
    """One process is enough: it only looks at results."""

    query = TOP_USERS

    def __init__(self, api: str, done: asyncio.Event) -> None:
        super().__init__(api)
        self.suspect, self.zoomed, self.seen, self.done = "", False, 0, done

    async def on_result(self, result: Result) -> None:
        """Suspect, zoom in, look."""
        row = {"interval": [result.start, result.end], "version": result.version, "rows": result.rows}
        row |= {"complete": result.completeness == 1.0, "late": result.counts["late_dropped"]}
        click.echo(json.dumps(row))
        if result.version > 1:
            self.seen += bool(result.rows)
            if self.seen >= ZOOMED:
                self.done.set()
        elif not self.zoomed and leads_by_far(result):
            leader = result.rows[0]["what"]
            if leader == self.suspect:
                changed = await self.update(ZOOM.format(suspect=leader.replace("'", "''")))
                self.zoomed = True
                click.echo(json.dumps({"suspect": leader, "from": changed["effective_interval"]}))
            self.suspect = leader


def leads_by_far(result: Result) -> bool:
    """Whether one user has more than four times the posts of the next."""
    return len(result.rows) > 1 and result.rows[0]["posts"] > 4 * result.rows[1]["posts"]


async def post(logs: list[Path]) -> None:
    """Let people post, and one who posts too much, until cancelled."""
    dice = random.Random(4)
    while True:
        for log in logs:
            now = datetime.now(UTC).isoformat()
            lines = []
            for _ in range(POSTS_PER_S // 20):
                name = SPAMMER if dice.random() < SPAM_SHARE else f"user{dice.randrange(300)}"
                lines.append(json.dumps({"ts": now, "name": name, "place": dice.choice(PLACES)}) + "\n")
            with log.open("a") as file:
                file.write("".join(lines))
        await asyncio.sleep(0.05)


async def play(directory: Path, agents: LocalAgents) -> None:
    """Start the agents and the posting; wait until the suspect was looked at."""
    logs = [directory / f"host{number}.ndjson" for number in range(HOSTS)]
    for log in logs:
        log.touch()
    agents.start({log.stem: ["--stream", f"posts={log},format=json,idle=2 s"] for log in logs})
    posting = asyncio.create_task(post(logs))
    done = asyncio.Event()
    try:
        await fleet.until_done([SocialSpam(agents.agents[0].api, done)], done.wait(), 120)
    finally:
        posting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await posting


if __name__ == "__main__":
    fleet.run(play)
