"""A register of one job, driven by hand."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue, digest
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.messages_register import Accept
from elfmesh.control.register.changes import Change, ChangeRefused
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.registers import Registers
from elfmesh.control.register.votes import LACKS_S, Records
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.machine import Contact, Effect, Message, Send
from tests.control.member.support import TEXT

MANIFEST = new_manifest(read_job(TEXT)[0], TEXT, "local", created=1, incarnation="i")


JOB = MANIFEST.job_id


ME, A, B, STRANGER = (Contact(bytes([n]) * 20, "sim", n) for n in (1, 2, 3, 9))


VALUE = RegisterValue(job=JOB, incarnation="i", version=1, plan=b"p", epoch=1, master=A, acceptors=(ME, A, B))


TERMS = Terms(manifest=MANIFEST, master=A, epoch=1)


class Held:
    """What one agent holds of the job."""

    def __init__(self, context: Context, latest: int | None = None, terms: Terms | None = TERMS) -> None:
        self.terms, self.copy = terms, LogCopy(context, JOB, "i", latest, lambda: ())

    def held(self, job: bytes) -> tuple[Terms | None, LogCopy | None]:
        return self.terms, self.copy

    def epoch(self, job: bytes) -> int:
        return 0

    def admits(self, job: bytes, epoch: int, sender: Contact | None) -> bool:
        return True

    def keep(self, terms: Terms, roster: int = 0) -> None:
        self.terms = terms


Outcome = RegisterCell | ChangeRefused


class Register:
    """A proposer whose changes wait, in their order, until a test decides them.

    Attributes:
        cell: its value.
        lost: voters that have lost their votes, with the boot that has found it.
        terms: those that went with the last change.
        met_now: agents that were met.
    """

    def __init__(self, value: RegisterValue = VALUE, tail: bytes = b"") -> None:
        self.cell = RegisterCell(value, tail)
        self._wanted: deque[tuple[Change, Callable[[Outcome], None]]] = deque()
        self.terms: Terms | None = None
        self.lost: dict[bytes, int] = {}
        self.met_now: list[Contact] = []

    @property
    def proposer(self) -> Proposer:
        return cast(Proposer, self)

    @property
    def idle(self) -> bool:
        return not self._wanted

    @property
    def changes(self) -> list[Change]:
        """What is to be decided."""
        return [change for change, _ in self._wanted]

    def submit(self, change: Change, then: Callable[[Outcome], None], terms: Terms | None = None) -> None:
        self._wanted.append((change, then))
        self.terms = terms

    def met(self, contact: Contact) -> None:
        self.met_now.append(contact)

    def decide(self, *, certain: bool = False) -> Change:
        """A majority votes on the oldest change."""
        change, then = self._wanted.popleft()
        try:
            self.cell = change.apply(self.cell, certain=certain)
        except ChangeRefused as refused:
            then(refused)
        else:
            then(self.cell)
        return change

    def refuse(self) -> None:
        """Another agent leads the job by now."""
        self._wanted.popleft()[1](ChangeRefused("another epoch", self.cell))


def context() -> Context:
    return Context(ME, "me", random.Random(1), lambda topic: {})


def tail(*indices: int) -> bytes:
    return encode_page([(ResultRecord(job="shop/top", index=index), b"") for index in indices])


def with_tail(value: RegisterValue, before: int | None, *indices: int) -> tuple[RegisterValue, bytes]:
    page = tail(*indices)
    changed = replace(value, before=before, latest=indices[-1], closed=indices[-1] + 1, digest=digest(page))
    return changed, page


def sent(effects: list[Effect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def run(own_registers: Context, until: float) -> None:
    """Let time pass."""
    while own_registers.deadline is not None and own_registers.deadline <= until:
        own_registers.now = own_registers.deadline
        own_registers.fire()
    own_registers.now = until


GRANT = VotingGrant(1, 1, 0, 5)
GRANTED = replace(VALUE, closed=5, latest=4, grant=GRANT)


def record(index: int, before: int | None, reason: str = "") -> ResultRecord:
    return ResultRecord(job="shop/top", index=index, before=before, epoch=1, reason=reason)


class Voter:
    """One agent with its votes."""

    def __init__(self, me: Contact) -> None:
        self.me = me
        self.context = Context(me, "voter", random.Random(me.id), lambda topic: {})
        self.held = Held(self.context, latest=4)
        self.registers = Registers(self.context, self.held)
        self.registers.votes.closed = self._closed
        self.closed: list[int] = []
        self.refuses: set[int] = set()
        self.registers.votes.leaves_out = lambda job, record: record.index in self.refuses

    def _closed(self, job: bytes, records: Records) -> None:
        self.closed += [record.index for record, _ in records]

    def cast(self, index: int, before: int | None, reason: str = "") -> bool:
        return self.registers.votes.cast(JOB, record(index, before, reason), b"")

    def stored(self) -> bytes:
        return [each.data for each in self.context.out if isinstance(each, Persist) and each.kind == "vote"][
            -1
        ]


class Voters:
    """Three agents that have accepted a value with a grant, and the links between them."""

    def __init__(self) -> None:
        self.by_id = {each.id: Voter(each) for each in (ME, A, B)}
        self.cut: set[tuple[bytes, bytes]] = set()
        self.sent: list[tuple[Message, bytes]] = []
        """Messages between agents, with their payloads."""
        self.ballot = Ballot(1, A.id, 1)
        for voter in self.by_id.values():
            voter.registers.on_accept(A, Accept(JOB, self.ballot, GRANTED), b"")
        self.deliver()

    def __getitem__(self, contact: Contact) -> Voter:
        return self.by_id[contact.id]

    def deliver(self) -> None:
        """Deliver all messages, also those that these cause."""
        moved = True
        while moved:
            moved = False
            for voter in self.by_id.values():
                out, voter.context.out = voter.context.out, []
                for effect in out:
                    if isinstance(effect, Send) and effect.to.id in self.by_id:
                        moved = True
                        self.sent.append((effect.message, effect.payload))
                        if (voter.me.id, effect.to.id) not in self.cut:
                            self._receive(self.by_id[effect.to.id], voter.me, effect)
                local, voter.context.inbox = list(voter.context.inbox), type(voter.context.inbox)()
                for message, payload in local:
                    moved = True
                    self._receive(voter, voter.me, Send(voter.me, message, payload))

    @staticmethod
    def _receive(to: Voter, sender: Contact, effect: Send) -> None:
        handle = to.registers.handlers().get(type(effect.message))
        if handle is not None:
            handle(sender, effect.message, effect.payload)

    def settle(self) -> None:
        """Deliver all messages, and let voters ask for the records that they lack."""
        self.deliver()
        self.pass_time(LACKS_S + 0.01)

    def pass_time(self, seconds: float) -> None:
        for voter in self.by_id.values():
            run(voter.context, voter.context.now + seconds)
        self.deliver()

    def change(
        self, by: Contact, change: Change, acceptors: tuple[Contact, ...] = (ME, A, B)
    ) -> RegisterCell:
        """Let an agent change the register; returns the chosen value."""
        outcomes: list[RegisterCell | ChangeRefused] = []
        proposer = self[by].registers.proposer(JOB, (ME, A, B))
        proposer.submit(change, outcomes.append, TERMS)
        self.deliver()
        (outcome,) = outcomes
        assert isinstance(outcome, RegisterCell)
        return outcome
