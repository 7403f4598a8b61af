from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from elfmesh.control.closing.early_lines import EarlyLines
from elfmesh.control.closing.shown import ShownLines
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.control.contexts import new_context

TEXT = "CREATE JOB a.b EVERY '5 s' EARLY '1 s' AS SELECT k, count(*) AS n FROM log GROUP BY k"
FINAL = ResultRecord(job="a/b", index=7, epoch=3)


def line(index: int) -> ResultRecord:
    return ResultRecord(job="a/b", index=index, state="EARLY", epoch=3)


def rows(*keys: str) -> bytes:
    return table_to_ipc(pa.table({"k": [*keys], "n": [1] * len(keys)}))


class Rig:
    """Lines of a job in epoch 3."""

    def __init__(self, text: str = TEXT) -> None:
        self.notified = 0
        self.tentative = Tentative(new_context(1), 3, lambda: None, lambda: None)
        self.early = EarlyLines(read_plan(text), 3, self.tentative, self._shown)

    def _shown(self) -> None:
        self.notified += 1

    def emit(self, index: int, *keys: str) -> None:
        self.early.add(replace(line(index), rev=self.early.rev(index)), rows(*keys), len(keys))


def test_lines_of_an_interval_are_numbered_and_share_the_sequence_of_tentative_records() -> None:
    rig = Rig()
    rig.emit(8, "a")
    rig.emit(7, "b")
    rig.emit(8, "c")
    shown = ShownLines(rig.tentative, rig.early)
    found = shown.since(3 << 32, 0, early=True)
    assert [(record.index, record.rev) for _, record, _ in found] == [(8, 1), (7, 1), (8, 2)]
    assert rig.notified == 3
    assert shown.seq == found[-1][0]
    assert shown.since(found[1][0], 0, early=True) == found[2:]
    assert [record.index for _, record, _ in shown.since(0, 8, early=True)] == [8, 8]
    assert shown.since(0, 0, early=False) == []


def test_a_clean_record_states_nothing() -> None:
    rig = Rig()
    rig.emit(7, "a")
    assert rig.early.judged(FINAL, ()) == FINAL


def test_a_record_that_is_not_clean_states_how_many_rows_were_emitted_and_names_those_it_lacks() -> None:
    rig = Rig()
    rig.emit(7, "a", "b")
    partial = replace(FINAL, state="FINAL_PARTIAL", completeness=0.5)
    found = rig.early.judged(partial, ({"k": "b"},))
    assert found.early == {"emitted": 2, "epoch": 3}
    assert found.withdrawn == [{"k": "b"}]
    assert not found.is_clean


def test_a_record_without_rows_withdraws_the_lines_of_all_its_intervals() -> None:
    rig = Rig()
    rig.emit(6, "a")
    rig.emit(7, "b")
    rig.emit(8, "c")
    run = replace(FINAL, state="SKIPPED", completeness=0.0, since=6)
    assert rig.early.judged(run, None).withdrawn == [{"k": "a"}, {"k": "b"}]


def test_a_record_that_lacks_an_early_row_is_not_clean() -> None:
    rig = Rig()
    rig.emit(7, "a")
    assert not rig.early.judged(FINAL, ({"k": "a"},)).is_clean


def test_a_record_whose_assumptions_do_not_hold_names_the_early_rows_that_it_lacks() -> None:
    rig = Rig()
    rig.emit(7, "a", "b")
    found = rig.early.judged(replace(FINAL, counts={"assumption_broken": 1}), ({"k": "a"},))
    assert (found.is_clean, found.withdrawn, found.early) == (False, [{"k": "a"}], {"emitted": 2, "epoch": 3})


def test_lines_are_dropped_with_their_intervals() -> None:
    rig = Rig()
    rig.emit(7, "a")
    rig.emit(8, "b")
    rig.early.drop_below(8)
    assert rig.early.rows_of(replace(FINAL, since=0)) == ()
    assert rig.early.rows_of(replace(FINAL, index=8)) == (rows("b"),)
    rig.early.clear()
    assert list(rig.early.since(0)) == []


def test_a_job_without_early_rows_is_left_as_it_is() -> None:
    rig = Rig(TEXT.replace(" EARLY '1 s'", ""))
    partial = replace(FINAL, state="FINAL_PARTIAL", completeness=0.5)
    assert rig.early.judged(partial, None) == partial
