"""The root of a tree passes what it collects on to its consumers, and holds it until it is closed."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.member import roots as under_test
from elfmesh.control.member.roots import AGAIN_S, BULK_LANE, HELD_BYTES_MAX, HELD_PARTS_MAX, Roots
from elfmesh.control.protocol.messages_parts import Part, PartAck, PartFault, PartRoot, TreeOrder
from elfmesh.machine import Contact, Effect, Send
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import Collected, Hasten, PartsDropped, Recollect, Release
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context
from tests.control.register.support import JOB, STRANGER, A, B, run

PARTITION = 2
TREE = ids.partition_tree(JOB, PARTITION)
JITTER = 1.25
CLOSED = -40


def segment(start: int, epoch: int = 1, attempt: int = 0, size: int = 1) -> Segment:
    return Segment(epoch, attempt, start, start + 1, bitmap_of(1), (SegmentEntry(start, (1,), size),))


class Rig:
    """The root of one of a job's trees. The master A leads the job in epoch 1."""

    def __init__(self, *, with_master: bool = True) -> None:
        self.context = new_context(1)
        self.context.roots[TREE] = None
        self.roots = Roots(self.context)
        if with_master:
            self.lead(A, 1)

    def lead(
        self, master: Contact, epoch: int, roster_epoch: int | None = None, closed: int = CLOSED
    ) -> list[Effect]:
        stated = msgspec.UNSET if roster_epoch is None else roster_epoch
        self.roots.on_part_root(PartRoot(JOB, PARTITION, master, epoch, closed, stated))
        return self.out()

    def collect(self, start: int, *, epoch: int = 1, attempt: int = 0, payload: bytes = b"x") -> list[Effect]:
        self.roots.collected(Collected(TREE, segment(start, epoch, attempt, len(payload)), (payload,)))
        return self.out()

    def out(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out

    def wait(self, until: float) -> list[int]:
        """The numbers of the parts that are sent until then."""
        run(self.context, until)
        sent = [effect.message for effect in self.out() if isinstance(effect, Send)]
        return [message.seq for message in sent if isinstance(message, Part)]

    def acknowledge(self, *seqs: int, by: Contact = A) -> list[Effect]:
        for seq in seqs:
            self.roots.on_part_ack(by, PartAck(JOB, PARTITION, seq))
        return self.out()


def part(seq: int, start: int, to: Contact = A, epoch: int = 1) -> Send:
    return Send(to, Part(JOB, PARTITION, seq, segment(start, epoch)), b"x", BULK_LANE)


def test_a_root_sends_what_it_collects_to_the_master() -> None:
    rig = Rig()
    assert rig.collect(7) == [part(1, 7)]
    assert rig.collect(8) == [part(2, 8)]


def test_the_root_of_a_groups_tree_names_the_tree_and_obeys_orders_for_it() -> None:
    rig, tree = Rig(), b"g" * 20
    rig.context.roots[tree] = None
    rig.roots.on_part_root(PartRoot(JOB, PARTITION, A, 1, CLOSED, tree=tree))
    assert rig.out() == [Release(tree, CLOSED, 1)]
    rig.roots.collected(Collected(tree, segment(7), (b"x",)))
    sent = Send(A, Part(JOB, PARTITION, 1, segment(7), tree), b"x", BULK_LANE)
    assert rig.out() == [sent]
    rig.acknowledge(1)
    assert rig.wait(JITTER * AGAIN_S) == [1], "that was the part of the partition's own tree"
    rig.roots.on_part_ack(A, PartAck(JOB, PARTITION, 1, tree))
    assert rig.wait(100.0) == []
    rig.roots.on_tree_order(TreeOrder(JOB, PARTITION, 1, 3, 9, 2, True, tree=tree))
    assert rig.out() == [Recollect(tree, 3, 9, 2, 1)]


def test_a_root_joins_the_payloads_of_a_segment() -> None:
    rig = Rig()
    rig.roots.collected(Collected(TREE, segment(7, size=4), (b"ab", b"", b"cd")))
    (effect,) = rig.out()
    assert isinstance(effect, Send)
    assert effect.payload == b"abcd"


def test_a_root_sends_a_part_again_until_the_master_has_it() -> None:
    rig = Rig()
    rig.collect(7)
    rig.collect(8)
    assert rig.wait(AGAIN_S - 0.01) == []
    assert rig.wait(JITTER * AGAIN_S) == [1, 2]
    rig.acknowledge(1, 1)
    assert rig.wait(2 * JITTER * AGAIN_S) == [2]
    rig.acknowledge(2)
    assert rig.wait(100.0) == []
    assert rig.context.deadline is None


def test_a_root_repeats_few_parts_at_a_time_and_the_oldest_of_them() -> None:
    rig = Rig()
    for start in range(40):
        rig.collect(start)
    assert rig.wait(JITTER * AGAIN_S) == list(range(1, 17))


def test_a_root_that_knows_no_master_waits_for_one() -> None:
    rig = Rig(with_master=False)
    assert rig.collect(7) == []
    assert rig.wait(5.0) == []
    assert rig.lead(A, 1) == [part(1, 7), Release(TREE, CLOSED, 1)]


def test_a_master_of_an_earlier_epoch_is_refused() -> None:
    rig = Rig()
    rig.lead(B, 2)
    assert rig.lead(A, 1) == []
    assert rig.context.stats["control.fenced"] == 1
    assert rig.collect(7, epoch=2) == [part(1, 7, B, 2)]


def test_a_master_that_speaks_again_only_has_closed_intervals_released() -> None:
    rig = Rig()
    rig.collect(7)
    assert rig.lead(A, 1) == [Release(TREE, CLOSED, 1)]
    assert rig.lead(B, 1) == [Release(TREE, CLOSED, 1)], "an epoch has one master"
    assert rig.collect(8) == [part(2, 8)]


def test_a_new_master_gets_the_parts_of_its_epoch_and_the_older_ones_are_dropped() -> None:
    rig = Rig()
    rig.collect(7)
    rig.collect(8, epoch=2)
    assert rig.lead(B, 2) == [part(2, 8, B, 2), Release(TREE, CLOSED, 2)]
    rig.acknowledge(2, by=B)
    assert rig.wait(100.0) == []


def test_a_new_master_of_the_same_roster_epoch_gets_everything_that_is_not_closed() -> None:
    rig = Rig()
    for start in (7, 8, 9):
        rig.collect(start)
    rig.acknowledge(1, 2)
    assert rig.lead(A, 1, closed=8) == [Release(TREE, 8, 1)]
    assert rig.lead(B, 2, 1, closed=8) == [part(2, 8, B), part(3, 9, B), Release(TREE, 8, 1)]
    assert rig.wait(JITTER * AGAIN_S) == [2, 3]
    rig.acknowledge(2, 3, by=B)
    assert rig.wait(100.0) == []


def test_a_part_that_the_master_before_has_acknowledged_reaches_the_master_that_it_is_for() -> None:
    """A master acknowledges a part before its fence refuses it."""
    rig = Rig()
    rig.collect(7, epoch=2)
    rig.acknowledge(1)
    assert rig.lead(B, 2) == [part(1, 7, B, 2), Release(TREE, CLOSED, 2)]


def test_each_consumer_gets_each_part_until_it_has_it_whatever_the_others_have() -> None:
    rig = Rig()
    rig.collect(7)
    rig.acknowledge(1)
    rig.roots.serve(TREE, (A, B))
    assert rig.out() == [part(1, 7, B)], "a consumer that comes later gets what the others have"
    assert rig.collect(8) == [part(2, 8), part(2, 8, B)]
    rig.acknowledge(1, 2, by=B)
    rig.acknowledge(2, by=STRANGER)
    assert rig.wait(JITTER * AGAIN_S) == [2], "A lacks it"
    rig.acknowledge(2)
    assert rig.wait(100.0) == []
    rig.roots.serve(TREE, (B,))
    assert rig.out() == []
    assert rig.collect(9) == [part(3, 9, B)]


def test_closed_parts_are_dropped_though_a_consumer_lacks_them() -> None:
    rig = Rig()
    for start in (7, 8):
        rig.collect(start)
    rig.lead(A, 1, closed=8)
    assert rig.wait(JITTER * AGAIN_S) == [2]
    rig.lead(A, 1, closed=7)
    rig.roots.serve(TREE, (B,))
    assert rig.out() == [part(2, 8, B)]


def test_without_room_the_oldest_parts_that_no_consumer_lacks_are_dropped() -> None:
    rig = Rig()
    for start in range(HELD_PARTS_MAX):
        rig.collect(start)
    rig.acknowledge(2, 3)
    assert rig.collect(HELD_PARTS_MAX) == [part(HELD_PARTS_MAX + 1, HELD_PARTS_MAX)]
    rig.roots.serve(TREE, (B,))
    sent = [effect.message for effect in rig.out() if isinstance(effect, Send)]
    assert [message.seq for message in sent[:3] if isinstance(message, Part)] == [1, 3, 4]
    assert rig.context.stats["control.parts_dropped"] == 0


def test_the_root_of_a_jobs_own_tree_follows_its_master() -> None:
    rig = Rig(with_master=False)
    rig.context.roots[JOB] = None
    for master, epoch in ((A, 1), (B, 1)):
        rig.roots.follow(JOB, master, epoch, epoch)
    rig.roots.collected(Collected(JOB, segment(7), (b"x",)))
    assert rig.out() == [Send(A, Part(JOB, 0, 1, segment(7)), b"x", BULK_LANE)]
    rig.roots.collected(Collected(JOB, segment(8, epoch=3), (b"x",)))
    rig.out()
    rig.roots.follow(JOB, B, 3, 3)
    assert rig.out() == [Send(B, Part(JOB, 0, 2, segment(8, epoch=3)), b"x", BULK_LANE)]


@pytest.mark.parametrize("attempts", [(0, 0), (3, 1), (1, 3)])
def test_what_had_to_be_dropped_is_collected_again_once_the_rest_has_arrived(
    attempts: tuple[int, int],
) -> None:
    rig = Rig()
    for start in range(HELD_PARTS_MAX):
        rig.collect(start)
    for start, attempt in zip((HELD_PARTS_MAX + 3, HELD_PARTS_MAX + 1), attempts, strict=True):
        assert rig.collect(start, attempt=attempt) == []
    assert rig.context.stats["control.parts_dropped"] == 2
    assert rig.acknowledge(*range(1, HELD_PARTS_MAX)) == []
    again = Recollect(TREE, HELD_PARTS_MAX + 1, HELD_PARTS_MAX + 4, max(attempts) + 1, 1)
    assert rig.acknowledge(HELD_PARTS_MAX) == [again]
    assert rig.acknowledge(HELD_PARTS_MAX) == [], "once"


@pytest.mark.parametrize("more", [0, 1])
def test_a_root_keeps_so_many_bytes(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "HELD_BYTES_MAX", 100)
    assert HELD_BYTES_MAX > 100
    rig = Rig()
    rig.collect(7, payload=b"x" * 60)
    assert len(rig.collect(8, payload=b"y" * (40 + more))) == 1 - more
    rig.acknowledge(1, 2)
    rig.out()
    assert len(rig.collect(9, payload=b"z" * 100)) == 1, "what the master has takes no room"


def test_what_was_dropped_in_an_earlier_epoch_is_not_collected_again() -> None:
    rig = Rig()
    for start in range(HELD_PARTS_MAX + 1):
        rig.collect(start)
    rig.lead(B, 2)
    rig.collect(0, epoch=2)
    assert rig.acknowledge(HELD_PARTS_MAX + 1, by=B) == []


def test_an_agent_that_is_not_the_root_any_more_collects_nothing_again() -> None:
    rig = Rig()
    del rig.context.roots[TREE]
    rig.roots.on_tree_order(TreeOrder(JOB, PARTITION, 1, 3, 9, 2, True))
    for start in range(HELD_PARTS_MAX + 1):
        rig.collect(start)
    assert rig.acknowledge(*range(1, HELD_PARTS_MAX + 1)) == []


def test_a_root_that_another_agent_has_replaced_forgets_what_is_on_its_way() -> None:
    rig = Rig()
    rig.collect(7)
    rig.roots.lost(TREE)
    assert rig.acknowledge(1) == []
    assert rig.wait(100.0) == [], "they were repeated for ever"
    rig.lead(A, 1)
    assert rig.collect(8) == [part(1, 8)]


@pytest.mark.parametrize(
    ("recollect", "order"), [(True, Recollect(TREE, 3, 9, 2, 1)), (False, Hasten(TREE, 9, 1))]
)
def test_a_root_carries_out_the_orders_of_the_master(recollect: bool, order: Effect) -> None:
    rig = Rig()
    rig.roots.on_tree_order(TreeOrder(JOB, PARTITION, 1, 3, 9, 2, recollect))
    assert rig.out() == [order]
    rig.lead(B, 2)
    rig.roots.on_tree_order(TreeOrder(JOB, PARTITION, 1, 3, 9, 2, recollect))
    rig.roots.on_tree_order(TreeOrder(JOB, PARTITION + 1, 2, 3, 9, 2, recollect))
    assert rig.out() == [], "of another epoch, and of a tree that this agent does not know"


def test_the_master_learns_whose_contributions_cannot_be_merged() -> None:
    rig = Rig()
    rig.roots.dropped(PartsDropped(TREE, 1, 3, 9, b"\x05", "it is torn"))
    assert rig.out() == [Send(A, PartFault(JOB, PARTITION, 1, 3, 9, b"\x05", "it is torn"))]
    rig = Rig(with_master=False)
    rig.roots.dropped(PartsDropped(TREE, 1, 3, 9, b"\x05", "it is torn"))
    assert rig.out() == []


def test_a_root_knows_the_trees_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "TREES_MAX", 2)
    rig = Rig()
    rig.roots.follow(b"1" * 20, B, 1, 1)
    assert rig.collect(7) == [part(1, 7)]
    rig.roots.follow(b"2" * 20, B, 1, 1)
    assert rig.collect(8) == [part(2, 8)]
    for number in (3, 4):
        rig.roots.follow(bytes([number]) * 20, B, 1, 1)
    assert rig.collect(9) == [], "its master is forgotten"
    assert rig.wait(100.0) == []


