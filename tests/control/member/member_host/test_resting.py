"""A member that may return to its job keeps its frames and its ledger until the job ends."""

from __future__ import annotations

from dataclasses import replace as replace_policy

from msgspec.structs import replace

from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.member.accounts.ledger_state import KIND as LEDGER
from elfmesh.control.member.member_host import LEFT_S
from elfmesh.control.protocol.events import Persist, StopWorker
from elfmesh.control.protocol.messages import Announce
from elfmesh.machine import Effect, Send
from elfmesh.overlay.messages import Bye
from tests.control.member.test_member_host import Rig, of
from tests.control.register.support import JOB, MANIFEST, A

IN_EU = replace_policy(OPEN, keep_in=(("region=eu",),))
INSIDE = replace(A, region="eu")


def rested() -> Rig:
    """An agent whose rule excludes a new master, after the last interval of its number has been closed."""
    rig = Rig(policy=IN_EU)
    rig.host.on_announce(Announce(MANIFEST, INSIDE, 1))
    rig.number(master=INSIDE)
    rig.out()
    rig.number(until=9, closed=9, version=4, epoch=2)
    rig.wait(LEFT_S + 0.01)
    assert rig.host.members == {}
    return rig


def test_a_member_that_a_new_master_excludes_continues_from_its_frames_and_its_ledger() -> None:
    """Without them, it would read its logs from the beginning and count its contributed records again."""
    rig = Rig(policy=IN_EU)
    rig.host.on_announce(Announce(MANIFEST, INSIDE, 1))
    rig.number(master=INSIDE)
    numbers = rig.host.members[JOB].ledger.state.numbers
    assert numbers
    rig.out()
    rig.number(until=9, closed=9, version=4, epoch=2)
    out = rig.wait(LEFT_S + 0.01)
    assert rig.host.members == {}
    assert [each for each in out if isinstance(each, StopWorker)] == [StopWorker(JOB, "i", keeps_frames=True)]
    stored = [each.data for each in out if isinstance(each, Persist) and each.kind == LEDGER]
    assert stored[-1]
    assert of(rig.host.on_announce(Announce(MANIFEST, INSIDE, 3), founding=False)) == (True, "")
    assert rig.host.members[JOB].ledger.state.numbers == numbers


def deleted(out: list[Effect]) -> list[Effect]:
    """What deletes frames or ledgers."""
    ends = (StopWorker(JOB, "i"), Persist(LEDGER, JOB, b""))
    return [each for each in out if each in ends]


def test_the_end_of_a_job_deletes_what_a_member_that_rests_has_kept() -> None:
    rig = rested()
    rig.out()
    rig.host.stop(JOB, "j")
    assert deleted(rig.out()) == [], "of another incarnation"
    rig.host.stop(JOB, "i")
    assert len(deleted(rig.out())) == 2
    rig.host.stop(JOB, "i")
    assert deleted(rig.out()) == []


def test_another_incarnation_deletes_the_frames_of_the_one_that_rests() -> None:
    rig = rested()
    rig.out()
    rig.host.on_announce(Announce(replace(MANIFEST, incarnation="j"), INSIDE, 3))
    out = rig.out()
    assert StopWorker(JOB, "i") in out
    assert rig.host.members[JOB].ledger.state.incarnation == "j"


def test_an_agent_whose_labels_change_and_change_back_continues_from_its_ledger() -> None:
    """A member that had ended would be barred from its incarnation, and would count its records again."""
    rig = Rig(labels={"tier": "web"})
    manifest = replace(MANIFEST, narrowed=(("tier", "web"),))
    rig.announce(manifest)
    rig.number(manifest=manifest)
    numbers = rig.host.members[JOB].ledger.state.numbers
    rig.out()
    rig.carry("clicks", labels={"tier": "db"})
    assert rig.host.members == {}
    assert deleted(rig.out()) == []
    rig.carry("clicks", labels={"tier": "web"})
    assert of(rig.announce(manifest, epoch=3, founding=False)) == (True, "")
    assert numbers
    assert rig.host.members[JOB].ledger.state.numbers == numbers


def test_a_member_that_leaves_and_whose_master_knows_it_no_more_may_return() -> None:
    """The master answers the repeated request with `Stop`, as it does after the end of the job."""
    rig = Rig(policy=IN_EU)
    rig.host.on_announce(Announce(MANIFEST, INSIDE, 1))
    rig.number(master=INSIDE)
    rig.number(until=9, closed=5, version=4, epoch=2)
    assert rig.host.members[JOB].requests.leaving
    rig.out()
    rig.host.stop(JOB, "i")
    assert rig.host.members == {}
    assert deleted(rig.out()) == []
    assert of(rig.host.on_announce(Announce(MANIFEST, INSIDE, 3), founding=False)) == (True, "")


def test_the_end_of_an_incarnation_without_a_name_deletes_nothing() -> None:
    """A peer may send one, and a job without a ledger here has no incarnation either."""
    rig = Rig()
    rig.host.stop(JOB, "")
    assert [each for each in rig.out() if isinstance(each, StopWorker)] == []


def test_an_agent_that_stops_notifies_its_masters() -> None:
    rig = Rig()
    rig.announce()
    rig.out()
    rig.host.stopping()
    assert rig.out() == [Send(A, Bye())]
    rig.host.members[JOB].master = rig.context.me
    rig.host.stopping()
    assert rig.out() == [], "it needs no message to itself"
