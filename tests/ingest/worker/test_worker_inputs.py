"""Records are counted by input where a text has several, behind the filters of each."""

from __future__ import annotations

from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.ql import parse
from tests.ingest.worker.test_worker import TUMBLE, Feeder

UNION = """CREATE JOB j EVERY '10 s' AS
SELECT k FROM t WHERE v > 1 UNION ALL SELECT k FROM t WHERE k = 'a'"""


def test_filtered_records_are_no_records_of_an_input() -> None:
    worker = JobWorker(parse(UNION))
    feeder = Feeder(worker)
    feeder.feed((5, "a", 1), (6, "a", 2), (7, "b", 3), (8, "b", 1), (15, "b", 1), (45, "a", 1))
    feeder.at_end(False)
    assert worker.ready_index == 4
    assert worker.inputs_below(worker.ready_index) == {0: (2, 2), 1: (0, 0)}
    worker.seal(worker.ready_index)
    assert worker.inputs_below(4) == {}


def test_a_text_with_one_input_needs_no_counts_by_input() -> None:
    worker = JobWorker(parse(TUMBLE))
    feeder = Feeder(worker)
    feeder.feed((5, "a", 1), (45, "a", 1))
    feeder.at_end(False)
    assert worker.ready_index > 0
    assert worker.inputs_below(worker.ready_index) == {}