def claim(rig: Rig, *sites: Contact) -> list[Effect]:
    rig.roots.on_part_root(PartRoot(JOB, PARTITION, A, 1, CLOSED, sites=sites or msgspec.UNSET))
    return rig.out()


def test_the_sites_that_a_claim_names_get_all_parts_too() -> None:
    rig = Rig()
    rig.collect(7)
    rig.acknowledge(1)
    assert claim(rig, B) == [part(1, 7, B), Release(TREE, CLOSED, 1)]
    assert rig.collect(8) == [part(2, 8), part(2, 8, B)]
    rig.acknowledge(2)
    assert rig.wait(JITTER * AGAIN_S) == [1, 2], "the site lacks both"
    rig.acknowledge(1, 2, by=B)
    assert claim(rig, B) == [Release(TREE, CLOSED, 1)]
    claim(rig)
    assert rig.collect(9) == [part(3, 9)]


def test_a_site_that_is_gone_takes_no_room_and_holds_up_no_collection() -> None:
    rig = Rig()
    claim(rig, B)
    for start in range(HELD_PARTS_MAX):
        rig.collect(start)
    rig.acknowledge(1, 2)
    assert part(HELD_PARTS_MAX + 1, HELD_PARTS_MAX) in rig.collect(HELD_PARTS_MAX)
    assert rig.collect(HELD_PARTS_MAX + 1) != []
    assert rig.collect(HELD_PARTS_MAX + 2) == [], "the master lacks all others"
    again = Recollect(TREE, HELD_PARTS_MAX + 2, HELD_PARTS_MAX + 3, 1, 1)
    assert rig.acknowledge(*range(3, HELD_PARTS_MAX + 3)) == [again]


