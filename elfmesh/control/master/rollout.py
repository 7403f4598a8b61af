"""Another version of a running job: rehearsed by its members, then in force for all from one interval (D-16).

Owns the change that is under way, and the watch over the version that came last. Evaluates nothing.

How no interval mixes versions: the change of the register that brings the version also raises the epoch. What
went up in the old term is forgotten by the trees, and a member takes part in the new one only by the new
terms, which say which version each interval belongs to. What it had sealed by another version it makes again.

Invariants: one change is under way at a time; a version that a member cannot evaluate changes nothing; either
the register has the version and its first interval, or the old one goes on, whichever agent leads.

Paper: ELF 2.3, 3 and Figure 10b (new functions by multicast). Deviation: the paper's take effect as they
arrive; here at one interval, chosen by the master.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.answers import BAD_REQUEST, CONFLICT, UNAVAILABLE, error_body, refusal_body, respond
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import UNUSABLE, ResultRecord
from elfmesh.control.jobs.register_value import Advance, ChangeRefused, RegisterCell
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.signing import is_tombstone
from elfmesh.control.jobs.stages import STAGES_MAX, followed, stage_at, trimmed
from elfmesh.control.jobs.terms import Rollout, RosterEntry, Stage, Terms
from elfmesh.control.master.quiesce import Quiesce
from elfmesh.control.master.rendezvous import VERDICTS_S
from elfmesh.control.protocol.messages import Ask, Submit, unpack
from elfmesh.control.protocol.messages_versions import Rehearse, Rehearsed
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.reports import plan_of
from elfmesh.errors import ProtocolError, Unreachable
from elfmesh.machine import Contact
from elfmesh.srt.events import PublishDone

REHEARSE_S = 1.5
"""How long members have to check a version; who is silent is not waited for, and missing if it stays so."""

DRAIN_S = 5.0
"""How long what is being finalised may take before a change is given up."""

AHEAD = 2
"""A version begins so many intervals above the highest that any member has sealed (D-16)."""

ERROR_SHARE_MAX = 0.05
"""More unusable records than so many beyond the usual share take a version back."""

JUDGED_RECORDS_MIN = 20
"""Records that a judgement needs: of three, one may be wrong by chance."""


@dataclass(frozen=True, slots=True)
class WantedVersion:
    """A version that a client wants.

    Attributes:
        manifest: with its number.
        state: what becomes of the agents' state, for people.
        origin: of the client, None if the master itself wants it.
        token: of its request.
        since: when it asked.
        soon: from the first interval that is open, not from one that no member has begun.
        empties: records before its first interval's end do not count.
        extra: what the client is told beside the summary.
        halted: why the version before it is taken back, "" if a client wanted that.
        refused: called if it does not come into force by this master.
    """

    manifest: Manifest
    state: str
    origin: Contact | None
    token: int
    since: float
    soon: bool = False
    empties: bool = False
    extra: tuple[tuple[str, Any], ...] = ()
    halted: str = ""
    refused: Callable[[], None] = lambda: None


class Led(Protocol):
    """What a change needs of the master around it."""

    book: RosterBook
    closer: Closer
    collection: Collection
    quiesce: Quiesce

    @property
    def terms(self) -> Terms: ...

    def promise(self, terms: Terms) -> None:
        """Nothing else changes until the register has decided about these terms."""
        ...

    def deposed(self, refused: ChangeRefused) -> None: ...

    def usual_share(self, version: int) -> float:
        """The share of unusable records in what a version has published of late."""
        ...


Renewed = Callable[[Terms, RegisterCell, WantedVersion, float], None]
"""Called with the terms and the register's value that begin the version's term, and when it was prepared."""


class Rollouts:
    """The changes of one job's version in one term.

    Args:
        context: the way out.
        proposer: of the job's register.
        master: who leads.
    """

    def __init__(self, context: Context, proposer: Proposer, master: Led) -> None:
        self._context, self._proposer, self._master = context, proposer, master
        self.on_renewed: Renewed = lambda terms, cell, wanted, prepared: None
        self._wanted: WantedVersion | None = None
        self._waiting: dict[tuple[int, bytes], Callable[[], None]] = {}
        self._timer: Timer | None = None
        self._prepared_at = 0.0
        self._frontiers: list[int] = []
        self._away: frozenset[bytes] = frozenset()
        self._judged = self._bad = 0
        self._halting = False

    @property
    def running(self) -> WantedVersion | None:
        return self._wanted

    def later(self, message: Submit | Ask, call: Callable[[], None]) -> None:
        """Call when no change is under way any more; once for a request that comes again."""
        self._waiting[message.token, message.origin.id] = call

    def begin(self, wanted: WantedVersion) -> None:
        """Have a version rehearsed, and then brought into force."""
        terms = self._master.terms
        if len(trimmed(terms.older, terms.effective, terms.closed)) + 2 > STAGES_MAX:
            self._refuse(wanted, CONFLICT, "too many changes wait for their first intervals to be closed")
            return
        self._wanted = wanted
        rehearse = Rehearse(wanted.manifest, terms.epoch)
        timeout_s = VERDICTS_S if read_plan(wanted.manifest.text).functions else REHEARSE_S
        self._context.publish(wanted.manifest.job_id, rehearse, timeout_s, self._rehearsed)

    def _rehearsed(self, done: PublishDone | None) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        if done is None or self._master.quiesce.handing_over:
            self._give_up(UNAVAILABLE, "the job is about to have another master; ask again")
            return
        answers = [answer for _, body in sorted(done.answers) if (answer := _answer(body)) is not None]
        names = {entry.contact.id: entry.name for entry in self._master.book.active}
        named = [(names.get(each.member) or each.member.hex()[:6], each.error) for each in answers]
        errors = [f"{name}: {error}" for name, error in named if error]
        if errors:
            self._give_up(BAD_REQUEST, refusal_body(errors))
            return
        self._frontiers = [each.frontier for each in answers if each.frontier is not None]
        self._away = frozenset(each.member for each in answers if not each.takes_part)
        self._prepared_at = self._context.now
        self._timer = self._context.after(
            DRAIN_S, lambda: self._give_up(UNAVAILABLE, "what is being finalised takes too long; ask again")
        )
        self._master.quiesce.freeze(self._drained)

    def _drained(self) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        terms = self._next_terms(wanted)
        self._master.promise(terms)
        manifest = terms.manifest
        change = Advance(manifest.incarnation, terms.epoch, terms.version, manifest.version, plan_of(terms))
        self._proposer.submit(change, lambda outcome: self._decided(terms, outcome), terms)

    def _next_terms(self, wanted: WantedVersion) -> Terms:
        old = self._master.terms
        first = self._first(wanted)
        manifest, stages = wanted.manifest, old.stages
        if wanted.empties and first > old.start:
            # The windows before the first one have seen everything up to the end of the last of them.
            manifest = replace(manifest, since_us=read_plan(manifest.text).window(first - 1)[1])
        following = followed(stages, Stage(first, manifest, manifest.version))
        before = stage_at(stages, first - 1) if stages[0].start < first else None
        goes_on = (
            before is not None
            and before.manifest.since_us == manifest.since_us
            and before.manifest.signed == manifest.signed
            and ql.same_records(before.manifest.text, manifest.text)
        )
        evaluated = before.evaluated if before is not None and goes_on else manifest.version
        version = self._master.book.version + 1
        usual = self._master.usual_share(old.manifest.version)
        rollout = Rollout(
            version=manifest.version,
            replaces=old.manifest.version,
            state=wanted.state,
            effective=first,
            halted=wanted.halted,
            bound=usual + ERROR_SHARE_MAX,
            usual=usual,
            change="empty" if wanted.empties else "undo" if wanted.soon else "",
        )
        return replace(
            old,
            manifest=manifest,
            version=version,
            effective=first,
            evaluated=evaluated,
            older=trimmed(following[:-1], first, old.closed),
            rollout=rollout,
            members=tuple(self._stays(entry, first) for entry in old.members),
        )

    def _first(self, wanted: WantedVersion) -> int:
        closer, start = self._master.closer, self._master.terms.start
        frontier = self._master.collection.frontier
        begun = [each for each in (closer.next, frontier, *self._frontiers) if each is not None]
        highest = max(begun)
        if highest <= start:
            return start
        return max(closer.next, start) if wanted.soon else highest + AHEAD

    def _stays(self, entry: RosterEntry, first: int) -> RosterEntry:
        if entry.until is None and entry.contact.id in self._away:
            return replace(entry, until=max(first, entry.start))
        return entry

    def _decided(self, terms: Terms, outcome: RegisterCell | ChangeRefused) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        if isinstance(outcome, ChangeRefused):
            self._refuse(wanted, UNAVAILABLE, "the job has another master since a moment ago; ask again")
            self._master.deposed(outcome)
        else:
            terms = replace(terms, epoch=outcome.value.epoch, acceptors=outcome.contacts)
            self.on_renewed(terms, outcome, wanted, self._prepared_at)
        self._go_on()

    def _give_up(self, status: int, why: str | dict[str, Any]) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        self._master.quiesce.thaw()
        self._refuse(wanted, status, why)
        self._go_on()

    def _refuse(self, wanted: WantedVersion, status: int, why: str | dict[str, Any]) -> None:
        wanted.refused()
        if wanted.origin is not None:
            body = error_body(why, code=Unreachable.exit_code) if isinstance(why, str) else why
            body["hint"] = f"{body['hint']} Version {wanted.manifest.version - 1} goes on.".lstrip()
            respond(self._context, wanted.origin, wanted.token, status, body)

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for call in waiting.values():
            call()

    def stop(self) -> None:
        """Not the master any more: this agent cannot know what becomes of the change."""
        if self._timer is not None:
            self._timer.cancel()
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._refuse(wanted, UNAVAILABLE, "the job has another master since a moment ago; ask again")
            self._go_on()

    # -- the watch over the newest version ---------------------------------------------------------------

    def published(self, record: ResultRecord) -> None:
        """A record is final: a version with too many unusable records is taken back."""
        rollout = self._master.terms.rollout
        if rollout is None or rollout.halted or record.version != rollout.version or self._halting:
            return
        if is_tombstone(self._master.terms.manifest.signed):
            return  # it was meant to evaluate nothing
        used, bad = record.counts.get("contributed", 0), sum(record.counts.get(name, 0) for name in UNUSABLE)
        self._judged += used + record.counts.get("filtered", 0) + bad
        self._bad += bad
        if self._judged < JUDGED_RECORDS_MIN or self._bad <= rollout.bound * self._judged:
            return
        share, bound = 100 * self._bad / self._judged, 100 * rollout.bound
        self._halt(
            f"{share:.0f} % of the records of version {rollout.version} could not be used "
            f"(bound {bound:.0f} %): version {rollout.replaces} goes on"
        )

    def _halt(self, why: str) -> None:
        terms = self._master.terms
        if not terms.older or self._wanted is not None:
            return
        self._halting = True
        self._context.stats["control.rollouts_halted"] += 1
        self.begin(going_back(terms, self._context.now, halted=why))


def going_back(
    terms: Terms, now: float, *, origin: Contact | None = None, token: int = 0, halted: str = ""
) -> WantedVersion:
    """The version before the newest, wanted again as the next one; `terms.older` is not empty."""
    before = terms.older[-1].manifest
    manifest = replace(before, version=terms.manifest.version + 1, asked=())
    state = ql.compare(terms.manifest.text, before.text).state
    return WantedVersion(manifest, state, origin, token, now, soon=True, halted=halted)


def _answer(body: bytes) -> Rehearsed | None:
    try:
        message = unpack(body)
    except ProtocolError:
        return None
    return message if isinstance(message, Rehearsed) else None
