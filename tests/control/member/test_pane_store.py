"""Chains of open panes that an agent holds for other members."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.policy import OPEN, Policy
from elfmesh.control.member import pane_store as under_test
from elfmesh.control.member.pane_store import ANSWERS_MAX, DELTA_BYTES, PANE_BYTES, PaneStore
from elfmesh.control.protocol.messages_safety import Surrender
from elfmesh.control.protocol.messages_standby import Chained, Delta, PaneDelta, Prefix
from elfmesh.machine import Contact, Send
from tests.control.contexts import new_context
from tests.control.master.stub_term import entry
from tests.control.register.support import JOB, TERMS

SIZE = 1 + DELTA_BYTES + PANE_BYTES
MEMBERS = (entry(0), entry(1))
A, B = (each.contact for each in MEMBERS)
MASTER = new_context(9).me


def delta(
    seq: int = 0, chain: int = 1, *, boot: int = 1, member: Contact = A, until_us: int | None = None
) -> Delta:
    until = 10 * seq if until_us is None else until_us
    return Delta(JOB, "i", member.id, boot, chain, seq, 0, until, (PaneDelta(1, 7, 2, 1, 1),))


class Rig:
    def __init__(self, policy: Policy = OPEN) -> None:
        self.context = new_context(1)
        self.context.policy = policy
        self.store = PaneStore(self.context)

    def send(self, message: Delta, payload: bytes = b"x", sender: Contact = A) -> list[Chained]:
        self.store.on_delta(sender, message, payload)
        out, self.context.out = self.context.out, []
        return [each.message for each in out if isinstance(each, Send) and isinstance(each.message, Chained)]

    def surrender(self, epoch: int = 1, number: int = 0) -> list[list[tuple[int, int, int]]]:
        """Boot, chain and number of the deltas in each answer."""
        terms = replace(TERMS, members=MEMBERS)
        self.store.on_surrender(Surrender(JOB, "i", MASTER, epoch, number, 0), replace(terms, epoch=1))
        out, self.context.out = self.context.out, []
        found = []
        for each in out:
            assert isinstance(each, Send)
            assert each.to == MASTER
            assert isinstance(each.message, Prefix)
            found.append([(one.boot, one.chain, one.seq) for one in each.message.deltas])
        return found


def acknowledged(following: int, chain: int = 1, boot: int = 1, *, has_room: bool = True) -> list[Chained]:
    return [Chained(JOB, "i", boot, chain, following, has_room)]


def test_deltas_are_accepted_in_order_and_acknowledged_by_the_next_number() -> None:
    rig = Rig()
    assert [rig.send(delta(seq)) for seq in range(3)] == [acknowledged(seq + 1) for seq in range(3)]
    assert rig.surrender() == [[(1, 1, 0), (1, 1, 1), (1, 1, 2)]]


def test_a_delta_that_comes_twice_is_held_once() -> None:
    rig = Rig()
    rig.send(delta(0))
    assert [rig.send(delta(0)), rig.send(delta(1)), rig.send(delta(1))] == [
        acknowledged(n) for n in (1, 2, 2)
    ]
    assert rig.surrender() == [[(1, 1, 0), (1, 1, 1)]]
    assert rig.store.nbytes == 2 * SIZE


def test_a_delta_without_its_predecessor_is_refused_and_counted() -> None:
    rig = Rig()
    assert rig.send(delta(1)) == acknowledged(0)
    rig.send(delta(0))
    assert rig.send(delta(2)) == acknowledged(1)
    assert rig.context.stats["control.chain_refused"] == 2
    assert rig.surrender() == [[(1, 1, 0)]]


@pytest.mark.parametrize(
    ("message", "payload", "sender"),
    [(delta(), b"x", B), (delta(), b"xy", A), (replace(delta(), panes=2 * delta().panes), b"xy", A)],
)
def test_a_false_delta_is_refused_and_counted(message: Delta, payload: bytes, sender: Contact) -> None:
    rig = Rig()
    assert rig.send(message, payload, sender) == []
    assert (rig.context.stats["control.malformed"], rig.surrender()) == (1, [])


def test_the_earlier_chain_stays_until_the_new_one_has_reached_its_time() -> None:
    rig = Rig()
    rig.send(delta(0, until_us=100))
    rig.send(delta(0, boot=2, until_us=50))
    assert rig.surrender() == [[(1, 1, 0)], [(2, 1, 0)]]
    rig.send(delta(1, boot=2, until_us=100))
    assert rig.surrender() == [[(2, 1, 0), (2, 1, 1)]]
    assert rig.store.nbytes == 2 * SIZE


def test_a_delta_of_a_chain_that_is_over_is_refused() -> None:
    rig = Rig()
    rig.send(delta(0, chain=2))
    assert rig.send(delta(0, chain=1)) == []
    assert rig.surrender() == [[(1, 2, 0)]]


def test_a_store_holds_no_more_than_its_limit_and_answers_so() -> None:
    rig = Rig()
    rig.store.limit_bytes = SIZE
    rig.send(delta(0))
    assert rig.send(delta(1)) == acknowledged(1, has_room=False)
    assert rig.context.stats["control.chain_no_room"] == 1
    assert rig.store.nbytes == SIZE


def test_an_agent_whose_limit_is_0_holds_nothing_for_others() -> None:
    rig = Rig(Policy(standby_bytes=0))
    assert rig.send(delta(0)) == acknowledged(0, has_room=False)
    assert rig.surrender() == []


def test_the_same_chain_is_sent_to_one_master_a_few_times_only() -> None:
    rig = Rig()
    rig.send(delta(0))
    assert [len(rig.surrender()) for _ in range(ANSWERS_MAX + 1)] == [1] * ANSWERS_MAX + [0]
    rig.send(delta(1))
    assert len(rig.surrender()) == 1


def test_numbers_of_another_epoch_and_of_other_members_get_nothing() -> None:
    rig = Rig()
    rig.send(delta(0))
    assert (rig.surrender(epoch=2), rig.surrender(number=1)) == ([], [])


def test_large_chains_are_sent_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "PREFIX_PANES_MAX", 2)
    rig = Rig()
    for seq in range(3):
        rig.send(delta(seq))
    assert rig.surrender() == [[(1, 1, 0), (1, 1, 1)], [(1, 1, 2)]]


def test_chains_are_dropped_with_their_windows_their_members_and_their_job() -> None:
    rig = Rig()
    rig.send(delta(0, until_us=100))
    rig.store.released(JOB, "i", 100)
    assert rig.store.nbytes == SIZE
    rig.store.released(JOB, "i", 101)
    assert rig.store.nbytes == 0
    rig.send(delta(0))
    rig.store.members_are(JOB, "i", {A.id})
    assert rig.store.nbytes == SIZE
    rig.store.members_are(JOB, "i", {B.id})
    assert (rig.store.nbytes, rig.surrender()) == (0, [])
    rig.send(delta(0))
    rig.store.stopped(JOB, "i")
    assert (rig.store.nbytes, rig.surrender()) == (0, [])
