"""Copies of what other members have contributed, kept until their intervals are closed."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from elfmesh.control.member import copy_store as under_test
from elfmesh.control.member.copy_store import COPY_BYTES, ENTRY_BYTES, KIND, CopyStore
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages import pack
from elfmesh.control.protocol.messages_safety import Keep, Kept, KeptCopy, Surrender
from elfmesh.machine import Contact, Effect, Send
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import SegmentEntry
from tests.control.contexts import new_context
from tests.control.register.support import JOB, A, B

SIZE = 1 + COPY_BYTES + ENTRY_BYTES


def copy_of(
    member: Contact = A,
    number: int = 0,
    start: int = 7,
    stop: int = 9,
    *,
    rev: int = 0,
    epoch: int = 1,
    incarnation: str = "i",
    parts: tuple[tuple[SegmentEntry, ...], ...] | None = None,
) -> Keep:
    entries = ((SegmentEntry(start, (1,), 1),),) if parts is None else parts
    return Keep(JOB, incarnation, member.id, number, start, stop, entries, 1, rev, epoch)


class Rig:
    """One agent's store."""

    def __init__(self) -> None:
        self.context = new_context(1)
        self.store = CopyStore(self.context)

    def keep(
        self, message: Keep, payload: bytes = b"x", *, sender: Contact = A, closed: int | None = None
    ) -> list[Effect]:
        self.store.on_keep(sender, message, payload, closed)
        return self.out()

    def out(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out

    def surrender(self, number: int, start: int = 0, members: int = 0, incarnation: str = "i") -> list[Send]:
        """What the master B gets of these members."""
        self.store.on_surrender(B, Surrender(JOB, incarnation, B, 5, number, start, bitmap_of(members)))
        return [effect for effect in self.out() if isinstance(effect, Send)]

    def held(self, number: int = 0) -> list[tuple[int, bytes]]:
        """First interval and payload of the copies of a member."""
        found = []
        for sent in self.surrender(number):
            assert isinstance(sent.message, KeptCopy)
            found.append((sent.message.copy.start, sent.payload))
        return found


def acknowledged(message: Keep, to: Contact = A) -> Send:
    return Send(to, Kept(JOB, "i", message.number, message.start, message.rev, message.epoch))


def test_a_copy_is_acknowledged_behind_the_order_to_write_it() -> None:
    rig, copy = Rig(), copy_of()
    written, answer = rig.keep(copy)
    assert isinstance(written, Persist)
    assert (written.kind, len(written.key)) == (KIND, 20 + 8 + 16)
    assert answer == acknowledged(copy)
    assert rig.store.nbytes == SIZE


def test_a_copy_that_is_here_is_acknowledged_again_and_not_written_again() -> None:
    rig, copy = Rig(), copy_of()
    rig.keep(copy)
    assert rig.keep(copy) == [acknowledged(copy)]
    assert rig.store.nbytes == SIZE


@pytest.mark.parametrize(
    ("change", "is_newer"),
    [
        ({"rev": 3}, True),
        ({"rev": 1}, False),
        ({"stop": 10, "rev": 0}, True),
        ({"stop": 8, "rev": 9}, False),
        ({"epoch": 3, "stop": 8, "rev": 0}, True),
        ({"epoch": 1, "stop": 20, "rev": 9}, False),
    ],
)
def test_a_copy_of_a_later_term_a_longer_one_or_one_with_more_revisions_replaces_another(
    change: dict[str, int], is_newer: bool
) -> None:
    rig, new = Rig(), replace(copy_of(rev=2, epoch=2), **change)
    rig.keep(copy_of(rev=2, epoch=2), b"x")
    out = rig.keep(new, b"y")
    assert len(out) == 1 + is_newer
    assert out[-1] == acknowledged(new), "what is here is at least as new"
    assert rig.held() == [(7, b"y" if is_newer else b"x")]
    assert rig.store.nbytes == SIZE


def test_a_copy_of_another_member_with_the_same_number_replaces_the_first_one() -> None:
    rig = Rig()
    rig.keep(copy_of(rev=4, epoch=4))
    rig.keep(copy_of(B), b"y", sender=B)
    assert rig.held() == [(7, b"y")]


@pytest.mark.parametrize(
    ("copy", "payload", "sender"),
    [
        (copy_of(), b"x", B),
        (copy_of(), b"xx", A),
        (copy_of(parts=((SegmentEntry(9, (1,), 1),),)), b"x", A),
        (copy_of(parts=((SegmentEntry(6, (1,), 1),),)), b"x", A),
    ],
    ids=["of another agent", "another size", "behind its end", "before its start"],
)
def test_a_copy_that_contradicts_itself_is_refused(copy: Keep, payload: bytes, sender: Contact) -> None:
    rig = Rig()
    assert rig.keep(copy, payload, sender=sender) == []
    assert (rig.context.stats["control.malformed"], rig.store.nbytes) == (1, 0)


@pytest.mark.parametrize(("closed", "is_kept"), [(None, True), (8, True), (9, False), (20, False)])
def test_a_copy_of_closed_intervals_is_acknowledged_and_not_kept(closed: int | None, is_kept: bool) -> None:
    rig = Rig()
    assert rig.keep(copy_of(), closed=closed)[-1] == acknowledged(copy_of())
    assert bool(rig.held()) is is_kept


def test_a_copy_that_does_not_fit_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "KEPT_BYTES_MAX", 2 * SIZE)
    rig = Rig()
    rig.keep(copy_of())
    assert len(rig.keep(copy_of(start=8))) == 2
    assert rig.keep(copy_of(start=6)) == []
    assert rig.context.stats["control.kept_refused"] == 1
    assert rig.keep(copy_of()) == [acknowledged(copy_of())], "what is here is here"
    rig.store.released(JOB, "i", 9)
    rig.out()
    assert len(rig.keep(copy_of(start=9, stop=10))) == 2


