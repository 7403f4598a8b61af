from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.closing.early_lines import EarlyLines
from elfmesh.control.closing.open_groups import OpenGroups
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.master.early import WAITING_MAX, WINDOWS_MAX, EarlyRows
from elfmesh.control.protocol.events import EarlyMerged, MemberStates, MergeEarly
from elfmesh.control.protocol.messages_early import PAYLOAD_BYTES_MAX, Early
from elfmesh.machine import Contact
from tests.control.master.stub_term import StubTerm, entry, other
from tests.control.register.support import TERMS

TEXT = "CREATE JOB a.b EVERY '5 s' EARLY '1 s' AS SELECT k, count(*) AS n FROM log GROUP BY k"
MANIFEST = new_manifest(read_job(TEXT)[0], TEXT, "local", created=1, incarnation="i")


@dataclass
class Closer:
    """What early rows need of the interval closer."""

    next: int = 5
    closed: int = 5
    errors: deque[str] = field(default_factory=deque)


class Rig:
    """Early rows of a job of two members; the first undecided interval is 5."""

    def __init__(self, manifest: Manifest = MANIFEST) -> None:
        term: Any = StubTerm(began=replace(TERMS, manifest=manifest))
        term.closer, term.epoch = Closer(), 1
        self.term, self.context = term, term.context
        tentative = Tentative(self.context, 1, lambda: None, lambda: None)
        self.lines = EarlyLines(term.plan, 1, tentative, lambda: None)
        self.early = EarlyRows(term, self.lines)

    def take(self, sender: Contact | None = None, payload: bytes = b"states", **changes: Any) -> bool:
        """Whether a message of member 0 reaches the thread."""
        before = len(self.context.out)
        message = Early(MANIFEST.job_id, "i", 1, MANIFEST.version, 0, 1, 1, 5)
        self.early.on_early(sender or other(10), replace(message, **changes), payload)
        return any(isinstance(each, MergeEarly) for each in self.context.out[before:])

    def merged(self, interval: int = 5, **found: Any) -> None:
        self.early.merged(EarlyMerged(MANIFEST.job_id, 1, interval, **found))


def test_a_members_states_go_to_the_thread_under_its_id() -> None:
    rig = Rig()
    assert rig.take(seq=4, boot=3)
    (effect,) = [each for each in rig.context.out if isinstance(each, MergeEarly)]
    assert (effect.states, effect.below) == ((MemberStates(other(10).id, 3, 4, b"states"),), 5)


def test_states_that_arrive_while_a_thread_merges_are_merged_together() -> None:
    rig = Rig()
    assert rig.take(seq=1)
    assert not any(rig.take(seq=number, interval=interval) for number, interval in ((2, 5), (3, 6), (4, 5)))
    rig.merged()
    assert [(each.interval, [one.number for one in each.states]) for each in merges(rig)[1:]] == [
        (5, [2, 4]),
        (6, [3]),
    ]
    rig.merged()
    assert len(merges(rig)) == 3, "nothing has arrived since"


@pytest.mark.parametrize(
    ("changes", "counter"),
    [
        ({"number": 1}, "control.misplaced"),  # the number of another member
        ({"number": 77}, "control.misplaced"),
        ({"interval": 4}, "control.early_out"),
        ({"incarnation": "other"}, "control.early_out"),
        ({"version": 9}, "control.early_out"),
        ({"payload": b"x" * (PAYLOAD_BYTES_MAX + 1)}, "control.malformed"),
    ],
)
def test_other_states_are_counted_and_dropped(changes: dict[str, Any], counter: str) -> None:
    rig = Rig()
    assert not rig.take(**changes)
    assert rig.context.stats[counter] == 1


def test_a_member_counts_only_in_the_intervals_that_expect_it() -> None:
    rig = Rig()
    rig.term.book._entries[0] = entry(0, start=6, until=8)
    for interval in (5, 6, 7, 8):
        rig.take(interval=interval)
    rig.merged()
    assert [each.interval for each in merges(rig)] == [6, 7]


