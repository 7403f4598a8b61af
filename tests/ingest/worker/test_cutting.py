"""What a worker has read since its last report, and all open panes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.cbt import Panes, decode_partial, merge_partials
from elfmesh.control.protocol.events_standby import CutPane, CutPanes
from elfmesh.ingest.worker.cutting import PENDING_ROWS_MAX, CutPace, PaneTail, whole_panes
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ingest.worker.tally import Tally
from elfmesh.ql.engine.block import BlockRows

TUMBLE = "TUMBLE(ts, INTERVAL '10' SECOND)"
WINDOWS = (TUMBLE, "HOP(ts, INTERVAL '1' SECOND, INTERVAL '20' SECOND)")


class Side:
    """One version at one agent: its panes, their counts and the tail."""

    def __init__(self, window: str) -> None:
        self.job = ql.parse(
            "CREATE JOB a.b AS SELECT k, count(*) AS n, count(DISTINCT u) AS d, avg(u) AS a FROM log"
            f" WHERE u <> 3 GROUP BY {window}, k"
        )
        spec = self.job.window
        assert spec is not None
        self.panes = Panes(self.job.tables, spec.size_us, spec.slide_us)
        self.tally = Tally(spec.slide_us // spec.pane_us, spec.size_us // spec.pane_us)
        self.tail = PaneTail(self.job, 4, 0)

    def read(self, *records: tuple[str, float, float]) -> None:
        keys, numbers, times = zip(*records, strict=True)
        at = pa.array([round(each * 1e6) for each in times], pa.timestamp("us"))
        batch = pa.record_batch({"k": pa.array(keys), "u": pa.array(numbers), "ts": at})
        prepared = ql.Query(self.job).prepare(BlockRows.of(batch))
        self.panes.insert_all(batches_of(prepared))
        for bucket, panes in enumerate((prepared.kept, prepared.filtered)):
            for pane, number in panes.items():
                self.tally.count_pane(bucket, number, pane)
        self.tail.insert(prepared)


def merged(cuts: list[CutPane]) -> dict[int, tuple[int, int, object]]:
    found: dict[int, tuple[int, int, bytes]] = {}
    for each in cuts:
        contributed, filtered, payload = found.get(each.pane, (0, 0, b""))
        joined = merge_partials([payload, each.payload])
        found[each.pane] = contributed + each.contributed, filtered + each.filtered, joined
    return {
        pane: (
            contributed,
            filtered,
            {name: table.sort_by("k0").to_pydict() for name, table in decode_partial(payload).items()},
        )
        for pane, (contributed, filtered, payload) in found.items()
    }


@pytest.mark.parametrize("window", WINDOWS)
def test_the_merged_reports_equal_the_panes(window: str) -> None:
    side = Side(window)
    side.read(("a", 1, 1), ("b", 2, 12), ("a", 3, 1.5))
    first = side.tail.take()
    assert side.tail.take() == []
    assert side.panes.window(0) is not None, "a kept window does not disturb what is cut"
    side.read(("a", 5, 1), ("c", 1, 13), ("b", 3, 12))
    cuts = [*first, *side.tail.take()]
    assert {each.evaluated for each in cuts} == {4}
    assert merged(cuts) == merged(whole_panes(4, side.tally, side.panes))


@pytest.mark.parametrize("window", WINDOWS)
def test_blocks_of_other_types_and_more_rows_than_are_kept_are_in_the_report(window: str) -> None:
    side = Side(window)
    for number in range(200):
        value = number + 0.5 if number % 50 == 49 else number
        side.read(*((f"k{each}", value, 1 + number / 20) for each in range(120)))
    assert side.tail.settle()
    assert merged(side.tail.take()) == merged(whole_panes(4, side.tally, side.panes))
    assert side.tail.take() == []


def test_few_rows_are_inserted_when_a_report_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    side = Side(TUMBLE)
    insert = Panes.insert

    def counted(panes: Panes, name: str, places: np.ndarray, rows: pa.RecordBatch) -> None:
        calls.append(rows.num_rows)
        insert(panes, name, places, rows)

    monkeypatch.setattr(Panes, "insert", counted)
    for number in range(50):
        side.read(("a", number + 10, 1))
    assert (calls, side.tail.nbytes > 0) == ([], True)
    side.tail.take()
    assert calls == [50] * len(side.job.tables)
    for number in range(3):
        side.read(*((f"k{each}", 10 + number, 1) for each in range(PENDING_ROWS_MAX // 2)))
    assert calls[len(side.job.tables) :] == [PENDING_ROWS_MAX] * len(side.job.tables)


def test_a_row_that_does_not_fit_is_noticed_before_the_report() -> None:
    side = Side(TUMBLE)
    other = ql.Query(side.job)
    for keys in (pa.array([1]), pa.array(["a"])):
        at = pa.array([1_000_000], pa.timestamp("us"))
        batch = pa.record_batch({"k": keys, "u": pa.array([1]), "ts": at})
        side.tail.insert(other.prepare(BlockRows.of(batch)))
    assert not side.tail.settle()
    side.tail.clear()
    assert (side.tail.settle(), side.tail.has_records, side.tail.take()) == (True, False, [])


def test_closed_panes_are_in_no_report() -> None:
    side = Side(TUMBLE)
    side.read(("a", 1, 1), ("b", 2, 12))
    side.tail.drop_below(1)
    assert [(each.pane, each.contributed, each.filtered) for each in side.tail.take()] == [(1, 1, 0)]


def test_filtered_records_are_counted_without_rows() -> None:
    side = Side(TUMBLE)
    side.read(("a", 3, 1))
    assert [(each.contributed, each.filtered, each.payload) for each in side.tail.take()] == [(0, 1, b"")]


def test_an_order_waits_for_its_time_and_for_records_and_the_first_one_for_neither() -> None:
    pace = CutPace()
    assert pace.take(5, has_read=True) is None, "there is no order"
    assert (pace.due_us(5), pace.within_us(5)) == (None, None)
    pace.order = CutPanes(b"job", 1, whole=False, after_us=100)
    assert pace.take(20, has_read=True) == CutPanes(b"job", 1, whole=True, after_us=100)
    assert (pace.age_us, pace.due_us(20), pace.within_us(20)) == (15, None, 100)
    pace.order = CutPanes(b"job", 2, whole=False, after_us=100)
    assert pace.take(70, has_read=True) is None
    assert (pace.due_us(70), pace.within_us(70)) == (120, 50)
    assert pace.take(121, has_read=True) == pace.order
    assert pace.age_us == 51
    pace.order = CutPanes(b"job", 3, whole=False, after_us=100)
    assert pace.take(400, has_read=False) is None, "nothing was read"
    assert (pace.due_us(400), pace.within_us(400)) == (400, 100)


def test_an_order_without_a_time_or_behind_a_clock_that_was_set_back_is_carried_out_now() -> None:
    pace = CutPace()
    for number, order in enumerate((CutPanes(b"job", 1, whole=True), CutPanes(b"job", 2, whole=True))):
        pace.order = order
        assert pace.take(1_000 + number, has_read=False) == order
    pace.order = CutPanes(b"job", 3, whole=False, after_us=100)
    assert pace.take(1_050, has_read=True) is None
    assert pace.take(900, has_read=True) == pace.order
    assert pace.age_us == 0
    pace.order = CutPanes(b"job", 0, whole=False)
    assert pace.take(901, has_read=False) == pace.order, "nothing is shipped from now on"
    pace.order = CutPanes(b"job", 4, whole=False, after_us=100)
    taken = pace.take(902, has_read=False)
    assert taken is not None
    assert taken.whole
