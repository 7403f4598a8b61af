"""A job ends in its register first; then its members stop, and each waiting client gets one answer."""

from __future__ import annotations

from elfmesh import ids
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.master.deletion import STOP_S, UNROOTED_S, Deletion
from elfmesh.control.master.successors import Replicator
from elfmesh.control.protocol.events import DropLog, Persist
from elfmesh.control.protocol.messages import Stop, Withdraw
from elfmesh.control.register.changes import ChangeRefused, Delete
from tests.control.master.stub_term import StubTerm, entry, other
from tests.control.register.support import JOB, VALUE

STOP = Stop(JOB, "i", 1)


class Rig:
    """The end of a job of two members, which agent 7 holds as well."""

    def __init__(self, *, rooted: bool = True) -> None:
        self.term = StubTerm()
        if rooted:
            self.term.context.roots[JOB] = None
        replicas = Replicator(self.term)
        replicas.refresh()
        self.term.looked_up(other(7))
        self.term.take()
        self.deletion = Deletion(self.term, replicas)
        self.ended: list[tuple[bool, list[str]]] = []

    def begin(self, *, retire: bool = False) -> None:
        self.deletion.begin(lambda over: self.ended.append((over, list(self.term.reports))), retire=retire)

    def register(self, outcome: RegisterCell | ChangeRefused) -> None:
        self.term.register.submitted[0][1](outcome)


def test_members_stop_when_the_register_has_the_end_and_not_before() -> None:
    rig = Rig()
    rig.begin()
    assert [change for change, _ in rig.term.register.submitted] == [Delete("i", 1)]
    assert (rig.term.published(), rig.term.take()) == ([], [])
    rig.register(RegisterCell(VALUE))
    assert [each.timeout_s for each in rig.term.published()] == [STOP_S]
    assert rig.ended == []
    rig.term.done((entry(0).contact.id, b""), (other(9).id, b""))
    assert rig.deletion.stopped == 1, "agent 9 is no member"
    withdrawn = Withdraw(JOB, "", "i", 1)
    assert rig.term.take() == [(entry(1).contact, STOP), (other(7), withdrawn)]
    assert (ids.stream_id("clicks"), Withdraw(JOB, "clicks", "i", 1)) in rig.term.routed()
    assert Persist("job", JOB, b"") in rig.term.context.out
    assert DropLog(JOB, retire=False) in rig.term.context.out
    assert rig.ended == [(True, ["resign"])], "the master has resigned before its clients are answered"


def test_a_job_that_another_agent_leads_does_not_end_here() -> None:
    rig = Rig()
    rig.begin()
    rig.register(ChangeRefused("another leads", None))
    assert rig.term.reports == ["deposed"]
    rig.deletion.give_up()
    assert rig.ended == [(False, ["deposed"])]
    assert rig.term.published() == []


def test_the_end_is_registered_once_for_all_clients() -> None:
    rig = Rig()
    rig.begin(retire=True)
    rig.begin()
    assert len(rig.term.register.submitted) == 1
    rig.register(RegisterCell(VALUE))
    rig.term.done()
    assert [over for over, _ in rig.ended] == [True, True]
    assert DropLog(JOB, retire=True) in rig.term.context.out
    rig.deletion.give_up()
    assert len(rig.ended) == 2


def test_the_end_does_not_wait_for_a_tree_that_has_gone() -> None:
    rig = Rig()
    rig.begin()
    rig.register(RegisterCell(VALUE))
    rig.deletion.unrooted()
    rig.term.run(UNROOTED_S)
    assert [over for over, _ in rig.ended] == [True]
    rig.term.done((entry(0).contact.id, b""))
    assert (len(rig.ended), rig.deletion.stopped) == (1, 0)
