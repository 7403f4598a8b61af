"""A table is published to a job that runs on real agents: every interval is of one version of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from elfmesh.api.client.client import Client
from elfmesh.api.publish import publish_table
from elfmesh.cli.jobs.publish import publish_command
from elfmesh.errors import DataError, RuntimeFailure
from elfmesh.local.embedded import answers as alone_answers
from tests.e2e.fleet import Fleet, eventually

pytestmark = [pytest.mark.slow]
BEGIN = 1_767_225_600
TEXT = """CREATE JOB shop.suspects EVERY '10 s' HORIZON '300 s' TABLE suspects (name STRING, why STRING) AS
SELECT s.why, count(*) AS n FROM clicks c JOIN lookup.suspects s ON c.user = s.name GROUP BY s.why
ORDER BY s.why"""


def write(path: Path, start: int, seconds: int) -> None:
    with path.open("a") as file:
        for at in range(start, start + seconds):
            for user in ("ann", "bob", "eve"):
                file.write(json.dumps({"ts": BEGIN + at, "user": user}) + "\n")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.start(3, stream="clicks", options=",format=json,idle=1 h")
        eventually(lambda: len(fleet[0].get("/v1/streams")["streams"][0]["agents"]) == 3, what="agents")
        yield fleet


def answers(fleet: Fleet, upto: int) -> dict[int, dict[str, Any]]:
    job = "shop/suspects"
    last = (BEGIN + upto) // 10 - 1
    eventually(
        lambda: [r for r in fleet[1].results(job) if r["interval"]["index"] >= last], what=f"to {upto}"
    )
    return {r["interval"]["index"]: r for r in fleet[1].results(job)}


def test_no_interval_mixes_two_versions_of_a_table(fleet: Fleet, tmp_path: Path) -> None:
    client = Client(fleet[2].api)
    fleet.apply(TEXT)
    for agent in fleet:
        write(fleet.log(agent.number, "clicks"), 0, 25)
    found = answers(fleet, 20)
    assert all(result["rows"] == [] for result in found.values())

    one = pa.table({"name": ["ann"], "why": ["bot"]})
    (reported,) = publish_table(one, "suspects", client=client)
    assert (reported["job"], reported["version"], reported["acknowledged"], reported["rows"]) == (
        "shop/suspects",
        2,
        3,
        1,
    )
    for agent in fleet:
        write(fleet.log(agent.number, "clicks"), 25, 40)
    found = answers(fleet, 60)
    begins = reported["effective_interval"]
    for index, result in found.items():
        expected = [{"why": "bot", "n": 30}] if index >= begins else []
        assert (result["rows"], result["version"]) == (expected, 2 if index >= begins else 1), index
    assert {result["version"] for result in found.values()} == {1, 2}

    two = tmp_path / "suspects.csv"
    two.write_text("why,name\nbot,bob\nfraud,eve\n")
    invoked = CliRunner().invoke(
        publish_command, [str(two), "--name", "suspects", "--api", fleet[0].api, "-o", "json"]
    )
    assert invoked.exit_code == 0, invoked.output
    begins = json.loads(invoked.output)["effective_interval"]
    for agent in fleet:
        write(fleet.log(agent.number, "clicks"), 65, 40)
    found = answers(fleet, 100)
    later = [{"why": "bot", "n": 30}, {"why": "fraud", "n": 30}]
    assert [found[index]["rows"] for index in sorted(found) if index >= begins] == [later] * (
        max(found) - begins + 1
    )
    paths = [str(fleet.log(agent.number, "clicks")) for agent in fleet]
    text = str(client.describe("shop/suspects")["text"])  # the text has the rows: anyone can compute it again
    alone = {r.record.index: r.table.to_pylist() for r in alone_answers(text, paths, format="json")}
    assert alone[max(found)] == later == found[max(found)]["rows"]
    assert client.verify("shop/suspects", max(found), again=True)["state"] in ("running", "equal")


def test_what_cannot_be_published_changes_no_job(fleet: Fleet) -> None:
    client = Client(fleet[0].api)
    before = client.describe("shop/suspects")["version"]
    with pytest.raises(RuntimeFailure, match="no running job declares a table nobody"):
        publish_table(pa.table({"a": [1]}), "nobody", client=client)
    with pytest.raises(DataError, match="column why of table suspects"):
        publish_table(pa.table({"name": ["a"]}), "suspects", client=client)
    assert client.describe("shop/suspects")["version"] == before
