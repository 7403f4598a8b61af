"""Violations of ASSUME at a worker: beside the counts of their interval, and again after a restart."""

from __future__ import annotations

from elfmesh.control.jobs.records import BROKEN, CONTRIBUTED, NOT_COUNTED, PARSE_ERROR
from elfmesh.ingest.worker.beginning import Resumed
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.ql import parse
from tests.ingest.worker.test_worker import Feeder, rows

ASSUMED = (
    "CREATE JOB j EVERY '10 s' ASSUME (k -> v, v >= 0) AS SELECT k, sum(v) s FROM t "
    "WHERE v <> 7 GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"
)


def broken(worker: JobWorker, upto: int) -> dict[int, int]:
    return {sealed.index: sum(sealed.counts[BROKEN:]) for sealed in worker.seal(upto)}


def test_violations_of_assume_are_counted_beside_the_records_of_their_interval() -> None:
    worker = JobWorker(parse(ASSUMED))
    feeder = Feeder(worker)
    feeder.feed((1, "a", 1), (2, "a", -1), (11, "a", 2), (12, "b", 2))
    feeder.feed((3, "a", 7), (13, "a", 2), (21, "b", -3))
    first, second, third = worker.seal(3)
    assert first.counts == (2, 1, *NOT_COUNTED[2:], 3), "1, -1 and 7 of a; WHERE is not asked"
    assert second.counts == (3, *NOT_COUNTED[1:]), "a list without violations has its earlier form"
    assert third.counts == (1, *NOT_COUNTED[1:], 1)
    assert rows(worker, first) == [("a", 0)]
    assert worker.totals == [6, 1, *NOT_COUNTED[2:], 4]
    assert worker.problems.samples == [
        "interval 0: violations of ASSUME: 3", "interval 2: violations of ASSUME: 1",
    ]  # fmt: skip


def test_a_restarted_worker_counts_the_violations_of_its_open_intervals_again() -> None:
    worker = JobWorker(parse(ASSUMED))
    feeder = Feeder(worker)
    lines = ((1, "a", 1), (2, "a", 2)), ((3, "a", -1), (11, "a", 1)), ((12, "a", 5), (4, "b", 1))
    for each in lines:
        feeder.feed(*each)
    assert broken(worker, 1) == {0: 3}
    again = JobWorker(parse(ASSUMED), Resumed(1))
    feeder = Feeder(again)
    for each in lines:
        feeder.feed(*each)
    assert broken(again, 2) == {1: 1} == broken(worker, 2)


def test_a_record_in_several_windows_breaks_each_of_them() -> None:
    worker = JobWorker(
        parse(
            "CREATE JOB j ASSUME (k -> v) AS SELECT k, count(*) n FROM t "
            "GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), k"
        )
    )
    Feeder(worker).feed((6, "a", 1), (12, "a", 2))
    assert broken(worker, 3) == {0: 0, 1: 1, 2: 0}


def test_records_that_cannot_be_compared_are_errors() -> None:
    worker = JobWorker(parse(ASSUMED.replace("v >= 0", "x >= 0")))
    Feeder(worker).feed(b'{"ts": 1, "k": "a", "v": 1, "x": true}')
    (sealed,) = worker.seal(1)
    assert (sealed.counts[CONTRIBUTED], sealed.counts[PARSE_ERROR]) == (0, 1)
    assert "ASSUME compares numbers" in worker.problems.samples[0]
