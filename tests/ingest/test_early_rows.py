from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.cbt import CompressedBufferTree, encode_partial
from elfmesh.cbt.laws import LAWS, sketches
from elfmesh.cbt.laws.hll import COUPONS_MAX
from elfmesh.cbt.partial import partial_wire
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.protocol.events import EarlyMerged, MemberStates, MergeEarly
from elfmesh.ingest import early_rows
from elfmesh.ingest.early_rows import GROUPS_MAX, EarlyTables
from elfmesh.ingest.worker.early import EarlyWindows
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.plan.statement import MAIN
from elfmesh.ql.values.plain_ipc import ipc_to_table

JOB = "CREATE JOB a.b EARLY '1 s' AS SELECT {} FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k{}"
COUNTED = JOB.format("k, count(*) AS n", " HAVING count(*) >= 4")


def manifest(text: str = COUNTED) -> Manifest:
    return new_manifest(read_job(text)[0], text, "local", created=1, incarnation="i")


def states(keys: list[object], text: str = COUNTED, values: list[object] | None = None) -> bytes:
    """The first message of an agent that has read these records, each beyond its local threshold."""
    statement = ql.parse(text)
    windows = EarlyWindows(statement)
    times = pa.array([1_000_000] * len(keys), pa.timestamp("us"))
    batch = pa.record_batch({"k": pa.array(keys), "u": pa.array(values or keys), "ts": times})
    windows.insert(batches_of(ql.Query(statement).prepare(BlockRows.of(batch))))
    (found,) = windows.take(0, None, 1000)
    return found.payload


class Master:
    """Early tables, and the messages of members."""

    def __init__(self, text: str = COUNTED, groups_max: int = 1000) -> None:
        self.text, self.tables = text, EarlyTables(groups_max)

    def take(
        self, member: int, number: int, payload: bytes, *, boot: int = 1, interval: int = 0, epoch: int = 1
    ) -> EarlyMerged:
        about = manifest(self.text).job_id, epoch, manifest(self.text), interval
        states = (MemberStates(bytes([member]) * 20, boot, number, payload),)
        return self.tables.merged(MergeEarly(*about, states, 0))

    def together(self, *sent: tuple[int, int, bytes]) -> EarlyMerged:
        """Messages of members, with numbers, that have arrived while a thread merged."""
        about = manifest(self.text).job_id, 1, manifest(self.text), 0
        states = tuple(MemberStates(bytes([member]) * 20, 1, number, data) for member, number, data in sent)
        return self.tables.merged(MergeEarly(*about, states, 0))


def rows(merged: EarlyMerged) -> list[dict[str, object]]:
    found: list[dict[str, object]] = ipc_to_table(merged.rows).to_pylist()
    return found


def test_a_row_is_emitted_when_the_members_states_together_reach_the_threshold() -> None:
    master = Master()
    assert master.take(1, 1, states(["a", "a"])).count == 0
    merged = master.take(2, 1, states(["a", "a", "b"]))
    assert rows(merged) == [{"k": "a", "n": 4}]
    assert merged.members == (bytes([1]) * 20, bytes([2]) * 20)


def test_messages_that_are_merged_together_give_the_rows_that_they_complete_once() -> None:
    master = Master()
    sent = [(1, 1, ["a", "a", "b"]), (2, 1, ["a"]), (1, 2, ["a", "a", "a", "b"]), (3, 1, ["b", "b", "b"])]
    merged = master.together(*((member, number, states([*keys])) for member, number, keys in sent))
    assert [rows(each) for each in (merged, *merged.others)] == [[{"k": "a", "n": 4}, {"k": "b", "n": 4}]]
    assert merged.members == tuple(bytes([number]) * 20 for number in (1, 2, 3))
    assert master.take(2, 2, states(["a"] * 9)).count == 0


def test_states_that_do_not_fit_cost_no_other_member_its_rows() -> None:
    master = Master()
    others = states(["a"], JOB.format("k, max(u) AS m", ""))
    sent = [(1, 1, states(["a"] * 4)), (2, 1, b"garbage"), (3, 1, others), (4, 1, states(["b"] * 4))]
    merged = master.together(*sent)
    found = [merged, *merged.others]
    assert [row["k"] for each in found if each.count for row in rows(each)] == ["a", "b"]
    assert sum(bool(each.error) for each in found) == 2


def test_a_group_makes_one_row_in_an_epoch() -> None:
    master = Master()
    assert master.take(1, 1, states(["a"] * 4)).count == 1
    assert master.take(1, 2, states(["a"] * 9)).count == 0
    assert master.take(1, 3, states(["a"] * 9), epoch=2).count == 1


def test_a_later_state_replaces_an_earlier_one_in_any_order() -> None:
    master = Master()
    assert master.take(1, 1, states(["a", "a"])).count == 0
    assert master.take(1, 2, states(["a", "a", "a"])).count == 0  # 3, not 5
    assert master.take(1, 1, states(["a", "a"])).count == 0  # a copy that came late changes nothing
    assert rows(master.take(2, 1, states(["a"]))) == [{"k": "a", "n": 4}]


def test_the_boot_counts_before_the_number() -> None:
    master = Master()
    master.take(1, 9, states(["a", "a", "a"]), boot=1)
    assert master.take(1, 1, states(["a"]), boot=2).count == 0
    assert master.take(2, 1, states(["a", "a"])).count == 0  # the first boot's 3 do not count any more
    assert rows(master.take(3, 1, states(["a"]))) == [{"k": "a", "n": 4}]


def test_groups_without_news_keep_their_states() -> None:
    master = Master()
    master.take(1, 1, states(["a", "a", "b", "b"]))
    master.take(1, 2, states(["b", "b", "b"]))
    assert rows(master.take(2, 1, states(["a", "a", "b"]))) == [{"k": "a", "n": 4}, {"k": "b", "n": 4}]


