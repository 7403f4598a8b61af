"""Early rows of SEALED: agents' hot tables, the master's tables and closed intervals, against the oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.control.protocol.events import EarlyMerged, Finalise, MemberStates, MergeEarly
from elfmesh.ingest.early_rows import EarlyTables
from elfmesh.ingest.worker.early_partitions import SealedWindows
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.values.plain_ipc import ipc_to_table
from tests.ql.sealing import WIDTH, Ended, Line, batch_of, oracle, partials
from tests.ql.sessions import JOB, ROOT, manifest

TEXT = (
    "CREATE JOB ads.ends EVERY '1 s' EARLY '100 ms' AS SELECT k, v, count(*) AS hits FROM clicks "
    "GROUP BY SEALED(k WHEN ends PRODUCERS {} RECORDS total AFTER '5 s'), v {}"
)
ONE = TEXT.format("ONE", "")
Row = tuple[object, ...]


class Member:
    """An agent that reads its log, and reports its sealed partitions."""

    def __init__(self, name: str, text: str) -> None:
        self.id, self.number = name.encode().ljust(20), 0
        self.text, self.query = text, ql.Query(ql.parse(text), member=name)
        self.windows, self.log = SealedWindows(self.query.statement), list[Line]()

    def read(self, *lines: Line) -> None:
        self.log += lines
        self.windows.insert(batches_of(self.query.prepare(BlockRows.of(batch_of(lines)))))

    def take(self, start: int = 0) -> list[tuple[Member, int, int, bytes]]:
        self.number += 1
        found = self.windows.take(start, None, 2)
        return [(self, self.number, each.interval, each.payload) for each in found]


class Master:
    """The root of a job: it closes intervals, and merges early states."""

    def __init__(self, members: Sequence[Member], groups_max: int = 1000) -> None:
        self.members, self.text = {each.id.decode().strip(): each for each in members}, members[0].text
        self.tables, self.open, self.closed = EarlyTables(groups_max), b"", 0
        self.is_settled = True
        self.early, self.records = dict[int, list[Row]](), dict[int, Ended]()

    def merge(
        self, member: Member, number: int, interval: int, payload: bytes, *, boot: int = 1
    ) -> EarlyMerged:
        states = (MemberStates(member.id, boot, number, payload),) if payload else ()
        about = JOB, 1, manifest(self.text), interval, states, self.closed
        merged = self.tables.merged(MergeEarly(*about, self.open, tuple(self.members), self.is_settled))
        for each in (merged, *merged.others):
            if not each.count:
                continue
            rows = [tuple(row.values()) for row in ipc_to_table(each.rows).to_pylist()]
            assert len(rows) == each.count
            assert each.members
            self.early.setdefault(each.interval, []).extend(rows)
        return merged

    def close(self, index: int, completeness: float = 1.0) -> Ended:
        """Close an interval with all that members have read of it."""
        rng = random.Random(0)
        sent = [partials(self.text, name, one.log, 1, rng) for name, one in self.members.items()]
        parts = (tuple(part for each in sent if index in each for part in each[index]),)
        about = JOB, 1, manifest(self.text), index, parts, 1, self.open, completeness
        done = ROOT.close_groups(Finalise(*about, members=tuple(self.members)))
        self.open, self.closed = done.open, index + 1
        for one in self.members.values():
            one.windows.drop_below(index + 1)
        rows = sorted(tuple(row.values()) for row in ipc_to_table(done.rows).to_pylist())
        self.records[index] = Ended(rows, done.completeness, done.late)
        self.merge(next(iter(self.members.values())), 0, index + 1, b"")
        return self.records[index]


def at(second: float, k: str = "a", **more: object) -> Line:
    return replace(Line(round(second * WIDTH), k), **more)  # type: ignore[arg-type]  # fields of a Line


def ended(second: float, total: int, k: str = "a", **more: object) -> Line:
    return at(second, k, ends=True, total=total, **more)


def rig(text: str = ONE, count: int = 2, groups_max: int = 1000) -> tuple[Master, list[Member]]:
    members = [Member(f"m{number}", text) for number in range(count)]
    return Master(members, groups_max), members


def test_a_partition_has_its_rows_when_its_producer_has_sealed_it_and_before_its_interval_closes() -> None:
    master, (one, other) = rig()
    one.read(at(0.1), at(0.2, v=1), at(1.1, "b"))
    assert one.take() == [], "no seal"
    one.read(ended(1.2, 2))
    for message in one.take():
        master.merge(*message)
    assert master.early == {}, "an earlier interval is open"
    master.close(0)
    assert master.early == {1: [("a", 0, 1), ("a", 1, 1)]}
    assert master.close(1).rows == [("a", 0, 1), ("a", 1, 1)]
    assert other.take() == []


def test_having_may_fall_because_the_partition_is_complete() -> None:
    master, (one, _) = rig(TEXT.format("ONE", "HAVING count(*) < 3"))
    one.read(*[at(0.1)] * 2, *[at(0.2, v=1)] * 3, ended(0.3, 5))
    for message in one.take():
        master.merge(*message)
    assert master.early == {0: [("a", 0, 2)]}


def test_a_producer_beyond_their_number_makes_the_record_incomplete() -> None:
    """The rows may have been emitted in another epoch, without the records of this producer."""
    master, (one, other) = rig()
    one.read(at(0.1), ended(0.2, 1))
    for message in one.take():
        master.merge(*message)
    assert master.early == {0: [("a", 0, 1)]}
    other.read(at(0.1), ended(0.2, 1))
    assert master.close(0) == Ended([("a", 0, 2)], 0.5)


def test_records_of_closed_intervals_count() -> None:
    master, (one, _) = rig()
    one.read(at(0.1), at(1.1))
    assert master.close(0).rows == []
    assert master.close(1).rows == []
    one.read(ended(2.0, 2))
    for message in one.take(start=2):
        master.merge(*message)
    assert master.early == {2: [("a", 0, 2)]}


def test_a_partition_waits_for_the_records_that_its_producer_states() -> None:
    """Another agent has read a record, and no seal: the final record has it."""
    master, (one, other) = rig()
    other.read(at(0.1))
    one.read(at(0.1), ended(0.3, 2))
    assert other.take() == []
    for message in one.take():
        master.merge(*message)
    assert master.early == {}
    assert master.close(0).rows == [("a", 0, 2)]


def test_all_waits_for_the_seals_of_all_members() -> None:
    master, (one, other) = rig(TEXT.format("ALL", ""))
    one.read(at(0.1), ended(0.2, 1))
    first = one.take()
    other.read(at(0.1), ended(0.3, 1))
    for message in first:
        master.merge(*message)
    assert master.early == {}
    for message in other.take():
        master.merge(*message)
    assert master.early == {0: [("a", 0, 2)]}


def test_the_newest_state_of_a_partition_counts_and_its_rows_come_once() -> None:
    master, (one, _) = rig()
    one.read(at(0.1), ended(0.2, 2))
    (early,) = one.take()
    one.read(at(0.3), at(0.3, "b"), ended(0.3, 1, "b"))
    (late,) = one.take()
    for message in (late, early, late):
        master.merge(*message)
    assert {index: sorted(rows) for index, rows in master.early.items()} == {0: [("a", 0, 2), ("b", 0, 1)]}


def test_a_state_of_an_earlier_boot_does_not_count_beside_a_later_one() -> None:
    master, (one, _) = rig()
    one.read(at(0.1), at(0.1), ended(0.2, 3))
    (message,) = one.take()
    again = Member("m0", ONE)
    again.read(at(0.1), ended(0.2, 3))
    (fresh,) = again.take()
    master.merge(*message, boot=1)
    master.merge(*fresh, boot=2)
    assert master.early == {}, "one record, not three"


def test_a_partition_that_after_has_ended_has_no_early_rows() -> None:
    master, (one, _) = rig()
    one.read(at(0.1), ended(8.0, 1))
    for message in one.take():
        master.merge(*message)
    assert master.early == {}, "it ends at 5 s"


def test_a_partition_of_an_incomplete_interval_waits() -> None:
    master, (one, _) = rig()
    one.read(at(0.1))
    master.close(0, completeness=0.5)
    one.read(ended(1.0, 1))
    for message in one.take(start=1):
        master.merge(*message)
    assert master.early == {}


def test_a_seal_that_is_repeated_later_names_no_later_interval() -> None:
    """The message with the first seal is lost."""
    master, (one, _) = rig()
    one.read(at(0.1), ended(0.2, 1), ended(2.5, 1))
    *_, repeated = one.take()
    master.merge(*repeated)
    for index in range(3):
        master.close(index)
    assert master.early == {}
    assert (master.records[0].rows, master.records[2].completeness) == ([("a", 0, 1)], 1.0)


def test_an_interval_behind_one_that_is_open_has_no_early_rows() -> None:
    """Its partitions may end elsewhere, because the record of the earlier one may lack an agent."""
    master, (one, other) = rig(TEXT.format("ALL", ""))
    one.read(at(0.1), ended(0.2, 1))
    other.read(ended(1.2, 0))
    for message in (*one.take(), *other.take()):
        master.merge(*message)
    assert master.early == {}
    master.is_settled = False
    master.close(0)
    assert master.early == {}, "the register has not closed it yet"
    master.is_settled = True
    master.merge(one, 0, 1, b"")
    assert master.early == {1: [("a", 0, 1)]}


def test_open_groups_that_change_are_examined_without_a_message() -> None:
    """The agent had handed the interval on when it read the seal."""
    master, (one, _) = rig()
    one.read(at(0.1))
    one.windows.drop_below(1)
    one.read(ended(1.0, 1))
    (message,) = one.take(start=1)
    master.merge(*message)
    assert master.early == {}
    master.close(0)
    assert master.early == {1: [("a", 0, 1)]}


def test_states_that_are_not_those_of_the_job_are_refused() -> None:
    master, (one, _) = rig()
    for payload in (b"garbage", b"\xff" * 40):
        assert master.merge(one, 1, 0, payload).error
    other = Member("m0", ONE.replace("count(*)", "max(v)"))
    other.read(at(0.1), ended(0.2, 1))
    ((_, number, interval, payload),) = other.take()
    assert "not those of this job" in master.merge(one, number, interval, payload).error
    assert master.early == {}


def test_partitions_without_room_are_counted() -> None:
    master, (one, _) = rig(groups_max=3)
    one.read(*[at(0.1, k) for k in "abc"], *[ended(0.2, 1, k) for k in "abc"])
    (message,) = one.take()
    assert master.merge(*message).skipped == 6


LINES = st.lists(
    st.builds(Line, ts=st.integers(0, 7 * WIDTH), k=st.sampled_from("abc"), v=st.integers(0, 1)), max_size=20
)


def sealing(
    logs: Sequence[Sequence[Line]], how: str, right: bool, rng: random.Random
) -> Mapping[str, list[Line]]:
    """The logs with a seal of each key at the end of what a member has of it; some state other numbers."""
    found = {}
    for number, lines in enumerate(logs):
        mine = sorted(lines, key=lambda each: each.ts)
        for key in "abc":
            records = [each.ts for each in mine if each.k == key]
            if how == "ALL" or records:
                seal_us = max(records, default=0) + rng.randrange(2 * WIDTH)
                total = len(records) + (0 if right else rng.choice([0, 0, 1]))
                mine.append(Line(seal_us, key, ends=True, total=total, n=2))
        found[f"m{number}"] = mine
    return found


def test_a_further_producer_of_a_partition_that_has_ended_makes_no_early_row() -> None:
    """The message of the first producer is lost."""
    master, (one, other) = rig()
    one.read(at(0.1))
    other.read(at(0.1))
    one.read(ended(0.5, 1), ended(2.5, 1))
    other.read(ended(1.5, 1))
    for message in other.take():
        master.merge(*message)
    assert master.early == {}, "the first interval is open"
    assert master.close(0).completeness == 0.5, "two records, of which the first seal states one"
    further, repeated = master.close(1), master.close(2)
    assert (further.rows, further.completeness) == (repeated.rows, repeated.completeness) == ([], 1.0)
    assert master.early == {}


@example([[Line(0, "c")], [Line(0, "c")]], "ONE", True, 7)
@settings(max_examples=25, deadline=None)
@given(st.lists(LINES, min_size=2, max_size=3), st.sampled_from(["ONE", "ALL", "n"]), st.booleans(),
       st.integers(0, 2**32))  # fmt: skip
def test_each_early_row_is_in_the_complete_record_of_its_interval(
    logs: list[list[Line]], how: str, right: bool, seed: int
) -> None:
    """Messages are lost, repeated and exchanged, and intervals close meanwhile."""
    rng = random.Random(seed)
    lines = sealing(logs, how, right, rng)
    text = TEXT.format(how, "")
    members = [Member(name, text) for name in lines]
    master, post = Master(members), list[tuple[Member, int, int, bytes]]()
    for index in range(12):
        for one in members:
            mine = [each for each in lines[one.id.decode().strip()] if each.ts // WIDTH == index]
            while mine:
                count = rng.randrange(1, len(mine) + 1)
                one.read(*mine[:count])
                mine = mine[count:]
                post += one.take(master.closed)
        rng.shuffle(post)
        for message in post:
            for _ in range(rng.choice([0, 1, 1, 2])):
                if message[2] >= master.closed:
                    master.merge(*message)
        while master.closed < index - 1:
            master.close(master.closed)
    for index in range(master.closed, 14):
        master.close(index)
    for index, rows in master.early.items():
        assert len(set(rows)) == len(rows)
        assert master.records[index].completeness < 1 or set(rows) <= set(master.records[index].rows)


@pytest.mark.parametrize("how", ["ALL", "n"])
def test_all_rows_are_early_if_all_messages_arrive(how: str) -> None:
    rng = random.Random(5)
    logs = [[at(rng.uniform(0, 3), rng.choice("abc"), v=rng.randrange(2)) for _ in range(9)] for _ in "pq"]
    lines = sealing(logs, "ALL", True, rng)
    members = [Member(name, TEXT.format(how, "")) for name in lines]
    master = Master(members)
    for one in members:
        one.read(*lines[one.id.decode().strip()])
        for message in one.take():
            master.merge(*message)
    for index in range(6):
        master.close(index)
    wanted = oracle(lines, how=how, after=5 * WIDTH, counted=True)
    assert {index: sorted(rows) for index, rows in master.early.items()} == {
        index: each.rows for index, each in wanted.items() if each.rows
    }
