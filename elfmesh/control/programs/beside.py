"""Programs beside this agent: the sessions of their processes.

Owns the sessions of local programs, the messages that were delivered to them and are not handled, and the
state
of each program: its master side, its term, its position in the results. Runs no code of programs.

Invariants: a parcel is acknowledged only when its program has handled it. A multicast of a lower term than
the highest known one is refused. If an agent has two processes of one program, the newer one replaces the
other.

Paper: ELF 2.4, Tables 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import CREATOR, split_name
from elfmesh.control.programs.outbox import Outbox
from elfmesh.control.programs.rendezvous import HANDLED, HOPS_MAX, ProgramRendezvous
from elfmesh.control.programs.topic_positions import TopicPositions
from elfmesh.control.protocol import program_frames
from elfmesh.control.protocol.events import Persist, ProgramAttached, ProgramGone, ProgramReported, ToProgram
from elfmesh.control.protocol.fences import Handlers
from elfmesh.control.protocol.messages_programs import Appointed, Broadcast, Parcel, Present, Receipt
from elfmesh.machine import Contact
from elfmesh.srt.events import Attached, Delivered, Detached, MulticastAnswer, Subscribe, Unsubscribe

KIND = "program"
"""Kind of the stored positions of programs."""

PRESENT_S = 2.0
PENDING_BYTES_MAX = 32 << 20
"""Maximum size of unhandled messages of one program; the sender repeats messages beyond it."""

PENDING_MAX = 1024
KNOWN_MAX = 1024
"""Maximum number of programs whose state is kept without a process here."""

GROUPS_MAX = 64
PARENTS_MAX = 4096
"""Maximum number of trees whose parent is stored; a forest has as many."""


_Name = tuple[bytes, int]


@dataclass(slots=True)
class _Pending:
    """A message that a program has not handled; `origin` or `multicast` receives its acknowledgement."""

    nbytes: int
    origin: Contact | None = None
    multicast: tuple[bytes, int] | None = None


@dataclass(slots=True)
class _Session:
    number: int
    process: bytes
    name: str
    groups: dict[str, None] = field(default_factory=dict)
    pending: dict[_Name, _Pending] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """State of a program at this agent."""

    session: _Session | None = None
    master: Contact | None = None
    term: int = 0
    place: program_frames.ResultPosition = program_frames.NOWHERE
    last: Broadcast | None = None


class Programs:
    """The programs beside one agent.

    Args:
        masters: ids of the jobs that this agent leads.
    """

    def __init__(self, context: Context, masters: Mapping[bytes, object]) -> None:
        self._context, self._masters = context, masters
        self.rendezvous = ProgramRendezvous(context)
        self._parents: dict[bytes, Contact] = {}
        self.outbox = Outbox(context, self._parents, self._tell)
        self.topics = TopicPositions(context)
        self._known: dict[bytes, _Known] = {}
        self._sessions: dict[int, bytes] = {}

    def restored(self, key: bytes, data: bytes) -> None:
        """Restore the position of a program from an earlier boot."""
        place = program_frames.read_place(data)
        if len(key) == ids.ID_BYTES and place is not None:
            known = self._of(key)
            known.place, known.term = place, place.term

    # -- events of the host ----------------------------------------------------------------------------

    def host_reported(
        self, event: ProgramAttached | ProgramReported | ProgramGone | Attached | Detached
    ) -> None:
        """Handle an event of a local program or of a tree."""
        match event:
            case ProgramAttached():
                self._attached(event)
            case ProgramReported():
                if event.session in self._sessions:
                    self._reported(event.session, event.frame)
            case ProgramGone():
                self._gone(event.session)
            case Attached():
                self._parents.pop(event.tree, None)
                self._parents[event.tree] = event.parent
                while len(self._parents) > PARENTS_MAX:  # no message reports the end of a tree
                    del self._parents[next(iter(self._parents))]
            case Detached():
                self._parents.pop(event.tree, None)

    def describe(self) -> list[dict[str, object]]:
        return [
            {
                "program": known.session.name,
                "master_side": known.master is not None and known.master.id == self._context.me.id,
                "term": known.term,
                "unhandled": len(known.session.pending),
            }
            for known in self._known.values()
            if known.session is not None
        ]

    def _attached(self, event: ProgramAttached) -> None:
        key = ids.job_id(event.name, event.creator)
        known = self._of(key)
        if known.session is not None:
            self._context.emit(ToProgram(known.session.number, program_frames.Replaced()))
            self._gone(known.session.number)
        known.session = _Session(event.session, event.process, event.name)
        self._sessions[event.session] = key
        self._context.emit(Subscribe(ids.program_tree(key)))
        self._say_present(key, event.session)
        if known.last is not None:  # the process before it may not have handled this
            self._deliver_multicast(known, known.last, None)

    def _gone(self, session: int) -> None:
        key = self._sessions.pop(session, None)
        if key is None:
            return
        known = self._known[key]
        assert known.session is not None
        gone, known.session = known.session, None
        for pending in gone.pending.values():
            if pending.multicast is not None:
                self._context.emit(MulticastAnswer(*pending.multicast))
        self.outbox.drop(session)
        for group in ("", *gone.groups):
            self._context.emit(Unsubscribe(ids.program_tree(key, group)))
        self._present(key, gone.name, here=False)

    def _say_present(self, key: bytes, session: int) -> None:
        known = self._known.get(key)
        if known is None or known.session is None or known.session.number != session:
            return
        self._present(key, known.session.name, here=True)
        self._context.after(self._context.jittered(PRESENT_S), lambda: self._say_present(key, session))

    def _present(self, key: bytes, name: str, *, here: bool) -> None:
        known = self._known[key]
        message = Present(
            key,
            self._context.me,
            self._context.name,
            here,
            key in self._masters,
            known.master,
            known.term,
            known.place,
        )
        self._context.route(ids.program_tree(key), message)

    # -- frames of a program ---------------------------------------------------------------------------

    def _reported(self, session: int, frame: program_frames.FromProgram) -> None:
        key = self._sessions[session]
        known = self._known[key]
        mine = known.session
        assert mine is not None
        match frame:
            case program_frames.Say():
                self._say(mine, key, known, frame)
            case program_frames.Join():
                if frame.group not in mine.groups and len(mine.groups) < GROUPS_MAX:
                    mine.groups[frame.group] = None
                    self._context.emit(Subscribe(ids.program_tree(key, frame.group)))
            case program_frames.Handled():
                self._handled(mine, frame)
            case program_frames.Follow():
                self.topics.followed(session, key, frame.topic)
            case program_frames.PostsHandled():
                self.topics.handled(key, frame.topic, frame.text)
            case program_frames.Reached():
                if frame.place > known.place:
                    known.place = frame.place
                    self._context.emit(Persist(KIND, key, program_frames.encode(frame.place)))
                    self._present(key, mine.name, here=True)

    def _say(self, mine: _Session, key: bytes, known: _Known, frame: program_frames.Say) -> None:
        program = key
        if frame.verb == "route":
            try:
                name = "/".join(split_name(frame.target))
            except ValueError as error:
                self._tell(mine.number, program_frames.Answer(frame.number, "failed", error=str(error)))
                return
            program = ids.job_id(name, frame.creator or CREATOR)
        parcel = Parcel(
            program,
            frame.verb,
            self._context.me,
            self._context.name,
            mine.process,
            frame.number,
            frame.target if frame.verb == "send_to" else "",
            known.term if frame.verb == "multicast" else 0,
        )
        self.outbox.put(mine.number, parcel, frame.body, frame.timeout_s)

    def _handled(self, mine: _Session, frame: program_frames.Handled) -> None:
        pending = mine.pending.pop((frame.process, frame.number), None)
        if pending is None:
            return
        if pending.multicast is not None:
            self._context.emit(MulticastAnswer(*pending.multicast, b"" if frame.error else HANDLED))
        elif pending.origin is not None:
            status: program_frames.Status = "failed" if frame.error else "ok"
            receipt = Receipt(frame.process, frame.number, status, frame.error)
            self._context.send(pending.origin, receipt, frame.body)

    def _tell(self, session: int, answer: program_frames.Answer) -> None:
        if session in self._sessions:
            self._context.emit(ToProgram(session, answer))

    # -- messages of other agents ----------------------------------------------------------------------

    def handlers(self) -> Handlers:
        return {
            Present: lambda sender, message, payload: self.rendezvous.on_present(message),
            Appointed: lambda sender, message, payload: self._on_appointed(message),
            Parcel: lambda sender, message, payload: self._checked(message, payload, self._on_parcel),
            Receipt: lambda sender, message, payload: self.outbox.on_receipt(message, payload),
        }

    def routed_handlers(self) -> Handlers:
        return {
            Parcel: lambda sender, message, payload: self._checked(
                message, payload, self.rendezvous.on_parcel
            )
        }

    def _checked(self, message: Parcel, payload: bytes, take: Callable[[Parcel, bytes], None]) -> None:
        if len(payload) > program_frames.MESSAGE_BYTES_MAX:
            self._context.stats["control.malformed"] += 1
        else:
            take(message, payload)

    def on_broadcast(self, event: Delivered, message: Broadcast) -> None:
        """Deliver a multicast to the program; the agent answers it when the program has handled it."""
        known = self._known.get(message.program)
        newest = known.last if known is not None else None
        if known is None or message.term < known.term or len(message.body) > program_frames.MESSAGE_BYTES_MAX:
            self._context.stats["program.fenced"] += 1
            self._context.emit(MulticastAnswer(event.tree, event.seq))
            return
        if newest is None or (newest.term, newest.number) < (message.term, message.number):
            known.last = message
        known.term = message.term
        self._deliver_multicast(known, message, (event.tree, event.seq))

    def _deliver_multicast(self, known: _Known, message: Broadcast, answer: tuple[bytes, int] | None) -> None:
        frame = program_frames.Deliver(
            message.process, message.number, "multicast", message.sender, message.body, term=message.term
        )
        pending = _Pending(len(message.body), multicast=answer)
        if not self._deliver(known, frame, pending) and answer is not None:
            self._context.emit(MulticastAnswer(*answer))

    def _on_appointed(self, message: Appointed) -> None:
        known = self._known.get(message.program)
        if known is None or message.term < known.term:
            return
        known.term, known.master = message.term, message.master
        known.place = max(known.place, message.place)
        if known.session is not None:
            master = message.master.id == self._context.me.id
            role = program_frames.Role(master, message.term, message.name, known.place)
            self._context.emit(ToProgram(known.session.number, role))

    def _on_parcel(self, message: Parcel, payload: bytes) -> None:
        known = self._known.get(message.program)
        mine = known.session if known is not None else None
        if mine is not None and known is not None and self._concerns(mine, message):
            frame = program_frames.Deliver(
                message.process,
                message.number,
                message.verb,
                message.sender,
                payload,
                group=message.group,
                term=message.term,
            )
            self._deliver(known, frame, _Pending(len(payload), origin=message.origin))
        elif message.verb == "send_to" and not message.term and message.hops < HOPS_MAX:
            self._pass_up(message, payload)
        else:
            self._context.stats["program.nobody"] += 1  # its origin sends it again

    @staticmethod
    def _concerns(mine: _Session, message: Parcel) -> bool:
        return bool(message.term) or message.verb == "route" or message.group in ("", *mine.groups)

    def _pass_up(self, message: Parcel, payload: bytes) -> None:
        tree = ids.program_tree(message.program, message.group)
        onward = replace(message, hops=message.hops + 1)
        parent = self._parents.get(tree)
        if tree in self._context.roots:
            self._context.route(ids.program_tree(message.program), onward, payload)
        elif parent is not None:
            self._context.send(parent, onward, payload)

    def _deliver(self, known: _Known, frame: program_frames.Deliver, pending: _Pending) -> bool:
        mine = known.session
        if mine is None:
            return False
        name = (frame.process, frame.number)
        if name in mine.pending:  # repeated: only the receiver of the acknowledgement may be new
            mine.pending[name] = pending
            return True
        held = sum(each.nbytes for each in mine.pending.values())
        if len(mine.pending) >= PENDING_MAX or held + pending.nbytes > PENDING_BYTES_MAX:
            self._context.stats["program.full"] += 1
            return False
        mine.pending[name] = pending
        self._context.emit(ToProgram(mine.number, frame))
        return True

    def _of(self, key: bytes) -> _Known:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known()
            for other, each in list(self._known.items()):
                if len(self._known) <= KNOWN_MAX:
                    break
                if each.session is None and other != key:
                    del self._known[other]
                    self._context.emit(Persist(KIND, other, b""))
        return known