def test_distinct_values_of_members_are_united() -> None:
    text = JOB.format("k, count(DISTINCT u) AS n", " HAVING count(DISTINCT u) >= 3")
    master = Master(text)
    assert master.take(1, 1, states(["a", "a"], text, [1, 2])).count == 0
    assert master.take(2, 1, states(["a", "a"], text, [2, 1])).count == 0
    assert rows(master.take(2, 2, states(["a", "a"], text, [2, 3]))) == [{"k": "a", "n": 3}]


def test_nan_and_null_are_keys_like_others() -> None:
    master = Master()
    assert master.take(1, 1, states([float("nan")] * 4 + [None] * 4)).count == 2
    assert master.take(1, 2, states([float("nan")] * 5 + [None] * 5)).count == 0


def test_closed_windows_are_dropped() -> None:
    master = Master()
    master.take(1, 1, states(["a", "a"]))
    about = manifest().job_id, 1, manifest(), 5, (MemberStates(b"x" * 20, 1, 1, states(["a"])),), 5
    master.tables.merged(MergeEarly(*about))
    assert master.take(2, 1, states(["a", "a"])).count == 0


def test_states_that_are_not_those_of_the_job_are_refused() -> None:
    master = Master()
    for payload in (b"", b"garbage", states(["a"], JOB.format("k, max(u) AS m", ""))):
        assert master.take(1, 1, payload).error
    assert master.take(1, 1, states(["a"] * 4)).count == 1


def test_groups_without_room_are_counted() -> None:
    master = Master(groups_max=3)
    assert master.take(1, 1, states([*"abcd"])).skipped == 4
    assert master.take(1, 1, states([*"aaaa"])).count == 1


def test_a_million_groups_of_a_peer_are_skipped_and_none_is_kept() -> None:
    tables, spec = EarlyTables(), ql.parse(COUNTED).tables[0]
    tree = CompressedBufferTree([*spec.keys], dict(spec.aggregates))
    tree.insert(pa.record_batch({spec.keys[0]: np.arange(GROUPS_MAX + 1)}))
    sent = MemberStates(b"x" * 20, 1, 1, encode_partial({MAIN: tree.partial()}))
    about = manifest().job_id, 1, manifest(), 0, (sent,), 0
    found = tables.merged(MergeEarly(*about))
    assert (found.skipped, found.count, found.error) == (GROUPS_MAX + 1, 0, "")
    assert [job.groups for job in tables._jobs.values()] == [0]


def test_states_that_unfold_into_far_more_than_a_message_are_refused_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frame of 64 KiB may unfold into a thousand times as much."""
    payload = states(["x" * 1000 + str(number) for number in range(3000)])
    monkeypatch.setattr(early_rows, "STATES_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(partial_wire, "unfold", lambda *_: pytest.fail("a block was read"))
    assert len(payload) < 1 << 16
    assert "at most 1048576 are taken here" in Master().take(1, 1, payload).error


def test_an_approximate_count_makes_no_row_on_coupons() -> None:
    text = JOB.format("k, approx_count_distinct(u) AS n", " HAVING approx_count_distinct(u) >= 100")
    master = Master(text)
    few = states(["a"] * 300, text, list(range(300)))
    assert master.take(1, 1, few).count == 0  # over 100, and still coupons
    many = states(["a"] * 300, text, list(range(300, 600)))
    assert master.take(2, 1, many).count == 1  # together more than the coupons that are kept


def test_the_estimate_of_registers_never_falls() -> None:
    """100,000 updates of random values, in batches."""
    law = LAWS["hll"]
    accumulator = law.accumulator(pa.int64())
    values = np.random.default_rng(15).integers(0, 2**62, 100_000)
    before = 0
    for start in range(0, len(values), 500):
        batch = pa.array(values[start : start + 500])
        accumulator.add(batch, np.zeros(len(batch), np.int64), 1)
        (count,) = sketches.hll_counts(law.finish(accumulator.freeze(1), 1)).to_pylist()
        if start + 500 > COUPONS_MAX:
            assert count >= before
            before = count
    assert before > 90_000


BOTH = JOB.format("k, count(*) AS n", " HAVING count(*) >= 4") + (
    " UNION ALL SELECT u, count(*) FROM other GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), u"
    " HAVING count(*) >= 2"
)


def sides(keys: list[object], stream: str) -> bytes:
    """The first message of an agent that has read these records of one side."""
    statement = ql.parse(BOTH)
    windows = EarlyWindows(statement)
    times = pa.array([1_000_000] * len(keys), pa.timestamp("us"))
    batch = pa.record_batch({"k": pa.array(keys), "u": pa.array(keys), "ts": times})
    windows.insert(batches_of(ql.Query(statement).prepare(BlockRows.of(batch), stream)))
    (found,) = windows.take(0, None, 1000)
    return found.payload


def test_each_side_of_union_all_has_groups_of_its_own() -> None:
    master = Master(BOTH)
    assert master.take(1, 1, sides(["a", "a", "a"], "log")).count == 0
    assert rows(master.take(1, 2, sides(["a", "a"], "other"))) == [{"k": "a", "n": 2}]
    assert rows(master.take(2, 1, sides(["a"], "log"))) == [{"k": "a", "n": 4}]
    assert master.take(2, 2, sides(["a", "a"], "other")).count == 0, "the row of this side is emitted"


def test_states_of_one_side_with_the_tables_of_another_are_refused() -> None:
    master = Master(BOTH)
    assert master.take(1, 1, states(["a"] * 4)).error == "the states are not those of this job"