def test_a_newer_copy_needs_only_the_room_that_it_takes_beyond_the_one_it_replaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(under_test, "KEPT_BYTES_MAX", SIZE + 1)
    rig = Rig()
    rig.keep(copy_of())
    longer = copy_of(rev=1, parts=((SegmentEntry(7, (1,), 2),),))
    assert rig.keep(longer, b"xy")[1:] == [acknowledged(longer)]
    assert (rig.held(), rig.store.nbytes) == ([(7, b"xy")], SIZE + 1)
    assert rig.keep(copy_of(rev=2, parts=((SegmentEntry(7, (1,), 3),),)), b"xyz") == []


def test_a_store_drops_what_is_closed_from_disk_too() -> None:
    rig = Rig()
    (first, _), (second, _) = rig.keep(copy_of()), rig.keep(copy_of(start=9, stop=12))
    assert isinstance(first, Persist)
    assert isinstance(second, Persist)
    assert first.key != second.key
    rig.store.released(JOB, "i", 8)
    rig.store.released(JOB, "j", 100)
    assert rig.out() == []
    rig.store.released(JOB, "i", 9)
    assert rig.out() == [Persist(KIND, first.key, b"")]
    assert (rig.held(), rig.store.nbytes) == ([(9, b"x")], SIZE)
    rig.store.stopped(JOB, "i")
    assert rig.out() == [Persist(KIND, second.key, b"")]
    assert rig.store.nbytes == 0


def test_the_copies_of_two_incarnations_do_not_meet() -> None:
    rig = Rig()
    (first, _), (second, _) = rig.keep(copy_of()), rig.keep(copy_of(incarnation="j"))
    assert isinstance(first, Persist)
    assert isinstance(second, Persist)
    assert first.key != second.key
    rig.store.stopped(JOB, "j")
    rig.out()
    assert rig.held() == [(7, b"x")]


def test_a_master_gets_the_open_copies_of_the_members_that_it_lacks() -> None:
    rig = Rig()
    for number in range(4):
        for start in (7, 9):
            rig.keep(copy_of(number=number, start=start, stop=start + 2), b"x")
    rig.keep(copy_of(start=20, stop=21, parts=((),)), b"")
    sent = rig.surrender(0, start=9)
    assert [(each.to, each.lane) for each in sent] == [(B, BULK_LANE), (B, 0)]
    assert isinstance(sent[0].message, KeptCopy)
    assert replace(sent[0].message, cause=msgspec.UNSET) == KeptCopy(5, copy_of(start=9, stop=11))
    numbers = []
    for each in rig.surrender(1, members=0b1010):
        assert isinstance(each.message, KeptCopy)
        numbers.append(each.message.copy.number)
    assert numbers == [1, 1, 3, 3]
    assert rig.surrender(0, incarnation="j") == []


def test_a_restarted_agent_has_the_copies_of_its_jobs_and_drops_the_others() -> None:
    before = Rig()
    (mine, _), (other, _) = before.keep(copy_of(), b"x"), before.keep(copy_of(incarnation="j"), b"y")
    assert isinstance(mine, Persist)
    assert isinstance(other, Persist)
    rig = Rig()
    rig.store.restored([mine.data, other.data], [(JOB, "i")])
    assert rig.out() == [Persist(KIND, other.key, b"")]
    assert (rig.held(), rig.store.nbytes) == ([(7, b"x")], SIZE)
    assert rig.keep(copy_of()) == [acknowledged(copy_of())]


def test_a_damaged_copy_on_disk_is_counted_and_left_out() -> None:
    rig = Rig()
    other = pack(Kept(JOB, "i", 0, 7))
    rig.store.restored([b"\0\0\0\4rubbish", len(other).to_bytes(4) + other, b""], [(JOB, "i")])
    assert (rig.context.stats["control.malformed"], rig.held()) == (3, [])


def test_a_copy_that_is_sent_names_its_step_which_follows_from_the_request() -> None:
    rig = Rig()
    rig.keep(copy_of())
    rig.context.causes.follow(b"requested at the master")
    (sent,) = rig.surrender(0, start=8)
    (step,) = rig.context.causes.of({JOB}, 8)
    assert (step.kind, step.cause, step.peer) == ("sent copies", b"requested at the master", B.id[:8])
    assert isinstance(sent.message, KeptCopy)
    assert sent.message.cause == step.name
    assert not list(rig.context.causes.of({JOB}, 7)), "the master did not ask for it"
