"""The client of a query over streams: the text of the job, its records, the missing agents, and its end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from elfmesh import ql
from elfmesh.api.client.stream_query import Missing, QueryProgress, StreamQuery, wait_of
from elfmesh.errors import DataError, QueryError, RuntimeFailure

COUNT = "SELECT k, count(*) AS n FROM log WHERE v > 0 GROUP BY k"


def member(number: int, frontier: int | None = 1, *, dead: bool = False) -> dict[str, Any]:
    return {"agent": f"a{number}", "id": str(number), "frontier": frontier, "dead": dead}


def record(**of: Any) -> dict[str, Any]:
    return {
        "interval": {"index": 0, "start": "1970-01-01T00:00:00Z", "end": "2169-11-14T00:00:00Z"},
        "state": "FINAL",
        "completeness": 1.0,
        "fidelity": 1.0,
        "agents": {"in": 2, "expected": 2, "missing": []},
        "counts": {"contributed": 3},
        "rows": [{"k": "x", "n": 3}],
    } | of


class Fleet:
    """A client whose job is complete after `polls` polls."""

    def __init__(self, *, polls: int = 0, records: Iterable[dict[str, Any]] = ()) -> None:
        self.polls, self.found = polls, list(records)
        self.members = [member(1), member(2)]
        self.agents: list[dict[str, Any]] = []
        self.text = ""
        self.leased = False
        self.deleted: list[str] = []
        self.refusal: RuntimeFailure | None = None
        self.state = ""
        self.refused: list[dict[str, Any]] = []

    def apply(self, text: str, *, source: str, leased: bool) -> dict[str, Any]:
        self.text, self.leased = text, leased
        return {}

    def describe(self, job: str) -> dict[str, Any]:
        self.polls -= 1
        state = "running" if self.polls >= 0 else "complete"
        found = {"state": self.state or state, "roster": {"agents": self.members}}
        return found | ({"refused": self.refused} if self.refused else {})

    def delete(self, job: str) -> dict[str, Any]:
        self.deleted.append(job)
        if self.refusal is not None:
            raise self.refusal
        return {}

    def get(self, kind: str) -> list[dict[str, Any]]:
        return self.agents

    def lines(self, job: str, *, start: int | None, wait_s: float) -> Iterable[bytes]:
        new, self.found = self.found, []
        return [json.dumps(each).encode() for each in new]


def asked(fleet: Fleet, text: str = COUNT, **of: Any) -> StreamQuery:
    with StreamQuery(fleet, text, "HISTORY '1 h' UNTIL HISTORY", wait_us=10_000_000, **of) as query:
        query.submit()
        while query.poll() is not None:
            pass
    return query


def test_the_job_is_leased_and_deleted() -> None:
    fleet = Fleet(records=[record()])
    query = asked(fleet, namespace="ops-eu")
    job = ql.parse(fleet.text).job
    assert job is not None
    assert fleet.leased
    assert query.job == f"ops-eu/{job.name}"
    assert job.name.startswith("q-")
    assert (job.history_us, job.until_us, job.deadline_us, job.horizon_us) == (
        3_600_000_000,
        0,
        10**6,
        9 * 10**6,
    )
    assert fleet.deleted == [query.job]


def test_one_interval_has_no_bounds() -> None:
    query = asked(Fleet(records=[record()]))
    assert query.records == [record(interval={"index": 0, "start": None, "end": None})]
    assert (query.completeness, query.missing) == (1.0, [])


def test_agents_that_still_read_are_named() -> None:
    fleet = Fleet(polls=1)
    fleet.members = [member(1), member(2, None)]
    with StreamQuery(fleet, COUNT, "UNTIL '1 s'", wait_us=0) as query:
        query.submit()
        assert query.poll() == QueryProgress(1, ("a2",))
        assert query.poll() is None


def test_a_query_that_no_agent_can_answer_ends() -> None:
    fleet = Fleet()
    fleet.state, fleet.members = "waiting for agents", []
    with pytest.raises(DataError, match="no agent has the streams"):
        asked(fleet)
    assert len(fleet.deleted) == 1


def test_each_missing_agent_has_a_reason() -> None:
    agents = {"in": 1, "expected": 3, "missing": ["a2", "a3"]}
    fleet = Fleet(records=[record(agents=agents, completeness=1 / 3, fidelity=1 / 3)])
    fleet.members = [member(1), member(2, dead=True), member(3, None)]
    fleet.agents = [
        {"name": "a9", "id": "9", "status": "dead", "last_seen": "2026-01-01T00:00:00Z"},
        {"name": "a2", "id": "2", "status": "dead", "last_seen": None},
        {"name": "a1", "id": "1", "status": "alive"},
    ]
    query = asked(fleet)
    assert query.missing == [
        Missing("a2", "it is dead"),
        Missing("a3", "it has not read its logs within 10 s"),
        Missing("a9", "it is dead, last seen 2026-01-01T00:00:00Z; `elf forget a9` if it does not return"),
    ]
    (found,) = query.records
    assert (found["agents"]["in"], found["agents"]["expected"], found["state"]) == (1, 4, "FINAL_PARTIAL")
    assert found["completeness"] == found["fidelity"] == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    ("text", "rows"),
    [("SELECT count(*) AS n FROM log", [{"n": 0}]), ("SELECT k, count(*) AS n FROM log GROUP BY k", [])],
)
@pytest.mark.parametrize("records", [[], [record(rows=[], counts={"contributed": 0})]])
def test_no_record_gives_the_rows_of_nothing(text: str, rows: list[Any], records: list[Any]) -> None:
    query = asked(Fleet(records=records), text)
    assert [each["rows"] for each in query.records] == [rows]
    assert query.completeness == 1.0


def test_rows_that_having_has_removed_are_not_those_of_nothing() -> None:
    found = asked(
        Fleet(records=[record(rows=[])]), "SELECT count(*) AS n FROM log HAVING count(*) < 2"
    ).records
    assert found[0]["rows"] == []


def test_an_interval_without_a_record_counts_agents_that_have_not_read() -> None:
    fleet = Fleet()
    fleet.members = [member(1), member(2, None)]
    query = asked(fleet)
    assert (query.completeness, query.records[0]["agents"]["missing"]) == (0.5, ["a2"])


def test_windows_keep_their_bounds_and_may_be_none() -> None:
    text = "SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), k"
    assert asked(Fleet(records=[record()]), text).records == [record()]
    assert asked(Fleet(), text).records == []


def test_the_job_is_deleted_after_an_error_and_a_refused_deletion_hides_none() -> None:
    fleet = Fleet()
    fleet.refusal = RuntimeFailure("there is no such job")
    with (
        pytest.raises(KeyboardInterrupt),
        StreamQuery(fleet, COUNT, "UNTIL '1 s'", wait_us=0) as query,
    ):
        raise KeyboardInterrupt
    assert fleet.deleted == [query.job]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT * FROM log", 1, 8),
        ("SELECT k\nFROM log\nGROUP BY k, nothing(k)", 3, 13),
        ("SELECT k FROM log WHERE sum(k) > 1", 1, 25),
    ],
)
def test_an_error_is_at_its_place_in_the_text_of_the_user(text: str, line: int, column: int) -> None:
    with pytest.raises(QueryError) as caught:
        StreamQuery(Fleet(), text, "HISTORY '1 h' UNTIL HISTORY", wait_us=0)
    assert (caught.value.line, caught.value.column) == (line, column)


REFUSED = {"agent": "a3", "id": "3", "reason": "it would read 3 GB"}
COST = {"agents": [{"agent": "a3", "id": "3", "refusal": "it would read 3 GB", "seconds": 60.0}]}


@pytest.mark.parametrize("by", ["the master", "the agent", "both"])
def test_an_agent_that_refuses_the_query_is_missing_with_its_reason(by: str) -> None:
    fleet = Fleet(records=[record()])
    fleet.refused = [REFUSED] if by != "the agent" else []
    query = asked(fleet, cost=COST if by != "the master" else None)
    assert query.records[0]["agents"] == {"in": 2, "expected": 3, "missing": ["a3"]}
    assert query.records[0]["state"] == "FINAL_PARTIAL"
    assert query.completeness == pytest.approx(2 / 3)
    assert query.missing == [Missing("a3", "it would read 3 GB")]


def test_an_agent_that_refuses_at_first_and_takes_part_is_not_missing() -> None:
    fleet = Fleet(records=[record()])
    fleet.members = [member(1), member(3)]
    query = asked(fleet, cost=COST)
    assert (query.completeness, query.missing) == (1.0, [])


def test_a_query_that_every_agent_refuses_ends_with_the_reasons() -> None:
    fleet = Fleet()
    fleet.state, fleet.members, fleet.refused = "waiting for agents", [], [REFUSED]
    with pytest.raises(DataError, match=r"every agent .* refuses the query: a3: it would read 3 GB"):
        asked(fleet)


def test_the_answer_waits_beyond_the_predicted_time_of_the_slowest_agent_that_reads() -> None:
    rows = [
        {"seconds": 2.5, "refusal": ""},
        {"seconds": None, "refusal": ""},
        {"seconds": 1.0, "refusal": ""},
    ]
    assert wait_of({"agents": [*rows, {"seconds": 60.0, "refusal": "it would read 3 GB"}]}) == 12_500_000
    assert wait_of({"agents": []}) == 10_000_000
