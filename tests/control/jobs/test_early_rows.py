from __future__ import annotations

import pyarrow as pa

from elfmesh.control.jobs.early_rows import WITHDRAWN_MAX, withdrawn_rows
from elfmesh.control.jobs.records import ResultRecord, to_json
from elfmesh.ql.values.plain_ipc import table_to_ipc

LINE = table_to_ipc(pa.table({"k": ["a", "b"], "n": [3, 4]}))


def test_rows_are_compared_by_their_stable_columns() -> None:
    final = pa.table({"k": ["b", "c"], "n": [9, 9]})
    assert withdrawn_rows([LINE], final, ["k"]) == [{"k": "a"}]
    assert withdrawn_rows([LINE], None, ["k"]) == [{"k": "a"}, {"k": "b"}]


def test_a_row_that_occurs_twice_has_to_be_there_twice() -> None:
    final = pa.table({"k": ["a", "b"]})
    assert withdrawn_rows([LINE, LINE], final, ["k"]) == [{"k": "a"}, {"k": "b"}]


def test_a_number_may_become_a_double() -> None:
    line = table_to_ipc(pa.table({"k": [1, 2]}))
    assert withdrawn_rows([line], pa.table({"k": [1.0, 2.5]}), ["k"]) == [{"k": 2}]


def test_a_record_names_a_bounded_number_of_rows() -> None:
    line = table_to_ipc(pa.table({"k": list(range(WITHDRAWN_MAX + 5))}))
    assert len(withdrawn_rows([line], None, ["k"])) == WITHDRAWN_MAX


def test_the_json_of_a_line_and_of_a_record_that_is_not_clean() -> None:
    rows = pa.table({"k": ["a"], "n": [3]})
    line = ResultRecord(
        job="a/b", index=7, state="EARLY", rev=2, epoch=4, counted=["web1"], growing=["n"], agents_in=1
    )
    assert to_json(line, rows) == {
        "job": "a/b",
        "interval": {"index": 7, "start": None, "end": None},
        "state": "EARLY",
        "rev": 2,
        "agents": {"in": 1, "expected": 1, "from": ["web1"]},
        "version": 1,
        "epoch": 4,
        "growing": ["n"],
        "rows": [{"k": "a", "n": 3}],
    }
    early = {"emitted": 2, "epoch": 4}
    record = ResultRecord(job="a/b", index=7, clean=False, early=early, withdrawn=[{"k": "b"}])
    shown = to_json(record, rows)
    assert (shown["clean"], shown["early"], shown["withdrawn"]) == (False, early, [{"k": "b"}])
    assert "clean" not in to_json(ResultRecord(job="a/b", index=7), rows)
