"""What clients asked for and were told, job by job, and whether it could have happened so (D-4, D-16).

Owns the histories. The rules are those of `tests.linearizable`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from elfmesh.control.protocol.events import Reply
from tests.linearizable import CHANGES, NEVER, READS, Asked, explain, named, until
from tests.sim.swarm.judging import registers

if TYPE_CHECKING:
    from tests.sim.swarm.judging.outcome import Outcome
    from tests.sim.swarm.recovering import Recovery


JOB = "sim/changes"
PAUSE_S = 1.0
TIMEOUT_S = 15.0
VERBS = {
    "describe": 8,
    "results": 3,
    "update": 3,
    "apply": 2,
    "undo": 1,
    "pause": 1,
    "resume": 1,
    "delete": 1,
}
"""What a client asks for, and how often among each other."""


@dataclass
class Clients:
    """By job, what was asked about it."""

    now: Callable[[], float]
    asked: dict[str, list[Asked]] = field(default_factory=dict)
    recoveries: list[Recovery] = field(default_factory=list)
    """Of jobs that had lost most of their voters."""

    def note(self, since: float, verb: str, body: dict[str, Any], reply: Reply | None) -> None:
        """A request is over: it was answered, or its client has given up."""
        text = str(body.get("text", ""))
        job = named(text) if text else str(body.get("job", ""))
        verb = "update" if verb == "apply" and "job" in body else verb
        if verb in (*CHANGES, *READS):
            until = NEVER if reply is None else self.now()
            status, notified = (0, {}) if reply is None else (reply.status, reply.body)
            given = body.get("seen", "")
            seen = (given.split(".")[1], int(given.split(".")[2])) if given else None
            self.asked.setdefault(job, []).append(Asked(verb, since, until, text, status, notified, seen))


def d4_changes_are_linearizable(out: Outcome) -> Iterator[str]:
    """What clients were told of a job's changes and results could have happened one after the other."""
    for job, asked in out.history.clients.asked.items():
        known = out.history.voters.get(job, [])
        times = [*(since for since, _ in known[1:]), out.history.now()]
        if any(registers.lost(out.history, job, at) for at in times):
            continue  # who applies it again founds another register, which knows nothing of this one
        # A recovery may lose what was decided last, which is what its operator accepts.
        end = min((each.lost_at for each in out.history.clients.recoveries if each.job == job), default=NEVER)
        if why := explain(until(asked, end), taken_back=out.scenario.has("bad-lines")):
            yield f"{job}: {why}"


class Swarm(Protocol):
    """Whom clients ask."""

    @property
    def history(self) -> Any: ...
    @property
    def scenario(self) -> Any: ...
    async def request(
        self, rng: random.Random, verb: str, body: dict[str, Any], timeout_s: float
    ) -> Reply | None: ...


async def change(swarm: Swarm, number: int) -> None:
    """One client: changes a job that all clients share, and reads it, one request after the other.

    Every other client names what it has seen of the job last.
    """
    rng = random.Random(f"clients/{swarm.scenario.seed}/{number}")
    asked: Counter[str] = swarm.history.asked
    seen = ""
    while True:
        await asyncio.sleep(rng.expovariate(1 / PAUSE_S))
        (verb,) = rng.choices([*VERBS], [*VERBS.values()])
        body: dict[str, Any] = {"job": JOB}
        if verb in ("apply", "update"):
            body = {} if verb == "apply" else body
            body["text"] = text(rng.randrange(1000))
        if seen and number % 2 and verb not in READS:
            body["seen"] = seen
        asked[JOB] += verb in ("apply", "update", "undo")
        since, reply = swarm.history.now(), None
        try:
            reply = await swarm.request(rng, "apply" if verb == "update" else verb, body, TIMEOUT_S)
        finally:
            swarm.history.clients.note(since, "apply" if verb == "update" else verb, body, reply)
            if reply is not None:
                seen = reply.body.get("seen", seen)


def text(least: int) -> str:
    """The job of the clients; what it leaves out tells one text from the other."""
    return (
        "CREATE JOB sim.changes LATENESS '1 s' DEADLINE '1 s' AS SELECT k, count(*) AS n FROM log"
        f" WHERE v >= {least - 500} GROUP BY TUMBLE(ts, INTERVAL '2' SECOND), k"
    )
