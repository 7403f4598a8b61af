"""Live runs: the last line of each window is that of a run over the same bytes, for any order and any cut."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs.records import to_json
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse

QUERIES = {
    "tumbling": "SELECT k, count(*) AS n, sum(v) AS s FROM log GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), k",
    "hopping": "SELECT count(*) AS n FROM log GROUP BY HOP(ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
    "kept from one to the next": "SELECT k, count(*) AS n, max(v) AS m FROM log"
    " GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '12' SECOND), k",
    "with lateness": "CREATE JOB a.b LATENESS '4 s' AS SELECT k, count(*) AS n FROM log WHERE v > 1"
    " GROUP BY TUMBLE(ts, INTERVAL '3' SECOND), k",
}
BASE = 1_700_000_000


class Chunks(io.RawIOBase):
    """A pipe whose writer writes these chunks."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._chunks:
            return 0
        chunk, rest = self._chunks[0][: len(buffer)], self._chunks[0][len(buffer) :]
        self._chunks[:1] = [rest] if rest else []
        buffer[: len(chunk)] = chunk
        return len(chunk)


def line(second: int, key: str, value: int) -> bytes:
    return json.dumps({"ts": BASE + second, "k": key, "v": value}).encode() + b"\n"


def shown(result: IntervalResult) -> dict[str, Any]:
    return to_json(result.record, result.table)


def run(
    query: str, chunks: Sequence[bytes], on_window: Callable[[IntervalResult], None] | None = None
) -> LogRun:
    stdin = io.BufferedReader(Chunks(chunks))
    return LogRun(parse(query), ["-"], format="json", stdin=stdin, on_window=on_window)


ROWS = st.lists(
    st.builds(line, st.integers(0, 40), st.sampled_from("ab"), st.integers(0, 5)), min_size=1, max_size=40
)


@pytest.mark.parametrize("name", QUERIES)
@given(rows=ROWS, cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_the_last_line_of_a_window_is_that_of_a_run_over_the_same_bytes(
    name: str, rows: list[bytes], cuts: list[int]
) -> None:
    data, query = b"".join(rows), QUERIES[name]
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[start:stop] for start, stop in itertools.pairwise(edges)]
    live: list[dict[str, Any]] = []
    job = run(query, chunks, lambda result: live.append(shown(result)))
    final = [shown(result) for result in job.results()]
    assert final == [shown(result) for result in run(query, [data]).results()]
    last = {each["interval"]["index"]: each for each in final}
    for index in {each["interval"]["index"] for each in live}:
        revisions = [each for each in live if each["interval"]["index"] == index]
        assert [each["rev"] for each in revisions] == [*range(1, len(revisions) + 1)]
        assert {each["state"] for each in revisions} == {"TENTATIVE"}
        # A window is in the last line as the records made it, also if a record came after it was due.
        same = {**revisions[-1], "state": "FINAL", "rev": 1}
        assert same == last[index]


def test_a_window_is_due_when_an_event_time_has_passed_its_end_by_the_lateness() -> None:
    query = QUERIES["with lateness"]
    chunks = [line(second, "a", 2) for second in (0, 1, 3, 6, 8, 1, 20)]
    live: list[IntervalResult] = []
    job = run(query, chunks, live.append)
    assert len(list(job.results())) == 5
    first = live[0].record.index
    found = [(each.record.index - first, each.record.rev, each.table["n"][0].as_py()) for each in live]
    assert found == [(0, 1, 1), (1, 1, 2), (1, 2, 3), (2, 1, 1), (3, 1, 1)]
    assert job.live.late == 1


def test_the_first_record_of_a_window_that_was_due_without_one_is_late() -> None:
    live: list[IntervalResult] = []
    job = run(QUERIES["tumbling"], [line(second, "a", 2) for second in (0, 1, 22, 11, 30)], live.append)
    assert len(list(job.results())) == 4
    assert [each.record.rev for each in live] == [1, 1, 1]
    assert job.live.late == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(*) AS n FROM log GROUP BY k",
        "SELECT k, count(*) AS n FROM log GROUP BY SESSION(ts, INTERVAL '2' SECOND), k",
    ],
)
def test_what_is_known_only_at_the_end_is_not_shown_before(query: str) -> None:
    live: list[IntervalResult] = []
    chunks = [line(second, "a", 1) for second in range(0, 60, 5)]
    assert list(run(query, chunks, live.append).results())
    assert live == []
