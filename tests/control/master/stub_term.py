"""The term of a master for tests of its parts: what a part reads, and a list of what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from elfmesh.control.answers import decode_body
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.master.tally import Tally
from elfmesh.control.protocol.messages import Answered, unpack
from elfmesh.control.register.changes import Change, ChangeRefused
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.machine import Contact, Message, Send
from elfmesh.overlay.events import Lookup, LookupDone, Route
from elfmesh.srt.events import Publish, PublishDone
from tests.control.contexts import new_context
from tests.control.register.support import JOB, TERMS

Decided = Callable[[RegisterCell | ChangeRefused], None]


def other(number: int) -> Contact:
    """An agent that is not the master."""
    return new_context(number).me


def entry(number: int, start: int = 0, until: int | None = None) -> RosterEntry:
    return RosterEntry(number, other(10 + number), f"m{number}", start, until)


@dataclass
class Register:
    """A proposer that keeps each change until the test decides it."""

    submitted: list[tuple[Change, Decided]] = field(default_factory=list)

    def submit(self, change: Change, then: Decided, terms: Terms | None = None) -> None:
        self.submitted.append((change, then))


@dataclass
class StubTerm:
    """A job of two members, led by agent 1 in epoch 1."""

    context: Context = field(default_factory=lambda: new_context(1))
    book: RosterBook = field(default_factory=lambda: RosterBook((entry(0), entry(1)), 3))
    began: Terms = TERMS
    is_open: bool = True
    register: Register = field(default_factory=Register)
    reports: list[str] = field(default_factory=list)
    found: list[tuple[Contact, ...]] = field(default_factory=list)
    layouts: Any = field(
        default_factory=lambda: SimpleNamespace(idle_paths=SimpleNamespace(idle=frozenset()))
    )

    def __post_init__(self) -> None:
        self.plan: JobPlan = read_plan(self.began.manifest.text)
        self.tally: Any = Tally()
        self.copy = LogCopy(self.context, JOB, "i", 41, lambda: ())

    @property
    def terms(self) -> Terms:
        return replace(
            self.began, master=self.context.me, version=self.book.version, members=self.book.entries
        )

    @property
    def proposer(self) -> Proposer:
        return cast(Proposer, self.register)

    # -- what a part reports ---------------------------------------------------------------------------

    def changed(self) -> None:
        self.reports.append("changed")

    def finish(self) -> None:
        self.reports.append("finish")

    def resign(self) -> None:
        self.reports.append("resign")

    def deposed(self, refused: ChangeRefused) -> None:
        self.reports.append("deposed")

    def nearest(self, contacts: tuple[Contact, ...]) -> None:
        self.found.append(contacts)

    # -- what it does ----------------------------------------------------------------------------------

    def take(self) -> list[tuple[Contact, Message]]:
        """The messages that were sent since the last call."""
        sent = [(each.to, each.message) for each in self.context.out if isinstance(each, Send)]
        self.context.out = [each for each in self.context.out if not isinstance(each, Send)]
        return sent

    def answers(self) -> list[tuple[int, dict[str, object]]]:
        """The answers to clients since the last call: status and body."""
        sends = [each for each in self.context.out if isinstance(each, Send)]
        self.context.out.clear()
        return [
            (each.message.status, decode_body(each.payload[: each.message.body_size]))
            for each in sends
            if isinstance(each.message, Answered)
        ]

    def routed(self) -> list[tuple[bytes, Message]]:
        return [(each.key, unpack(each.body)) for each in self.context.out if isinstance(each, Route)]

    def published(self) -> list[Publish]:
        return [each for each in self.context.out if isinstance(each, Publish)]

    def done(self, *answers: tuple[bytes, bytes]) -> None:
        """The last multicast is over, with these answers."""
        token = self.published()[-1].token
        self.context.answer(token, PublishDone(JOB, 1, answers, len(answers), token))

    def looked_up(self, *contacts: Contact) -> None:
        """The last look-up finds these agents."""
        lookup = [each for each in self.context.out if isinstance(each, Lookup)][-1]
        self.context.answer(lookup.token, LookupDone(lookup.token, lookup.key, contacts))

    def lookups(self) -> int:
        return sum(isinstance(each, Lookup) for each in self.context.out)

    def run(self, seconds: float) -> None:
        until = self.context.now + seconds
        while self.context.deadline is not None and self.context.deadline <= until:
            self.context.now = self.context.deadline
            self.context.fire()
        self.context.now = until
