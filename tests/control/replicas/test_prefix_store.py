"""Prefixes of missing members at the master."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import RosterEntry, Stage
from elfmesh.control.protocol.messages_standby import Delta, PaneDelta, Prefix
from elfmesh.control.replicas import prefix_store as under_test
from elfmesh.control.replicas.prefix_store import Included, PrefixStore
from tests.control.closing.rig import manifest_of
from tests.control.contexts import new_context

TEXT = "CREATE JOB a.b AS SELECT k, count(*) AS n FROM log GROUP BY {}, k"
TUMBLE, HOP = "TUMBLE(ts, INTERVAL '10' SECOND)", "HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND)"


class Rig:
    def __init__(self, window: str = TUMBLE) -> None:
        self.context = new_context(1)
        manifest = manifest_of(TEXT.format(window))
        self.job = manifest.job_id
        members = tuple(RosterEntry(number, new_context(2 + number).me, f"m{number}") for number in range(3))
        self.members = members
        self.store = PrefixStore(self.context, (Stage(-(2**62), manifest, 1),), RosterBook(members))

    def delta(
        self, seq: int, *panes: int, member: int = 0, chain: int = 1, version: int = 1, first: int = 0
    ) -> Delta:
        found = tuple(PaneDelta(version, pane, 2, 1, 1) for pane in panes)
        until_us = max(panes, default=0) * 10_000_000 + 1
        return Delta(self.job, "i", self.members[member].contact.id, 1, chain, seq, first, until_us, found)

    def take(self, *deltas: Delta) -> int:
        payload = b"x" * sum(len(each.panes) for each in deltas)
        return self.store.take(Prefix(3, self.job, deltas), payload)

    def records(self, interval: int, members: int = 0b111) -> dict[int, tuple[int, int]]:
        return {
            each.number: (each.contributed, each.filtered) for each in self.store.included(interval, members)
        }


def test_a_prefix_is_the_sum_of_the_deltas_of_its_windows_panes() -> None:
    rig = Rig()
    assert rig.take(rig.delta(0, 7), rig.delta(1, 7, 8)) == 0b1
    assert rig.records(7) == {0: (4, 2)}
    assert rig.store.included(8, 0b1) == [Included(0, 2, 1, 80_000_001, (b"x",))]
    assert (rig.records(9), rig.records(7, members=0b10)) == ({}, {})


def test_a_pane_is_in_every_window_that_contains_it() -> None:
    rig = Rig(HOP)
    rig.take(rig.delta(0, 7))
    assert [sorted(rig.records(interval)) for interval in (4, 5, 6, 7, 8)] == [[], [0], [0], [0], []]
    assert rig.store.first(0, 20, 0b1) == 5
    assert rig.store.first(6, 20, 0b1) == 6
    assert (rig.store.first(8, 20, 0b1), rig.store.first(0, 20, 0b10)) == (None, None)


def test_a_window_has_only_what_was_read_before_its_member_sealed_it() -> None:
    rig = Rig(HOP)
    rig.take(rig.delta(0, 6, 7), rig.delta(1, 7, 8, first=7))
    assert rig.records(6) == {0: (4, 2)}, "nothing of the second delta"
    assert rig.store.included(6, 1)[0].until_us == 70_000_001
    assert rig.records(7) == {0: (6, 3)}
    rig = Rig(HOP)
    rig.take(rig.delta(0, 7, 8, first=7))
    assert (rig.records(6), rig.store.first(0, 20, 1)) == ({}, 7)


def test_deltas_count_once_and_as_far_as_they_follow_each_other() -> None:
    rig = Rig()
    rig.take(rig.delta(0, 7), rig.delta(2, 7))
    assert rig.take(rig.delta(0, 7)) == 0
    assert rig.records(7) == {0: (2, 1)}
    rig.take(rig.delta(1, 7), rig.delta(2, 7))
    assert rig.records(7) == {0: (6, 3)}


def test_of_several_chains_the_one_with_the_most_records_counts() -> None:
    rig = Rig()
    rig.take(rig.delta(0, 7), rig.delta(1, 7))
    rig.take(rig.delta(0, 7, 8, chain=2))
    assert (rig.records(7), rig.records(8)) == ({0: (4, 2)}, {0: (2, 1)})


def test_deltas_of_another_version_do_not_count() -> None:
    rig = Rig()
    rig.take(rig.delta(0, 7, version=2))
    assert rig.records(7) == {}


def test_false_prefixes_are_refused_and_counted() -> None:
    rig = Rig()
    assert rig.store.take(Prefix(3, rig.job, (rig.delta(0, 7),)), b"xx") == 0
    twice = replace(rig.delta(0, 7), panes=2 * rig.delta(0, 7).panes)
    assert rig.store.take(Prefix(3, rig.job, (twice,)), b"xx") == 0
    assert rig.context.stats["control.malformed"] == 2
    stranger = replace(rig.delta(0, 7), member=new_context(9).me.id)
    assert rig.take(stranger, replace(rig.delta(0, 7), incarnation="j")) == 0
    assert (rig.context.stats["control.misplaced"], rig.records(7)) == (2, {})


def test_what_cannot_be_merged_is_refused_for_good() -> None:
    rig = Rig()
    rig.take(rig.delta(0, 7))
    rig.take(rig.delta(0, 8, member=1))
    rig.store.refuse(7)
    assert rig.take(rig.delta(0, 7), rig.delta(1, 7)) == 0
    assert (rig.records(7), rig.records(8)) == ({}, {1: (2, 1)})
    assert rig.context.stats["control.prefix_refused"] == 1


def test_chains_of_closed_windows_are_dropped_and_room_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.take(rig.delta(0, 7), rig.delta(1, 8))
    rig.store.drop_below(8)
    assert rig.records(8) == {0: (2, 1)}
    rig.store.drop_below(9)
    assert (rig.records(8), rig.store.nbytes) == ({}, 0)
    monkeypatch.setattr(under_test, "HELD_BYTES_MAX", 1)
    assert (rig.take(rig.delta(0, 9)), rig.context.stats["control.prefix_no_room"]) == (0, 1)


@pytest.mark.parametrize(("missing", "inside", "counts"), [(0b110, 0, 0b110), (0b110, 0b10, 0b100)])
def test_only_members_of_which_no_tree_has_anything_are_eligible(
    missing: int, inside: int, counts: int
) -> None:
    assert PrefixStore.eligible(0b111, missing, inside) == counts
