"""Clients that change a job of their own while all goes on, and keep what they asked and were told."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.process import Victim
from tests.chaos.verify import CLIENTS_FILE
from tests.linearizable import NEVER, Asked

JOB = "chaos/changes"
CLIENTS = 2
PAUSE_S = 0.7
TIMEOUT_S = 15.0
VERBS = {
    "describe": 8,
    "offsets": 3,
    "update": 3,
    "apply": 2,
    "undo": 1,
    "pause": 1,
    "resume": 1,
    "delete": 1,
}
"""What a client asks for, and how often among each other."""
ROUTES = {"undo": "rollout/undo"}
"""Where the route of a verb is not its name."""


class Clients:
    """Each on a thread of its own, one request after the other.

    Args:
        directory: where every request and its answer is written.
        alive: who can be asked.

    Attributes:
        known: requests whose outcome is known.
    """

    def __init__(self, directory: Path, alive: Callable[[], list[Victim]], seed: int) -> None:
        self.known = 0
        self._path, self._alive = directory / CLIENTS_FILE, alive
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}/{number}"),), daemon=True)
            for number in range(CLIENTS)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask for nothing more; waits for the last answers."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _run(self, rng: random.Random) -> None:
        while not self._stop.wait(rng.expovariate(1 / PAUSE_S)):
            agents = self._alive()
            if agents:
                (verb,) = rng.choices([*VERBS], [*VERBS.values()])
                self._ask(rng.choice(agents), verb, text(rng.randrange(1000)))

    def _ask(self, agent: Victim, verb: str, text: str) -> None:
        job, since = f"/v1/jobs/{JOB}", time.monotonic()
        asked: dict[str, Any] = {"text": text} if verb in ("apply", "update") else {}
        if verb in ("apply", "update"):
            body = asked | ({"job": JOB} if verb == "update" else {})
            status, notified = answer(agent, "POST", "/v1/jobs", body)
        elif verb == "delete":
            status, notified = answer(agent, "DELETE", job)
        elif verb in ("describe", "offsets"):
            status, notified = answer(agent, "GET", job if verb == "describe" else f"{job}/{verb}")
        else:
            status, notified = answer(agent, "POST", f"{job}/{ROUTES.get(verb, verb)}", {})
        until = time.monotonic() if status else None
        asked |= {"verb": verb, "since": since, "until": until, "status": status, "body": notified}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(asked) + "\n")
            self.known += Asked(**asked | {"until": until or NEVER}).is_known


def answer(agent: Victim, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """The status and the body of an answer; 0 if there was none."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(f"http://{agent.api}{path}", data, agent.headers(), method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}
    except (OSError, ValueError, http.client.HTTPException):  # it has been killed meanwhile
        return 0, {}


def text(least: int) -> str:
    """The job of the clients; what it leaves out tells one text from the other."""
    return (
        "CREATE JOB chaos.changes LATENESS '500 ms' DEADLINE '1 s' AS SELECT k, count(*) AS n FROM log"
        f" WHERE v >= {least - 500} GROUP BY TUMBLE(ts, INTERVAL '2' SECOND), k"
    )
