"""Streams and jobs as tables of the shell. `tests/e2e/jobs/test_ask_the_fleet.py` asks real agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from elfmesh.api.client.client import Client
from elfmesh.cli.sql.fleet_tables import FleetTables
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import DataError, UsageError
from tests.api.client.test_live import Backend
from tests.cli.remote import TEXT, elf
from tests.control.fakes import recorded, served, table

MINUTE_US = 60_000_000


@pytest.fixture
def backend() -> Backend:
    fake = Backend()
    fake.lists(
        "streams",
        [
            {"stream": "access", "formats": ["combined"], "columns": ["status", "path"], "agents": ["a"]},
            {"stream": "clicks", "formats": ["json"], "columns": [], "agents": ["a"]},
        ],
    )
    jobs: list[dict[str, Any]] = [
        {"job": "shop/top", "state": "running"},
        {"job": "default/top", "state": "paused"},
        {"job": "adhoc/q-1", "state": "running", "leased": True},
    ]
    fake.lists("list", jobs)
    fake.publish(0, table(("apple", 3), ("pear", 2)))
    fake.replies["describe"] = Reply(0, 200, recorded("describe") | {"job": "shop/top", "text": TEXT})
    return fake


@pytest.fixture
def api(backend: Backend) -> Iterator[str]:
    with served(backend) as address:
        yield address


@pytest.fixture
def tables(api: str) -> FleetTables:
    return FleetTables(Client(api), 10 * MINUTE_US)


def test_streams_and_jobs_are_listed_and_queries_are_not(tables: FleetTables) -> None:
    assert tables.listing() == [
        {"name": "access", "kind": "stream", "about": "combined"},
        {"name": "clicks", "kind": "stream", "about": "json"},
        {"name": "shop.top", "kind": "job", "about": "running"},
        {"name": "default.top", "kind": "job", "about": "paused"},
    ]


def test_columns_have_the_types_that_are_known(tables: FleetTables) -> None:
    assert tables.columns("access") == [("status", "BIGINT"), ("path", "STRING")]
    columns = tables.columns("shop.top")
    assert columns[:2] == [("product", "STRING"), ("hits", "BIGINT")]
    assert ("completeness", "DOUBLE") in columns


@pytest.mark.parametrize(
    ("name", "reported", "hint"),
    [
        (
            "clicks",
            "the columns of clicks are those of its lines \\(json\\)",
            "`elf tap clicks` shows lines.",
        ),
        ("acess", "there is no table acess", "Did you mean access?"),
    ],
)
def test_columns_that_are_not_known(tables: FleetTables, name: str, reported: str, hint: str) -> None:
    with pytest.raises(DataError, match=reported) as found:
        tables.columns(name)
    assert found.value.hint == hint


def test_a_statement_over_a_job_reads_its_newest_result(
    tables: FleetTables, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run("SELECT product, hits FROM shop.top ORDER BY hits", "query", "json", None)
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert answer["rows"] == [{"product": "pear", "hits": 2}, {"product": "apple", "hits": 3}]


def test_a_statement_over_a_stream_is_a_query_with_the_history(tables: FleetTables, backend: Backend) -> None:
    assert tables.history("") == "10 min"
    assert tables.history("2 h") == "2 h"
    with pytest.raises(UsageError, match=r"\.history: 'soon' is not a duration"):
        tables.history("soon")
    backend.replies["apply"] = Reply(0, 400, {"error": "not today", "code": 1})
    with pytest.raises(Exception, match="not today"):
        tables.run("SELECT count(*) AS n FROM access", "query", "json", None)
    (applied,) = (body["text"] for verb, body in backend.asked if verb == "apply")
    assert "FROM access HISTORY '2 h' UNTIL HISTORY" in applied


def test_a_name_without_a_stream_is_a_job_of_the_default_namespace(
    tables: FleetTables, backend: Backend
) -> None:
    with pytest.raises(Exception, match="there is no such job"):
        tables.run("SELECT product FROM top", "query", "json", None)
    assert ("offsets", "default/top") in [(verb, body.get("job")) for verb, body in backend.asked]


def test_the_shell_creates_no_job(api: str) -> None:
    ran = elf("sql", "--api", api, "-o", "json", "-c", f"{TEXT};\nSELECT hits FROM shop.top WHERE hits = 3")
    assert (ran.exit_code, json.loads(ran.stdout)["rows"]) == (2, [{"hits": 3}])
    assert ran.stderr.startswith("elf: elf sql creates no jobs\n  Write the job to a file")


def test_a_select_without_from_asks_no_agent(
    backend: Backend, tables: FleetTables, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run("SELECT 1 AS one, 'a' AS b", "query", "csv", None)
    assert capsys.readouterr().out == "one,b\n1,a\n"
    assert backend.asked == []
