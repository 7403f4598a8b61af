"""The alerts of a job, from the records and rows that any agent serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from elfmesh.api.client.client import connect
from elfmesh.api.client.job_alerts import job_alerts
from elfmesh.control.protocol.events import Reply
from tests.api.client.test_live import Backend
from tests.cli.remote import elf
from tests.control.fakes import recorded, served, table

TEXT = (
    "CREATE JOB shop.top EVERY '10 s' ALERT hot WHEN hits > 10 FOR 2 INTERVALS ALERT cold WHEN hits < 0 FOR 1"
    " INTERVALS AS SELECT product, count(*) AS hits FROM log GROUP BY product"
)


class Alerting(Backend):
    """Answers `describe` with a text."""

    text = TEXT

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 30.0) -> Reply:
        if verb == "describe":
            return Reply(0, 200, recorded("describe") | {"text": self.text})
        return await super().request(verb, body, timeout_s)


@pytest.fixture
def backend() -> Alerting:
    fake = Alerting()
    for index in range(40):
        fake.publish(index, table(("apple", 11 if index > 36 else 1), ("pear", 11 if index == 39 else 0)))
    return fake


@pytest.fixture
def api(backend: Alerting) -> Iterator[str]:
    with served(backend) as address:
        yield address


def states(api: str) -> list[tuple[str, dict[str, str], str, str | None]]:
    return [
        (row["alert"], row["labels"], row["state"], row["since"])
        for row in job_alerts(connect(api), "shop/top")
    ]


def test_each_combination_of_labels_has_its_state(api: str) -> None:
    assert states(api) == [
        ("hot", {"product": "apple"}, "firing", "1970-01-01T00:06:10Z"),
        ("hot", {"product": "pear"}, "pending", "1970-01-01T00:06:30Z"),
        ("cold", {}, "ok", None),
    ]


def test_records_that_change_nothing_are_stated(api: str, backend: Alerting) -> None:
    backend.publish(40, table(), state="SKIPPED", agents_in=0, agents_expected=1, completeness=0.0)
    rows = job_alerts(connect(api), "shop/top")
    assert {row["not_evaluated_since"] for row in rows} == {"1970-01-01T00:06:40Z"}
    assert [row["state"] for row in rows] == ["firing", "pending", "ok"]


def test_jobs_without_alerts_or_results(api: str, backend: Alerting) -> None:
    backend.records.clear()
    assert [state for _, _, state, _ in states(api)] == ["ok", "ok"]
    backend.text = "CREATE JOB shop.top EVERY '10 s' AS SELECT count(*) AS n FROM log"
    assert states(api) == []


def test_the_commands(api: str, backend: Alerting) -> None:
    backend.lists("list", [{"job": "shop/top"}, {"job": "adhoc/q-1", "leased": True}])
    ran = elf("get", "alerts", "-o", "csv", "--api", api)
    assert (ran.exit_code, ran.stdout.splitlines()[0]) == (
        0, "alert,job,labels,state,since,condition,not_evaluated_since",
    )  # fmt: skip
    assert len(ran.stdout.splitlines()) == 4
    ran = elf("why", "shop/top", "--api", api)
    assert "alert hot (product=apple): firing since 1970-01-01T00:06:10Z" in ran.stdout
    backend.text = "CREATE JOB shop.top EVERY '10 s' AS SELECT count(*) AS n FROM log"
    assert elf("get", "alerts", "--api", api).stderr == "There are no alerts.\n"
