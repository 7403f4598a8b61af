"""Queries over the latest results: which interval is asked, and how long a better one is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import connect
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import QueryError, RuntimeFailure, UsageError
from tests.cli.remote import elf
from tests.control.fakes import FakeBackend, recorded, served, table
from tests.patience import PATIENCE_S


class Backend(FakeBackend):
    """Answers `offsets` from the published records. A client that asks for all gets tentative ones too."""

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 30.0) -> Reply:
        terminal = [each for each in self.records if each[0].state != "TENTATIVE"]
        if verb == "offsets" and body["job"] == "shop/top":
            indices = [record.index for record, _ in terminal]
            bounds = {"earliest": min(indices, default=0), "latest": max(indices, default=-1)}
            return Reply(0, 200, {**bounds, "expired": None, "incarnation": "1"})
        if verb in ("results", "schema") and body.get("state", "final") == "final":
            every, self.records = self.records, terminal
            try:
                return await super().request(verb, body, timeout_s)
            finally:
                self.records = every
        if verb == "describe":
            return Reply(0, 200, {**recorded("describe"), "window": {"size": "10 s", "slide": "10 s"}})
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


def at(index: float) -> datetime:
    """The start of an interval: `FakeBackend` publishes intervals of ten seconds."""
    return datetime.fromtimestamp(10 * index, UTC)


@pytest.mark.parametrize(
    ("begin", "end", "first", "last"),
    [(at(3), at(6), 3, 5), (at(2.5), at(5.5), 3, 5), (at(27), None, 27, 29), (None, at(1), 0, 0)],
)
def test_a_range_of_time_has_all_its_results(
    api: str, backend: Backend, begin: datetime | None, end: datetime | None, first: int, last: int
) -> None:
    text = "SELECT interval_index AS i, hits FROM shop.top WHERE product = 'apple' ORDER BY i"
    found = rows(api, text, begin=begin, end=end)
    assert found == [{"i": index, "hits": index} for index in range(first, last + 1)]
    heads = connect(api).query(text, begin=begin, end=end).of
    assert [head["interval"]["index"] for head in heads] == list(range(first, last + 1))


def test_a_range_without_a_result_is_an_error(api: str) -> None:
    with pytest.raises(RuntimeFailure, match="shop/top has no result of this time"):
        rows(api, "SELECT hits FROM shop.top", begin=at(40))
    with pytest.raises(UsageError, match="are for one result of each job"):
        rows(api, "SELECT hits FROM shop.top", begin=at(4), min_fidelity=1.0)


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


def test_a_query_below_the_wanted_fidelity_names_the_missing_agents(api: str, backend: Backend) -> None:
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
    assert rows(api, "SELECT hits FROM shop.top", min_fidelity=1.0, wait_s=PATIENCE_S) == [{"hits": 9}]
    thread.join()


async def test_the_async_client_asks_too(api: str) -> None:
    async with AsyncClient(api) as client:
        answer = await client.query("SELECT max(hits) AS m FROM shop.top")
    assert answer.table.to_pylist() == [{"m": 29}]
    assert answer.of[0]["fidelity"] == 1.0


def ending(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def test_a_time_names_the_interval_that_ends_at_it(api: str, backend: Backend) -> None:
    text = "SELECT max(hits) AS m, min(interval_index) AS i FROM shop.top"
    assert rows(api, text, at=ending(130)) == [{"m": 12, "i": 12}]
    backend.publish(30, table(("kiwi", 1)))
    assert rows(api, text, at=ending(130)) == [{"m": 12, "i": 12}], "a newer result changes nothing"
    (head,) = connect(api).query(text, at=ending(130)).of
    assert (head["interval"]["index"], head["state"]) == (12, "FINAL")
    ran = elf("query", text, "--at", "1970-01-01T00:02:10", "-o", "jsonl", "--api", api)
    assert (ran.exit_code, ran.stdout) == (0, '{"m":12,"i":12}\n')


def test_an_interval_without_a_record_has_no_rows(api: str, backend: Backend) -> None:
    backend.publish(33, table(("kiwi", 1)), since=30)
    answer = connect(api).query("SELECT product FROM shop.top", at=ending(320))
    assert answer.table.num_rows == 0
    assert answer.of[0]["interval"] == {
        "index": 31, "start": "1970-01-01T00:05:10+00:00", "end": "1970-01-01T00:05:20+00:00"
    }  # fmt: skip
    assert rows(api, "SELECT product FROM shop.top", at=ending(340)) == [{"product": "kiwi"}]


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (310, "is not closed"),
        (131, r"(?s)no interval of shop/top ends at .*Intervals end every 10 s; one ends at .*00:02:20"),
        (0, "is not kept"),
        (300, "was skipped"),
    ],
)
def test_a_time_without_a_closed_interval_is_an_error(
    api: str, backend: Backend, seconds: int, message: str
) -> None:
    backend.records.pop()
    backend.publish(29, table(), state="SKIPPED", agents_in=0, agents_expected=2, fidelity=0.0)
    with pytest.raises(RuntimeFailure, match=message):
        rows(api, "SELECT product FROM shop.top", at=ending(seconds))


def test_it_waits_until_the_interval_of_a_time_is_closed(api: str, backend: Backend) -> None:
    def later() -> None:
        while len([body for verb, body in backend.asked if verb == "results"]) < 2:
            time.sleep(0.01)
        backend.publish(30, table(("kiwi", 9)))

    thread = threading.Thread(target=later)
    thread.start()
    assert rows(api, "SELECT hits FROM shop.top", at=ending(310), wait_s=PATIENCE_S) == [{"hits": 9}]
    thread.join()


def test_a_closed_interval_is_not_tentative_and_does_not_get_better(api: str, backend: Backend) -> None:
    backend.publish(30, table(("kiwi", 1)), state="FINAL_PARTIAL", fidelity=0.5, missing=["web2"])
    with pytest.raises(RuntimeFailure, match="a closed record does not change"):
        rows(api, "SELECT hits FROM shop.top", at=ending(310), min_fidelity=1.0, wait_s=30.0)
    with pytest.raises(UsageError, match="tentative results change"):
        rows(api, "SELECT hits FROM shop.top", at=ending(300), tentative=True)