def rig_of_sealed() -> Rig:
    """A job with SEALED, whose intervals up to 4 are closed and have left groups open."""
    text = (
        "CREATE JOB a.b EVERY '5 s' EARLY '1 s' AS SELECT k, count(*) AS n FROM log "
        "GROUP BY SEALED(k WHEN e = 'end' PRODUCERS ONE RECORDS total AFTER '1 h')"
    )
    rig = Rig(replace(MANIFEST, text=text))
    stages = rig.term.terms.stages
    rig.term.open_groups = OpenGroups(stages)
    rig.term.open_groups._data, rig.term.open_groups._start_us = b"open", 4 * 5_000_000
    return rig


def merges(rig: Rig) -> list[MergeEarly]:
    return [each for each in rig.context.out if isinstance(each, MergeEarly)]


def test_states_of_sealed_go_with_the_groups_that_closed_intervals_have_left_open() -> None:
    rig = rig_of_sealed()
    assert rig.take()
    rig.merged()
    assert rig.take(interval=7)
    first, second = merges(rig)
    for each in (first, second):
        assert (each.open, each.below, each.members) == (b"open", 5, rig.term.book.ids(3))
        assert each.is_settled


def test_an_interval_that_is_closing_and_already_in_the_open_groups_does_not_count_again() -> None:
    rig = rig_of_sealed()
    rig.term.closer.next, rig.term.closer.closed = 6, 4
    assert rig.take(interval=6)
    (effect,) = merges(rig)
    assert (effect.below, effect.is_settled) == (5, False), "the register may close another record"


def test_other_open_groups_are_examined_while_there_are_states() -> None:
    rig = rig_of_sealed()
    rig.early.groups_changed()
    assert merges(rig) == []
    rig.take(interval=7)
    rig.early.groups_changed()
    assert len(merges(rig)) == 1, "no interval was closed since"
    rig.term.closer.closed = rig.term.closer.next = 6
    rig.early.groups_changed()
    assert [(each.interval, len(each.states)) for each in merges(rig)] == [(7, 1), (7, 0)]
    rig.term.closer.closed = rig.term.closer.next = 8
    rig.early.groups_changed()
    assert len(merges(rig)) == 2, "its window is closed"


def test_rows_of_several_intervals_are_lines_of_each() -> None:
    rig = Rig()
    rig.take()
    job, inside = MANIFEST.job_id, (other(10).id,)
    others = tuple(EarlyMerged(job, 1, interval, b"rows", 2, inside) for interval in (6, 8))
    rig.merged(others=others)
    assert [record.index for _, record, _ in rig.lines.since(0)] == [6, 8]
    assert rig.early._merging == 0


def test_windows_of_the_future_keep_out_no_open_window() -> None:
    rig = Rig()
    for far in range(WINDOWS_MAX + 20):
        if rig.take(interval=1000 + far):
            rig.merged()
    assert rig.take(interval=6)
    assert not rig.take(interval=999_999)


def test_messages_do_not_pile_up() -> None:
    rig = Rig()
    for number in range(WAITING_MAX + 4):
        rig.take(seq=number)
    assert rig.context.stats["control.early_dropped"] == 3
    rig.merged()
    assert [len(each.states) for each in merges(rig)] == [1, WAITING_MAX]


def test_rows_become_a_line_that_names_the_agents_it_counts() -> None:
    rig = Rig()
    rig.take()
    rig.merged(rows=b"rows", count=2, members=(other(11).id, other(10).id))
    ((_, record, rows),) = rig.lines.since(0)
    assert (record.state, record.index, record.rev, rows) == ("EARLY", 5, 1, b"rows")
    assert (record.counted, record.agents_in, record.agents_expected) == (["m0", "m1"], 2, 2)
    assert record.growing == ["n"]


def test_rows_of_a_decided_interval_are_dropped() -> None:
    rig = Rig()
    rig.take()
    rig.term.closer.next = 6
    rig.merged(rows=b"rows", count=2, members=(other(10).id,))
    assert list(rig.lines.since(0)) == []


def test_groups_without_room_and_faults_are_reported() -> None:
    rig = Rig()
    rig.take(skipped=7)
    rig.merged(skipped=3, error="broken")
    assert rig.context.stats["control.early_skipped"] == 10
    assert rig.early.skipped == 7
    assert list(rig.term.closer.errors) == ["early rows of interval 5: broken"]
