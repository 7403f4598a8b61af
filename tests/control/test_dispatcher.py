"""The tables of messages: who takes each, and what its epoch must be before it is taken."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import elfmesh.control
from elfmesh.control.dispatcher import Dispatcher
from elfmesh.control.machine import Control
from elfmesh.control.protocol import messages as ctl
from elfmesh.control.protocol import messages_programs, messages_safety
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.control.protocol.fences import FENCES
from elfmesh.machine import Contact, Message
from tests.control.test_machine import ME

OTHER_WAYS = {
    ctl.Verdict: "the answer of one agent to a multicast, read by its rendezvous",
    versions.Rehearsed: "the answer of one agent to a multicast, read by the master",
    messages_programs.Broadcast: "handed to the program beside this agent, which answers later",
}

JOB = bytes(20)


@pytest.fixture
def control() -> Control:
    return Control(ME, "me", rng=random.Random(1))


def tables(dispatcher: Dispatcher) -> dict[type[Message], int]:
    """How often each message is in a table of parts: the one of letters is put together from them."""
    return Counter(
        kind
        for part in (
            dispatcher._leadership.registers.handlers(),
            dispatcher._from_masters(),
            dispatcher._to_masters(),
            dispatcher._between_agents(),
        )
        for kind in part
    )


def test_every_message_of_the_room_has_one_handler(control: Control) -> None:
    dispatcher = control.dispatcher
    handled = {*dispatcher._handlers, *dispatcher._multicasts}
    assert set(ctl.MESSAGES) - handled == set(OTHER_WAYS)
    assert set(tables(dispatcher).values()) == {1}
    assert not {*tables(dispatcher)} & {*control.programs.handlers()}


def test_every_fence_is_of_a_message_that_is_handled(control: Control) -> None:
    assert set(FENCES) <= {*control.dispatcher._handlers, *control.dispatcher._multicasts}


def test_a_message_of_an_outdated_epoch_reaches_no_handler_and_its_sender_is_told(control: Control) -> None:
    sender = Contact(bytes([9]) * 20, "other", 1, 0)
    control.leadership.admits(JOB, 7, None)
    control.dispatcher.received(sender, ctl.Stop(JOB, "one", 6), b"")
    assert control.context.stats["control.fenced"] == 1
    assert [effect.message for effect in control.context.out if hasattr(effect, "message")] == [
        ctl.Fenced(JOB, 7)
    ]
    assert (JOB, "one") not in control.member_host._stopped
    control.dispatcher.received(sender, ctl.Stop(JOB, "one", 7), b"")
    assert (JOB, "one") in control.member_host._stopped


def test_what_has_no_handler_is_counted(control: Control) -> None:
    control.dispatcher.received(ME, messages_safety.Surrender(JOB, "one", ME, 1, 0, 1), b"")
    assert control.context.stats["control.misplaced"] == 1


def test_only_the_fences_ask_whether_an_epoch_is_admitted_before_a_message_is_handled() -> None:
    root = Path(elfmesh.control.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if ".admits" in path.read_text()}
    assert found == {
        "election/fencing.py",
        "election/leadership.py",  # keeps terms
        "register/acceptor.py",  # the generations of voters
        "requests/recovery.py",  # begins a generation
    }
