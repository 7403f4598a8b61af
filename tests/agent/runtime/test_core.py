from __future__ import annotations

from collections.abc import Callable

import pytest

from elfmesh.agent.runtime.core import AgentCore, codec
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol import messages as control_messages
from elfmesh.control.protocol.messages_parts import Part
from elfmesh.control.protocol.messages_safety import Verified
from elfmesh.machine import Contact, Effect, Event, Received, Send, Tick
from elfmesh.overlay import events as ov
from elfmesh.overlay import messages as overlay_messages
from elfmesh.srt import events as srt
from elfmesh.srt import messages as srt_messages

PEER = Contact(b"\x01" * 20, "127.0.0.1", 1)
TREE = b"\x02" * 20


class Script:
    """A machine that answers as told and remembers what it was asked."""

    def __init__(self, answer: Callable[[Event], list[Effect]] = lambda event: []) -> None:
        self.answer = answer
        self.arrived: list[Event] = []
        self.due: float | None = None
        self.roots = {TREE}

    def step(self, event: Event, now: float) -> list[Effect]:
        self.arrived.append(event)
        return self.answer(event)

    def is_root(self, tree: bytes) -> bool:
        return tree in self.roots

    @property
    def deadline(self) -> float | None:
        return self.due


def test_a_message_reaches_the_machine_whose_tag_it_carries() -> None:
    machines = Script(), Script(), Script()
    core = AgentCore(*machines)
    events = [
        Received(PEER, overlay_messages.Ping(1)),
        Received(PEER, srt_messages.Pull(TREE, ())),
        Received(PEER, control_messages.Fenced(TREE, 1)),
    ]
    for event in events:
        assert core.step(event, 0.0) == []
    assert [machine.arrived for machine in machines] == [[event] for event in events]


def test_all_messages_of_all_rooms_have_one_codec() -> None:
    message = srt_messages.Pull(TREE, ())
    assert codec().decode(codec().encode(message, b"x")) == (message, b"x")


def test_a_lookup_is_answered_to_the_machine_that_asked_under_its_own_token() -> None:
    def overlay(event: Event) -> list[Effect]:
        return [ov.LookupDone(event.token, event.key, ())] if isinstance(event, ov.Lookup) else []

    def ask(event: Event) -> list[Effect]:
        return [ov.Lookup(TREE, 7)] if isinstance(event, srt.Subscribe | ctl.LocalStreams) else []

    overlay_machine, forest, control = Script(overlay), Script(ask), Script(ask)
    core = AgentCore(overlay_machine, forest, control)
    core.step(srt.Subscribe(TREE), 0.0)
    assert forest.arrived == [srt.Subscribe(TREE), ov.LookupDone(7, TREE, ())]
    assert control.arrived == []
    core.step(ctl.LocalStreams(()), 0.0)
    assert control.arrived[-1] == ov.LookupDone(7, TREE, ())
    assert len(forest.arrived) == 2
    first, second = overlay_machine.arrived
    assert isinstance(first, ov.Lookup)
    assert isinstance(second, ov.Lookup)
    assert first.token != second.token


def test_what_concerns_siblings_stays_inside_and_the_rest_comes_out_in_order() -> None:
    send = Send(PEER, overlay_messages.Bye())
    reply = ctl.Reply(1, 200)

    def overlay(event: Event) -> list[Effect]:
        return [send, ov.PeerDown(PEER.id), ov.Joined()]

    control = Script(lambda event: [reply] if isinstance(event, ov.PeerDown) else [])
    forest = Script()
    core = AgentCore(Script(overlay), forest, control)
    assert core.step(ov.Leave(), 0.0) == [send, ov.Joined(), reply]
    assert forest.arrived == [ov.PeerDown(PEER.id)]
    assert control.arrived == [ov.Leave(), ov.PeerDown(PEER.id), ov.Joined()]


def test_a_tick_goes_only_to_the_machines_that_are_due() -> None:
    machines = Script(), Script(), Script()
    machines[0].due, machines[1].due = 5.0, 2.0
    core = AgentCore(*machines)
    assert core.deadline == 2.0
    core.step(Tick(), 3.0)
    assert [len(machine.arrived) for machine in machines] == [0, 1, 0]


def test_an_order_of_a_root_that_has_just_lost_its_tree_is_dropped() -> None:
    forest = Script()
    core = AgentCore(Script(), forest, Script(lambda event: [srt.Publish(TREE, b"x", 1.0)]))
    core.step(ctl.LocalStreams(()), 0.0)
    forest.roots.clear()
    core.step(ctl.LocalStreams(()), 0.0)
    assert forest.arrived == [srt.Publish(TREE, b"x", 1.0)]
    assert core.overtaken == 1


def test_machines_that_never_come_to_rest_are_a_bug_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.agent.runtime.core.STEPS_MAX", 100)
    core = AgentCore(Script(), Script(lambda event: [srt.Subscribe(TREE)]), Script())
    with pytest.raises(RuntimeError, match="rest"):
        core.step(srt.Subscribe(TREE), 0.0)


def test_every_effect_of_the_control_plane_has_a_reader_or_goes_out() -> None:
    core = AgentCore(Script(), Script(), Script())
    inside = {ov.Lookup, ov.Probe, ov.Route, srt.MulticastAnswer, srt.Contribute, srt.Hasten, srt.Publish}
    inside |= {srt.Recollect, srt.Release, srt.Retire, srt.Subscribe, srt.Unsubscribe}
    for kind in inside:
        assert core._readers[kind], kind


EU = (("region=eu",),)
INSIDE, OUTSIDE = (
    Contact(bytes([number]) * 20, "h", 1, region=region) for number, region in ((3, "eu"), (4, "us"))
)


def test_data_of_a_host_is_sent_to_no_agent_that_its_rule_excludes() -> None:
    segment = srt_messages.Segment(1, 0, 0, 1, b"\1", (), EU)
    ruled = srt_messages.SegmentUp(TREE, 1, segment, True, False, 0)
    own = Verified(TREE, 1, 0)
    sends: list[Effect] = [
        Send(to, each) for each in (ruled, own, srt_messages.Pull(TREE, ())) for to in (INSIDE, OUTSIDE)
    ]
    core = AgentCore(Script(), Script(lambda event: sends), Script(), keep_in=EU)
    out = core.step(Received(PEER, srt_messages.Pull(TREE, ())), 0.0)
    assert [(each.to, type(each.message).__name__) for each in out if isinstance(each, Send)] == [
        (INSIDE, "SegmentUp"),
        (INSIDE, "Verified"),
        (INSIDE, "Pull"),
        (OUTSIDE, "Pull"),
    ]
    assert core.kept_in == 2


def test_an_agent_without_a_rule_keeps_the_rules_of_others() -> None:
    sends: list[Effect] = [
        Send(OUTSIDE, Part(TREE, 0, 1, srt_messages.Segment(1, 0, 0, 1, b"\1", (), rule)))
        for rule in (EU, ())
    ]
    core = AgentCore(Script(), Script(), Script(lambda event: sends))
    out = core.step(Received(PEER, control_messages.Fenced(TREE, 1)), 0.0)
    assert [
        each.message.segment.keep_in
        for each in out
        if isinstance(each, Send) and isinstance(each.message, Part)
    ] == [()]
