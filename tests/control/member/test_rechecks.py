"""A member computes closed intervals again for its master, one at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.member.rechecks import Rechecks
from elfmesh.control.protocol.events import Recompute, Recomputed
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages_safety import Verified, Verify
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Send
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, A, B

COUNTS = (3, 1)


class Rig:
    """The rechecks of the member with the number 4."""

    def __init__(self) -> None:
        self.context = new_context(1)
        self.rechecks = Rechecks(self.context)

    def ask(self, interval: int, token: int = 0, version: int = 1) -> None:
        """The master A wants an interval computed again; its question has the interval's number."""
        manifest = replace(MANIFEST, version=version)
        self.rechecks.on_verify(A, Verify(manifest, 1, interval, token or interval), 4)

    def ordered(self) -> list[Recompute]:
        return [effect for effect in self.context.out if isinstance(effect, Recompute)]

    def answer(self, *payloads: bytes, error: str = "") -> list[Send]:
        """The interval is computed; what is sent then."""
        (order,) = self.ordered()
        self.context.out.clear()
        assert self.rechecks.recomputed(Recomputed(order.token, COUNTS, payloads, error))
        return [effect for effect in self.context.out if isinstance(effect, Send)]


def test_a_member_answers_the_agent_that_asked_with_its_counts_and_payloads() -> None:
    rig = Rig()
    rig.ask(7, version=2)
    (order,) = rig.ordered()
    assert (order.manifest.version, order.interval) == (2, 7)
    (answer,) = rig.answer(b"abc", b"", b"d")
    assert answer == Send(A, Verified(JOB, 7, 4, COUNTS, (3, 0, 1)), b"abcd", BULK_LANE)


def test_an_answer_without_a_payload_takes_the_lane_of_small_messages() -> None:
    rig = Rig()
    rig.ask(7)
    (answer,) = rig.answer(error="the log is gone")
    assert answer == Send(A, Verified(JOB, 7, 4, COUNTS, (), "the log is gone"), b"", 0)


@pytest.mark.parametrize("more", [0, 1])
def test_a_member_reports_an_answer_that_is_larger_than_one_message(more: int) -> None:
    rig = Rig()
    rig.ask(7)
    (answer,) = rig.answer(b"x" * DATA_FRAME_BYTES_MAX, b"y" * more)
    assert isinstance(answer.message, Verified)
    assert bool(answer.message.error) == bool(more)
    assert len(answer.payload) == (0 if more else DATA_FRAME_BYTES_MAX)
    assert answer.message.sizes == (() if more else (DATA_FRAME_BYTES_MAX, 0))


def test_a_member_computes_one_interval_at_a_time_and_the_newest_of_those_that_wait() -> None:
    rig = Rig()
    for interval in (7, 8, 9):
        rig.ask(interval)
    assert [order.interval for order in rig.ordered()] == [7]
    rig.answer(b"x")
    assert [order.interval for order in rig.ordered()] == [9]
    (answer,) = rig.answer(b"y")
    assert isinstance(answer.message, Verified)
    assert (answer.message.token, rig.ordered()) == (9, [])


def test_a_question_that_is_repeated_is_computed_once() -> None:
    rig = Rig()
    for _ in range(3):
        rig.ask(7)
    rig.answer(b"x")
    assert rig.ordered() == []


def test_the_same_number_of_another_agent_is_another_question() -> None:
    rig = Rig()
    rig.ask(7)
    rig.rechecks.on_verify(B, Verify(MANIFEST, 1, 8, 7), 4)
    rig.answer(b"x")
    (answer,) = rig.answer(b"y")
    assert answer.to == B


def test_an_outcome_that_was_not_asked_for_is_left_to_others() -> None:
    rig = Rig()
    assert not rig.rechecks.recomputed(Recomputed(1))
    rig.ask(7)
    (order,) = rig.ordered()
    assert not rig.rechecks.recomputed(Recomputed(order.token + 1))
    rig.answer(b"x")
    assert not rig.rechecks.recomputed(Recomputed(order.token)), "it is answered once"
    assert [effect for effect in rig.context.out if isinstance(effect, Recompute)] == []