def test_a_consumer_that_a_rule_excludes_is_neither_sent_the_part_nor_waited_for() -> None:
    rig = Rig(with_master=False)
    inside, outside = replace(A, region="eu"), replace(B, region="us")
    ruled = replace(segment(3), keep_in=(("region=eu",),))
    about = (JOB, PARTITION, inside, 1, CLOSED, msgspec.UNSET, msgspec.UNSET)
    rig.roots.on_part_root(PartRoot(*about, (outside,)))
    rig.out()
    rig.roots.collected(Collected(TREE, ruled, (b"x",)))
    assert [each.to for each in rig.out() if isinstance(each, Send)] == [inside]
    rig.roots.on_part_ack(inside, PartAck(JOB, PARTITION, 1))
    assert rig.wait(5 * AGAIN_S) == []
    rig.roots.on_part_root(PartRoot(*about, (outside, replace(STRANGER, region="eu"))))
    assert [each.to.region for each in rig.out() if isinstance(each, Send)] == ["eu"]


def idle_claim(rig: Rig, *sites: Contact, closed: int = CLOSED) -> list[Effect]:
    """The claim of a master whose own path from this root is idle."""
    message = PartRoot(JOB, PARTITION, A, 1, closed, sites=sites or msgspec.UNSET, idle=True)
    rig.roots.on_part_root(message)
    return rig.out()


