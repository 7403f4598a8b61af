from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import connect
from elfmesh.control.jobs.records import rows_to_json
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import QueryError, RuntimeFailure, UsageError
from elfmesh.local.embedded import answers
from elfmesh.ql.engine.live import evaluate, parse_live
from tests.cli.test_remote_cli import elf
from tests.control.fakes import FakeBackend, served, table


class Backend(FakeBackend):
    """Answers `offsets` from what is published, and gives tentative records to who asks for all."""

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 30.0) -> Reply:
        terminal = [each for each in self.records if each[0].state != "TENTATIVE"]
        if verb == "offsets" and body["job"] == "shop/top":
            indices = [record.index for record, _ in terminal]
            bounds = {"earliest": min(indices, default=0), "latest": max(indices, default=-1)}
            return Reply(0, 200, {**bounds, "expired": None, "incarnation": 1})
        if verb in ("results", "schema") and body.get("state", "final") == "final":
            every, self.records = self.records, terminal
            try:
                return await super().request(verb, body, timeout_s)
            finally:
                self.records = every
        return await super().request(verb, body, timeout_s)


@pytest.fixture
def backend() -> Backend:
    fake = Backend()
    for index in range(30):
        fake.publish(index, table(("apple", index), ("pear", 2), ("fig", 7)))
    return fake


@pytest.fixture
def api(backend: Backend) -> Iterator[str]:
    with served(backend) as address:
        yield address


def rows(api: str, text: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = connect(api).query(text, **options).table.to_pylist()
    return found


def test_the_newest_final_result_is_asked(api: str) -> None:
    text = "SELECT product, hits FROM shop.top WHERE hits > 5 ORDER BY hits DESC"
    assert rows(api, text) == [{"product": "apple", "hits": 29}, {"product": "fig", "hits": 7}]
    assert rows(api, "SELECT sum(hits) AS s, count(*) AS k FROM shop.top") == [{"s": Decimal(38), "k": 3}]
    assert rows(api, "SELECT DISTINCT interval_index, state, completeness FROM shop.top") == [
        {"interval_index": 29, "state": "FINAL", "completeness": 1.0}
    ]


def test_star_means_the_columns_of_the_job(api: str) -> None:
    assert rows(api, "SELECT * FROM shop.top ORDER BY hits LIMIT 1") == [{"product": "pear", "hits": 2}]


def test_columns_and_types_are_those_of_the_newest_result_not_of_all_versions(
    api: str, backend: Backend
) -> None:
    backend.publish(30, pa.table({"product": ["kiwi"], "hits": pa.array([None], pa.float64())}))
    assert rows(api, "SELECT hits FROM shop.top") == [{"hits": None}]
    large = 2**53 + 1  # no double
    backend.publish(
        31, pa.table({"product": ["kiwi"], "hits": pa.array([large], pa.int64()), "seen": pa.nulls(1)})
    )
    assert rows(api, "SELECT * FROM shop.top") == [{"product": "kiwi", "hits": large, "seen": None}]
    backend.publish(32, pa.table({"visits": pa.array([3], pa.int64())}))
    assert rows(api, "SELECT * FROM shop.top") == [{"visits": 3}]
    with pytest.raises(QueryError, match="hits"):
        rows(api, "SELECT hits FROM shop.top")


def test_open_revisions_of_different_types_are_asked_for_the_newest(api: str, backend: Backend) -> None:
    backend.publish(30, pa.table({"hits": pa.array(["none yet"])}), state="TENTATIVE", rev=1)
    backend.publish(30, pa.table({"hits": pa.array([5], pa.int64())}), state="TENTATIVE", rev=2)
    assert rows(api, "SELECT * FROM shop.top", tentative=True) == [{"hits": 5}]


def test_a_relational_query_joins_results(api: str) -> None:
    text = (
        "SELECT a.product, b.m FROM shop.top a JOIN (SELECT max(hits) AS m FROM shop.top) b ON a.hits = b.m"
    )
    assert rows(api, text) == [{"product": "apple", "m": 29}]


def test_skipped_intervals_have_no_rows_to_ask(api: str, backend: Backend) -> None:
    backend.publish(30, table(), state="SKIPPED", agents_in=0, agents_expected=2, fidelity=0.0)
    assert rows(api, "SELECT max(interval_index) AS i FROM shop.top") == [{"i": 29}]


def test_open_intervals_only_with_the_flag_and_in_their_newest_revision(api: str, backend: Backend) -> None:
    backend.publish(30, table(("kiwi", 1)), state="TENTATIVE", rev=1)
    backend.publish(30, table(("kiwi", 5)), state="TENTATIVE", rev=2)
    assert rows(api, "SELECT max(interval_index) AS i FROM shop.top") == [{"i": 29}]
    assert rows(api, "SELECT * FROM shop.top", tentative=True) == [{"product": "kiwi", "hits": 5}]


def test_tentative_rows_before_any_final_one() -> None:
    fake = Backend()
    fake.publish(3, table(("kiwi", 1)), state="TENTATIVE")
    with served(fake) as api:
        assert rows(api, "SELECT * FROM shop.top", tentative=True) == [{"product": "kiwi", "hits": 1}]
        with pytest.raises(RuntimeFailure, match="no result yet"):
            rows(api, "SELECT * FROM shop.top")


def test_below_the_wanted_fidelity_it_says_who_is_missing(api: str, backend: Backend) -> None:
    half = {"fidelity": 0.5, "agents_in": 1, "agents_expected": 2, "missing": ["web2"]}
    backend.publish(30, table(("kiwi", 1)), state="FINAL_PARTIAL", **half)
    ran = elf("query", "SELECT * FROM shop.top", "--min-fidelity", "0.9", "--api", api)
    assert ran.exit_code == 1
    assert "interval 30 of shop/top has fidelity 0.5, but 0.9 is required; missing: web2" in ran.stderr
    assert rows(api, "SELECT * FROM shop.top") == [{"product": "kiwi", "hits": 1}]
    assert rows(api, "SELECT * FROM shop.top", min_fidelity=0.5) == [{"product": "kiwi", "hits": 1}]


def test_it_waits_for_a_result_that_is_good_enough(api: str, backend: Backend) -> None:
    backend.publish(30, table(("kiwi", 1)), state="FINAL_PARTIAL", fidelity=0.5, missing=["web2"])

    def later() -> None:
        while len([body for verb, body in backend.asked if verb == "results"]) < 2:
            time.sleep(0.01)
        backend.publish(31, table(("kiwi", 9)))

    thread = threading.Thread(target=later)
    thread.start()
    assert rows(api, "SELECT hits FROM shop.top", min_fidelity=1.0, wait_s=30.0) == [{"hits": 9}]
    thread.join()


def test_output_of_the_command(api: str) -> None:
    text = "SELECT product, hits FROM shop.top ORDER BY hits DESC LIMIT 1"
    ran = elf("query", text, "--api", api, "-o", "json")
    found = json.loads(ran.stdout)
    assert found["rows"] == [{"product": "apple", "hits": 29}]
    assert (found["of"][0]["job"], found["of"][0]["interval"]["index"]) == ("shop/top", 29)
    assert elf("query", text, "--api", api, "-o", "csv").stdout == "product,hits\napple,29\n"
    ran = elf("query", text, "--api", api)
    assert "apple" in ran.stdout
    assert "shop/top: interval 29" in ran.stderr


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("SELECT nothing FROM shop.top", "nothing"),
        ("CREATE JOB a.b EVERY '1 s' AS SELECT count(*) FROM shop.top", "is no job"),
        ("SELECT count(*) FROM shop.top GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)", "no window to make"),
        ("SELECT count(*) FROM top ON (role = 'web')", "belong to no agent"),
    ],
)
def test_what_results_cannot_answer_is_refused_with_its_place(api: str, text: str, reported: str) -> None:
    ran = elf("query", text, "--api", api)
    assert ran.exit_code == 65
    assert reported in ran.stderr
    assert "^" in ran.stderr


