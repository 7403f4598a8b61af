"""The descriptions of all jobs, some without a master."""

from __future__ import annotations

import threading
from typing import Any

from elfmesh.api.fleet_jobs import ask_all, gather_all, job_rows
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import ElfError, RuntimeFailure, Unreachable

LISTED = [{"job": "shop/top", "creator": "ann"}, {"job": "shop/top", "creator": "bob"}, {"job": "shop/lost"}]
AGENTS: list[dict[str, Any]] = [
    {"jobs": ["shop/top", "shop/led"]},
    {"status": "dead"},
    {"jobs": ["shop/deleted"]},
]
STATUS = {"shop/top": 200, "shop/lost": 503, "shop/led": 503, "shop/deleted": 404}
LOST = {"shop/lost": "no master", "shop/led": "no master"}


def test_members_know_jobs_that_no_master_lists() -> None:
    assert [row["job"] for row in job_rows(LISTED, AGENTS)] == [
        "shop/top", "shop/lost", "shop/led", "shop/deleted",
    ]  # fmt: skip
    assert job_rows(LISTED)[0]["creator"] == "ann"


async def test_an_agent_gathers_them() -> None:
    async def ask(verb: str, body: dict[str, Any]) -> Reply:
        if body["job"] == "shop/led":
            raise Unreachable("no master")
        status = STATUS[body["job"]]
        return Reply(0, status, body if status == 200 else {"error": "no master"})

    found = await gather_all(ask, job_rows(LISTED, AGENTS))
    assert found.described == {"shop/top": {"job": "shop/top", "creator": "ann"}}
    assert found.silent == LOST


def test_a_client_asks_for_them() -> None:
    class FleetClient:
        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.asked: list[tuple[str, Any]] = []

        def ask(self, verb: str, job: str, creator: str | None) -> dict[str, Any]:
            with self.lock:
                self.asked.append((job, creator))
            if STATUS[job] == 200:
                return {"job": job}
            error: type[ElfError] = Unreachable if STATUS[job] == 503 else RuntimeFailure
            raise error("no master")

    client: Any = FleetClient()
    found = ask_all(client, job_rows(LISTED, AGENTS))
    assert (found.described, found.silent) == ({"shop/top": {"job": "shop/top"}}, LOST)
    assert ("shop/top", "ann") in client.asked