def test_a_root_holds_the_parts_of_an_idle_path_and_sends_all_of_them_when_it_is_live_again() -> None:
    """V-C: the state of a revived stream is what is open, so it costs one round trip and these bytes."""
    rig = Rig()
    rig.collect(6)
    rig.acknowledge(1)
    assert idle_claim(rig, B) == [part(1, 6, B), Release(TREE, CLOSED, 1)]
    assert rig.collect(7) == [part(2, 7, B)], "the other site has a live path"
    rig.acknowledge(1, 2, by=B)
    assert rig.wait(100.0) == [], "nothing waits for the master"
    assert idle_claim(rig) == [Release(TREE, CLOSED, 1)]
    assert rig.collect(8) == []
    assert rig.wait(200.0) == []
    assert rig.context.deadline is None
    revived = rig.lead(A, 1, closed=7)
    assert revived == [part(2, 7), part(3, 8), Release(TREE, 7, 1)]


def test_a_root_without_room_drops_the_oldest_idle_parts_and_collects_open_ones_on_revival() -> None:
    for closed, again in ((1, [Recollect(TREE, 0, 2, 1, 1)]), (2, [])):
        rig = Rig()
        idle_claim(rig)
        for start in range(HELD_PARTS_MAX + 2):
            assert rig.collect(start) == []
        revived = [each.message for each in rig.lead(A, 1, closed=closed) if isinstance(each, Send)]
        sent = [message.seq for message in revived if isinstance(message, Part)]
        assert sent == list(range(3, HELD_PARTS_MAX + 3))
        assert rig.acknowledge(*sent) == again