def test_wrong_use(api: str) -> None:
    assert elf("query", "--api", api).exit_code == UsageError.exit_code
    assert elf("query", "SELECT * FROM shop.top", "--wait", "soon", "--api", api).exit_code == 2
    assert elf("query", "SELECT * FROM shop.other", "--api", api).exit_code == 1
    assert elf("query", "SELECT * FROM shop.top", "--api", "127.0.0.1:1").exit_code == 69


async def test_the_async_client_asks_too(api: str) -> None:
    async with AsyncClient(api) as client:
        answer = await client.query("SELECT max(hits) AS m FROM shop.top")
    assert answer.table.to_pylist() == [{"m": 29}]
    assert answer.of[0]["fidelity"] == 1.0


def test_rows_of_no_result_are_no_rows() -> None:
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert evaluate(parse_live("SELECT sum(a) AS s FROM j"), {"j": empty}).to_pylist() == [{"s": None}]
    assert evaluate(parse_live("SELECT a FROM j WHERE a > 1"), {"j": empty}).to_pylist() == []
    with pytest.raises(QueryError, match="b"):
        evaluate(parse_live("SELECT b FROM j"), {"j": empty})


VALUES = st.integers(-3, 3) | st.none()
ROWS = st.lists(st.fixed_dictionaries({"u": st.sampled_from("abc") | st.none(), "n": VALUES}), max_size=12)
QUERIES = [
    "SELECT * FROM j",
    "SELECT u, sum(n) AS s, count(DISTINCT n) AS d FROM j GROUP BY u HAVING count(*) > 1",
    "SELECT n, u FROM j WHERE n > 0 OR u = 'a' ORDER BY n DESC LIMIT 3",
    "SELECT DISTINCT u FROM j",
    "SELECT u, n FROM j WHERE n = (SELECT max(n) FROM j)",
    "SELECT a.u, b.s FROM j a JOIN (SELECT u, sum(n) AS s FROM j GROUP BY u) b ON a.u = b.u",
    "SELECT u, row_number() OVER (ORDER BY n DESC, u) AS r FROM j",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
@given(found=ROWS, text=st.sampled_from(QUERIES))
def test_rows_of_results_answer_as_the_same_rows_in_a_log(
    found: list[dict[str, Any]], text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("rows") / "log"
    log.write_text("".join(json.dumps(row) + "\n" for row in found) or "\n")
    (expected,) = answers(text.replace("SELECT *", "SELECT u, n"), str(log), format="json")
    schema = pa.schema([("u", pa.string()), ("n", pa.int64())])
    answer = evaluate(parse_live(text), {"j": pa.Table.from_pylist(found, schema)}, ["u", "n"])
    assert answer.column_names == expected.table.column_names

    def of(table: pa.Table) -> list[str]:
        lines = [json.dumps(row, default=str) for row in rows_to_json(table)]
        return lines if "ORDER BY n DESC L" in text else sorted(lines)

    assert of(answer) == of(expected.table)
