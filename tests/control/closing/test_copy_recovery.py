"""Contributions of dead members, fetched from the peers that keep them: when they are asked, what counts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from elfmesh.control.closing.copy_recovery import (
    ANSWER_S,
    ASK_MAX_S,
    ASK_S,
    FAILURES_MAX,
    GATHER_S,
    CopyRecovery,
    is_sound,
)
from elfmesh.control.context import NOT_ROOT_S
from elfmesh.control.jobs.records import COUNTS_MAX
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.protocol.messages import unpack
from elfmesh.control.protocol.messages_safety import Keep, Surrender
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import Publish, PublishDone
from elfmesh.srt.messages import SegmentEntry
from tests.control.closing.rig import COUNTED, START, ClosingRig
from tests.control.member.support import TEXT

WITH_COPIES = TEXT.replace("DEADLINE", "REPLICAS 1 DEADLINE")
IN_TWO_TREES = TEXT.replace("DEADLINE", "PARTITIONS 2 REPLICAS 1 DEADLINE")
PAST = float("-inf")


class Rig(ClosingRig):
    """A job of three members; the agent is the root of its tree."""

    def __init__(self, text: str = WITH_COPIES, *, is_root: bool = True) -> None:
        super().__init__(text, members=3)
        if is_root:
            self.context.roots[self.manifest.job_id] = None

    @property
    def recovery(self) -> CopyRecovery:
        return self.collection.recovery

    def asked_for(self) -> list[Surrender]:
        """What was multicast since the last call, without causes; the multicasts have reached the peers."""
        sent = [effect for effect in self.context.out if isinstance(effect, Publish)]
        found = [unpack(effect.body) for effect in sent]
        self.context.out = [effect for effect in self.context.out if not isinstance(effect, Publish)]
        for effect in sent:
            self.context.answer(effect.token, PublishDone(effect.tree, 1, (), 3, effect.token))
        return [replace(message, cause=UNSET) for message in found if isinstance(message, Surrender)]

    def copy(self, number: int = 1, start: int = START, stop: int = START + 2, **other: object) -> Keep:
        member = self.book.entries[number].contact.id
        entry = SegmentEntry(max(start, START), COUNTED, 1)
        parts = ((entry,),) * len(self.collection.trees)
        made = Keep(self.manifest.job_id, "i", member, number, start, stop, parts)
        return replace(made, **other)

    def take(self, copy: Keep, first: int = START) -> int | None:
        payload = b"x" * sum(entry.size for part in copy.parts for entry in part)
        return self.recovery.take(copy, payload, first, self.collection.trees)

    def inside(self, interval: int = START) -> list[int]:
        return [tree.covered(interval) for tree in self.collection.trees]


def test_the_peers_of_a_dead_member_are_asked_once_the_others_are_gathered() -> None:
    rig = Rig()
    rig.kill(1)
    assert rig.recovery.ask(0b010, START) == GATHER_S + ANSWER_S
    rig.kill(2)
    rig.recovery.ask(0b110, START + 1)
    assert rig.asked_for() == []
    rig.wait(GATHER_S)
    about = (rig.manifest.job_id, "i", rig.context.me, 3)
    assert rig.asked_for() == [Surrender(*about, 1, START + 1, bitmap_of(0b110))]


def test_the_peers_of_a_lost_member_are_asked_before_a_probe_finds_it_dead_and_not_again_then() -> None:
    rig = Rig()
    rig.context.lost(rig.book.entries[1].contact.id)
    before = rig.decisions
    rig.collection.straggler_policy.lost_sight(rig.book.entries[1].contact.id)
    assert rig.decisions > before, "the master looks at once, and not when the probe has ended"
    assert rig.recovery.ask(0b010, START) == GATHER_S + ANSWER_S
    rig.wait(GATHER_S)
    assert [each.number for each in rig.asked_for()] == [1]
    assert rig.answer_probes(1) == [1]
    rig.recovery.ask(0b010, START)
    rig.wait(2 * GATHER_S)
    assert rig.asked_for() == []


def test_a_question_about_one_member_has_no_bitmap() -> None:
    rig = Rig()
    rig.kill(1)
    rig.recovery.ask(0b010, START)
    rig.wait(GATHER_S)
    assert [(each.number, each.start, each.members) for each in rig.asked_for()] == [(1, START, b"")]


@pytest.mark.parametrize(
    ("text", "overdue", "asks"),
    [
        (WITH_COPIES, False, False),
        (WITH_COPIES, True, True),
        (TEXT, True, False),
    ],
)
def test_the_copies_of_a_living_member_are_asked_for_after_the_deadline_alone(
    text: str, overdue: bool, asks: bool
) -> None:
    rig = Rig(text)
    assert (rig.recovery.ask(0b010, START, overdue=overdue) > PAST) is asks
    rig.wait(GATHER_S)
    assert len(rig.asked_for()) == asks


def test_the_copies_of_a_member_that_has_left_at_once_are_asked_for_without_delay_in_any_job() -> None:
    rig = Rig(TEXT)
    rig.book.evict(1, START + 2, ahead=True)
    assert rig.recovery.ask(0b110, START) > PAST
    rig.wait(GATHER_S)
    assert [each.number for each in rig.asked_for()] == [1]


def test_a_question_is_repeated_after_pauses_that_double() -> None:
    rig = Rig()
    rig.kill(1)
    asked_at = []
    for step in range(1, 1500):
        rig.wait(step * 0.1)
        rig.recovery.ask(0b010, START)
        rig.wait(step * 0.1 + GATHER_S)
        if rig.asked_for():
            asked_at.append(step * 0.1)
    pauses = [later - earlier for earlier, later in pairwise(asked_at)]
    expected = [min(2.0**power * ASK_S, ASK_MAX_S) for power in range(len(pauses))]
    assert pauses == pytest.approx(expected, abs=0.11)
    assert len(pauses) >= 7


def test_another_interval_begins_the_pauses_again_and_a_revived_member_is_asked_for_no_more() -> None:
    rig = Rig()
    rig.kill(1)
    for at in (0.0, 10.0, 20.0):
        rig.wait(at)
        rig.recovery.ask(0b010, START)
        rig.wait(at + GATHER_S)
    rig.asked_for()
    rig.wait(20.0 + ASK_S)
    rig.recovery.ask(0b010, START + 1)
    rig.wait(21.0)
    assert [each.start for each in rig.asked_for()] == [START + 1]
    rig.collection.straggler_policy.revive(1)
    assert rig.recovery.ask(0b010, START + 1) == PAST


def test_a_copy_that_is_news_gives_the_peers_their_time_again() -> None:
    rig = Rig()
    rig.kill(1)
    rig.recovery.ask(0b010, START)
    rig.wait(0.9)
    assert rig.take(rig.copy()) == START + 2
    assert rig.recovery.ask(0b010, START) == pytest.approx(0.9 + ANSWER_S)
    rig.wait(1.5)
    assert rig.take(rig.copy()) == START + 2
    assert rig.recovery.ask(0b010, START) == pytest.approx(0.9 + ANSWER_S), "it is here already"


def test_a_question_that_could_not_be_asked_is_waited_for_only_so_often() -> None:
    rig = Rig(is_root=False)
    rig.kill(1)
    ready = rig.recovery.ask(0b010, START)
    for number in range(FAILURES_MAX + 2):
        rig.wait(rig.context.now + ASK_S)
        rig.wait(rig.context.now + GATHER_S + NOT_ROOT_S + ASK_S)
        later = rig.recovery.ask(0b010, START)
        assert (later > ready) == (number < FAILURES_MAX)
        ready = later


@pytest.mark.parametrize(
    ("start", "stop", "first", "until"),
    [
        (START, START + 2, START, START + 2),
        (START - 5, START + 2, START, START + 2),
        (START, START + 2, START + 1, START + 2),
        (START, START + 2, START + 2, None),
        (START - 2, START, START, None),
    ],
)
def test_a_copy_counts_from_the_first_open_interval_on(
    start: int, stop: int, first: int, until: int | None
) -> None:
    rig = Rig()
    assert rig.take(rig.copy(start=start, stop=stop), first) == until
    assert rig.inside(START + 1) == [0b010 if until else 0]


@pytest.mark.parametrize(
    ("begins", "ends", "counts"),
    [
        (START, None, [True, True]),
        (START + 1, None, [False, True]),
        (START, START + 1, [True, False]),
        (START + 2, None, [False, False]),
        (START, START, [False, False]),
    ],
)
def test_a_copy_counts_where_its_member_is_expected(
    begins: int, ends: int | None, counts: list[bool]
) -> None:
    rig = Rig()
    copy = rig.copy()
    old = rig.book.entries[1]
    rig.book._entries[1] = RosterEntry(1, old.contact, old.name, begins, ends)
    rig.take(copy)
    assert [bool(rig.inside(START + at)[0]) for at in range(2)] == counts


def test_a_copy_of_another_agent_under_the_number_is_refused() -> None:
    rig = Rig()
    assert rig.take(rig.copy(member=b"o" * 20)) is None
    assert rig.take(replace(rig.copy(), number=9)) is None
    assert (rig.context.stats["control.misplaced"], rig.inside()) == (2, [0])


def test_a_copy_for_another_number_of_trees_is_refused() -> None:
    rig = Rig(IN_TWO_TREES)
    copy = rig.copy()
    assert rig.take(replace(copy, parts=copy.parts[:1])) is None
    assert rig.context.stats["control.malformed"] == 1
    assert rig.take(copy) == START + 2
    assert rig.inside() == [0b010, 0b010]


def test_a_copy_that_another_version_has_evaluated_counts_for_no_member() -> None:
    rig = Rig()
    assert rig.take(rig.copy(evaluated=2)) is None
    assert rig.inside() == [0]


def test_a_copy_counts_in_every_collection_of_its_interval() -> None:
    rig = Rig()
    rig.contribute(0b001, b"a")
    rig.contribute(0b001, b"a", attempt=1)
    rig.take(rig.copy())
    assert rig.collection.trees[0].everywhere(START) == 0b011


@pytest.mark.parametrize(
    ("entries", "size", "sound"),
    [
        ([(START, 2)], 2, True),
        ([(START, 2)], 3, False),
        ([(START, 1), (START + 1, 1)], 2, True),
        ([(START + 1, 1), (START, 1)], 2, False),
        ([(START, 1), (START, 1)], 2, False),
        ([(START - 1, 1)], 1, False),
        ([(START + 2, 1)], 1, False),
        ([], 0, True),
    ],
)
def test_a_sound_copy_agrees_with_its_payload_and_its_range(
    entries: list[tuple[int, int]], size: int, sound: bool
) -> None:
    parts = (tuple(SegmentEntry(interval, COUNTED, nbytes) for interval, nbytes in entries),)
    assert is_sound(Rig().copy(parts=parts), b"x" * size) is sound


@pytest.mark.parametrize("more", [0, 1])
def test_a_copy_with_more_buckets_than_there_are_is_not_sound(more: int) -> None:
    entry = SegmentEntry(START, (1,) * (COUNTS_MAX + more), 0)
    assert is_sound(Rig().copy(parts=((entry,),)), b"") is not bool(more)
