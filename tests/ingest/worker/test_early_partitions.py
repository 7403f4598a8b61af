from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh import ql
from elfmesh.cbt import decode_partial
from elfmesh.ingest.worker.early import MESSAGE_BYTES_MAX, EarlyStates
from elfmesh.ingest.worker.early_partitions import SealedWindows
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ql.engine.block import BlockRows
from tests.ql.sealing import WIDTH, Line, batch_of

TEXT = (
    "CREATE JOB ads.ends EVERY '1 s' EARLY '100 ms' AS SELECT k, v, count(*) AS hits FROM clicks "
    "GROUP BY SEALED(k WHEN ends PRODUCERS ONE RECORDS total AFTER '5 s'), v"
)


class Rig:
    """The hot tables of one agent."""

    def __init__(self, groups_max: int = 1000) -> None:
        self.query = ql.Query(ql.parse(TEXT), member="m")
        self.windows = SealedWindows(self.query.statement, groups_max=groups_max)

    def read(self, *lines: Line) -> None:
        self.windows.insert(batches_of(self.query.prepare(BlockRows.of(batch_of(lines)))))

    def take(self, start: int = 0) -> dict[int, dict[str, list[str]]]:
        return {each.interval: keys(each) for each in self.windows.take(start, None, 2)}


def keys(states: EarlyStates) -> dict[str, list[str]]:
    return {name: table["k0"].to_pylist() for name, table in decode_partial(states.payload).items()}


def line(second: float, k: str, *, ends: bool = False) -> Line:
    return Line(round(second * WIDTH), k, ends=ends, total=1 if ends else None)


def test_partitions_that_are_sealed_here_are_reported_with_all_their_open_intervals() -> None:
    rig = Rig()
    rig.read(line(0.1, "a"), line(0.1, "b"), line(1.1, "a"))
    assert rig.take() == {}
    rig.read(line(2.1, "a", ends=True))
    assert rig.take() == {0: {"main": ["a"]}, 1: {"main": ["a"]}, 2: {"seals": ["a"]}}
    assert rig.take() == {}, "nothing has changed"
    rig.read(line(1.2, "a"), line(2.2, "b", ends=True))
    assert rig.take() == {0: {"main": ["b"]}, 1: {"main": ["a"]}, 2: {"seals": ["b"]}}


def test_closed_intervals_are_dropped() -> None:
    rig = Rig()
    rig.read(line(0.1, "a"), line(1.1, "a", ends=True))
    rig.windows.drop_below(1)
    assert rig.take(start=1) == {1: {"seals": ["a"]}}
    held = rig.windows.nbytes
    rig.windows.drop_below(2)
    assert rig.take(start=2) == {}
    assert rig.windows.nbytes < held


def test_what_does_not_fit_into_a_message_is_in_the_next_ones() -> None:
    rig = Rig(groups_max=100_000)
    names = [f"{number:06}" + "x" * 40 for number in np.random.default_rng(3).permutation(3000)]
    rig.read(*[line(0.1, name) for name in names], *[line(0.2, name, ends=True) for name in names])
    found: list[str] = []
    while states := rig.windows.take(0, None, 2):
        (one,) = states
        assert len(one.payload) <= MESSAGE_BYTES_MAX
        assert keys(one)["main"] == keys(one)["seals"], "whole partitions"
        found += keys(one)["main"]
    assert sorted(found) == sorted(names)


def test_groups_without_room_are_counted() -> None:
    rig = Rig(groups_max=2)
    rig.read(*[line(0.1, k) for k in "abc"], line(0.2, "c", ends=True), line(0.2, "a", ends=True))
    (states,) = rig.windows.take(0, None, 2)
    assert keys(states) == {"main": ["a"], "seals": ["a", "c"]}
    assert states.skipped == 1


def test_types_that_do_not_fit_leave_the_interval_out() -> None:
    rig = Rig()
    rig.read(line(0.1, "a"), line(1.1, "a"), line(1.2, "a", ends=True))
    rows = batches_of(rig.query.prepare(BlockRows.of(batch_of([line(0.1, "a")]))))
    panes, batch = rows["main"]
    wrong = batch.set_column(0, "k0", pa.array([b"\xff"]))
    rig.windows.insert({**rows, "main": (panes, wrong)})
    assert 1 in rig.take()
