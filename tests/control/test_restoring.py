"""What a restarted agent has again of what an earlier boot stored, and what it ignores."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh import ids
from elfmesh.control.jobs.terms import Participant, Terms
from elfmesh.control.machine import Control
from elfmesh.control.member import admission
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages import Announce, Roster, Verdict, pack, unpack
from elfmesh.control.protocol.messages_succession import Replica
from elfmesh.control.replicas import known_peers
from elfmesh.control.restoring import SEEN_AGAIN_S
from elfmesh.machine import Tick
from elfmesh.overlay.events import Joined, PeerUp, Remember
from elfmesh.srt.events import Delivered, MulticastAnswer
from tests.control.test_machine import ME, OTHER, control, manifest

JOB = manifest()
TERMS = Terms(manifest=JOB, master=OTHER, epoch=3, acceptors=(OTHER, ME))
Items = tuple[tuple[str, bytes, bytes], ...]


def restored(*items: tuple[str, bytes, bytes]) -> Control:
    machine = control()
    machine.step(ctl.Restored(items), 0.0)
    machine.step(Joined(), 0.0)
    machine.step(ctl.LocalStreams((ctl.StreamInfo("clicks", "json"),)), 0.0)
    return machine


def verdict(machine: Control, epoch: int) -> Verdict:
    announce = pack(Announce(JOB, OTHER, epoch, wanted=True))
    effects = machine.step(Delivered(ids.stream_id("clicks"), 4, announce), 1.0)
    (answer,) = [effect for effect in effects if isinstance(effect, MulticastAnswer)]
    found = unpack(answer.body)
    assert isinstance(found, Verdict)
    return found


def test_a_job_that_was_stopped_here_does_not_start_again_after_a_restart() -> None:
    takes_part = Verdict(Participant(ME, "me", stands_by=True), True)
    assert verdict(restored(), 1) == takes_part
    stopped = (admission.KIND, JOB.job_id, JOB.incarnation.encode())
    assert verdict(restored(stopped), 1) == Verdict(Participant(ME, "me", stands_by=True), False)


def test_an_agent_is_a_member_again_and_knows_the_epoch() -> None:
    machine = restored(("epoch", JOB.job_id, (5).to_bytes(8)), ("member", JOB.job_id, pack(Roster(TERMS))))
    assert list(machine.member_host.members) == [JOB.job_id]
    assert machine.leadership.epoch(JOB.job_id) == 5


def test_an_agent_holds_the_replica_of_a_job_again() -> None:
    machine = restored(("job", JOB.job_id, pack(Replica(TERMS, None))))
    assert machine.leadership.replicas[JOB.job_id].terms == TERMS


@pytest.mark.parametrize(
    ("item", "counted"),
    [
        (("job", JOB.job_id, b"\xc1rubbish"), 1),
        (("member", JOB.job_id, b"\xc1rubbish"), 1),
        (("job", b"k" * 20, pack(Replica(TERMS, None))), 0),
        (("member", b"k" * 20, pack(Roster(TERMS))), 0),
        (("of a later release", JOB.job_id, b"something"), 0),
    ],
)
def test_what_cannot_be_read_or_is_not_known_changes_nothing(
    item: tuple[str, bytes, bytes], counted: int
) -> None:
    machine = restored(item)
    assert (machine.stats(), machine.context.stats["control.malformed"]) == (
        {**restored().stats(), **({"control.malformed": counted} if counted else {})},
        counted,
    )


@pytest.mark.parametrize("returns", [True, False])
def test_a_known_peer_that_does_not_return_is_counted_as_dead(returns: bool) -> None:
    machine = control()
    peer = (known_peers.KIND, OTHER.id, msgspec.msgpack.encode(OTHER))
    assert Remember((OTHER,)) in machine.step(ctl.Restored((peer,)), 0.0)
    machine.step(Joined(), 0.0)
    if returns:
        machine.step(PeerUp(OTHER), 1.0)
    machine.step(Tick(), SEEN_AGAIN_S - 0.1)
    assert machine.dead.rows() == []
    machine.step(Tick(), SEEN_AGAIN_S)
    assert [row.id for row in machine.dead.rows()] == ([] if returns else [OTHER.id.hex()])
