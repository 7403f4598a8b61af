"""What a worker has read since its last report, and all open panes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.cbt import Panes, decode_partial, merge_partials
from elfmesh.control.protocol.events_standby import CutPane
from elfmesh.ingest.worker.cutting import PaneTail, whole_panes
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

    def read(self, *records: tuple[str, int, float]) -> None:
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


def test_closed_panes_are_in_no_report() -> None:
    side = Side(TUMBLE)
    side.read(("a", 1, 1), ("b", 2, 12))
    side.tail.drop_below(1)
    assert [(each.pane, each.contributed, each.filtered) for each in side.tail.take()] == [(1, 1, 0)]


def test_filtered_records_are_counted_without_rows() -> None:
    side = Side(TUMBLE)
    side.read(("a", 3, 1))
    assert [(each.contributed, each.filtered, each.payload) for each in side.tail.take()] == [(0, 1, b"")]
