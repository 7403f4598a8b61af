"""A change of a job's version: the members check it, then it is in force for all from one interval (D-16).

Owns the change that is under way, and the judgement of the newest version. Evaluates nothing.

Why no interval mixes versions: the change of the register that brings the version also raises the epoch. The
trees forget the segments of the old epoch. A member takes part in the new one only with the new terms, which
name the version of each interval, and makes again the intervals that it had sealed by another version.

Invariants: one change is under way at a time; a version that a member cannot evaluate changes nothing; either
the register has the version and its first interval, or the old version goes on, whichever agent leads.

Paper: ELF 2.3, 3 and Figure 10b (new functions by multicast). Deviation: the paper's functions take effect as
they arrive; here a version takes effect at one interval, which the master chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.answers import (
    BAD_REQUEST,
    CONFLICT,
    NEW_MASTER,
    UNAVAILABLE,
    error_body,
    refusal_body,
    respond,
)
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.commit import Committer
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.context import Alarm
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import UNUSABLE, ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.signing import is_tombstone
from elfmesh.control.jobs.stages import STAGES_MAX, followed, stage_at, trimmed
from elfmesh.control.jobs.terms import Rollout, RosterEntry, Stage, Terms
from elfmesh.control.master.ports import TermView
from elfmesh.control.master.quiesce import Quiesce
from elfmesh.control.master.rendezvous import VERDICTS_S
from elfmesh.control.master.tally import Tally
from elfmesh.control.master.wanted_version import WantedVersion, going_back
from elfmesh.control.paths.layout import label_error
from elfmesh.control.protocol.messages import Ask, Submit, unpack
from elfmesh.control.protocol.messages_versions import Rehearse, Rehearsed
from elfmesh.control.register.changes import Advance, ChangeRefused
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.reports import plan_of
from elfmesh.errors import ProtocolError, Unreachable
from elfmesh.srt.events import PublishDone

REHEARSE_S = 1.5
"""How long members have to check a version. The master does not wait longer, and a member that stays silent
will be missing."""

DRAIN_S = 5.0
"""How long the intervals in flight may take until the master gives the change up."""

AHEAD = 2
"""A version begins this many intervals above the highest that a member has sealed (D-16)."""

ERROR_SHARE_MAX = 0.05
"""The master takes a version back if its share of unusable records exceeds the usual one by this."""

JUDGED_RECORDS_MIN = 20
"""Records that a judgement needs, because one of three may be unusable by chance."""


class ChangingTerm(TermView, Protocol):
    """What a change of the version needs of the master's term."""

    closer: Closer
    collection: Collection
    committer: Committer
    quiesce: Quiesce
    tally: Tally

    @property
    def proposer(self) -> Proposer:
        """Of the job's control register."""
        ...

    def promise(self, terms: Terms) -> None:
        """These terms are voted on: nothing else changes until the register has decided."""
        ...

    def deposed(self, refused: ChangeRefused) -> None:
        """The register names another master, or the job is over."""
        ...


class Rollouts:
    """The changes of one job's version in one term.

    Args:
        master: that leads the job.
        swap: called when the register has the next version, with its terms and the time at which the members
            had checked it; begins the term of this version.
    """

    def __init__(
        self, master: ChangingTerm, swap: Callable[[Terms, RegisterCell, WantedVersion, float], None]
    ) -> None:
        self._context, self._master, self._swap = master.context, master, swap
        self._wanted: WantedVersion | None = None
        self._waiting: dict[tuple[int, bytes], Callable[[], None]] = {}
        late = "the intervals in flight take too long; try again"
        self._alarm = Alarm(master.context, lambda: self._give_up(UNAVAILABLE, late))
        self._prepared_at = 0.0
        self._frontiers: list[int] = []
        self._away: frozenset[bytes] = frozenset()
        self._judged = self._bad = 0
        self._halting = False

    @property
    def running(self) -> WantedVersion | None:
        return self._wanted

    def later(self, message: Submit | Ask, call: Callable[[], None]) -> None:
        """Call `call` when no change is under way any more, once for all copies of a request."""
        self._waiting[message.token, message.origin.id] = call

    def begin(self, wanted: WantedVersion) -> None:
        """Let the members check a version, and then bring it into force."""
        terms = self._master.terms
        if len(trimmed(terms.older, terms.effective, terms.closed)) + 2 > STAGES_MAX:
            self._refuse(wanted, CONFLICT, "too many versions wait for their first interval to close")
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
            self._give_up(UNAVAILABLE, "the job is being handed over to another master; try again")
            return
        answers = [answer for _, body in sorted(done.answers) if (answer := _answer(body)) is not None]
        names = {entry.contact.id: entry.name for entry in self._master.book.active}
        named = [(names.get(each.member) or each.member.hex()[:6], each.error) for each in answers]
        errors = [f"{name}: {error}" for name, error in named if error]
        if errors := errors or self.label_errors(wanted.manifest):
            self._give_up(BAD_REQUEST, refusal_body(errors, text=wanted.manifest.text))
            return
        self._frontiers = [each.frontier for each in answers if each.frontier is not None]
        self._away = frozenset(each.member for each in answers if not each.takes_part)
        self._prepared_at = self._context.now
        self._alarm.set(DRAIN_S)
        self._master.committer.without_grant(lambda: self._freeze(wanted))

    def _freeze(self, wanted: WantedVersion) -> None:
        """Close nothing more, unless the change was given up while a grant ended."""
        if self._wanted is wanted:
            self._master.quiesce.freeze(self._drained)

    def label_errors(self, manifest: Manifest) -> list[str]:
        """Return why a version that names another label than the one before cannot be applied."""
        before, after = (read_plan(each.text).domains for each in (self._master.terms.manifest, manifest))
        new = [each for each in after if each not in before]
        error = label_error([entry.contact for entry in self._master.book.active], *new)
        return [error] if error else []

    def _drained(self) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        self._alarm.cancel()
        terms = self._next_terms(wanted)
        self._master.promise(terms)
        manifest = terms.manifest
        change = Advance(manifest.incarnation, terms.epoch, terms.version, manifest.version, plan_of(terms))
        self._master.proposer.submit(change, lambda outcome: self._decided(terms, outcome), terms)

    def _next_terms(self, wanted: WantedVersion) -> Terms:
        old = self._master.terms
        first = self._first(wanted)
        manifest, stages = wanted.manifest, old.stages
        if wanted.empties and first > old.start:
            # The windows before the first one contain all records up to the end of the last of them.
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
        usual = self._master.tally.unusable_share(old.manifest.version)
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
            self._refuse(wanted, UNAVAILABLE, NEW_MASTER)
            self._master.deposed(outcome)
        else:
            value = outcome.value
            terms = replace(terms.in_epoch(value.epoch, terms.master), acceptors=outcome.contacts)
            self._swap(terms, outcome, wanted, self._prepared_at)
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
            body["hint"] = f"{body['hint']} Version {wanted.manifest.version - 1} continues.".lstrip()
            respond(self._context, wanted.origin, wanted.token, status, body)

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for call in waiting.values():
            call()

    def stop(self) -> None:
        """The term is over, and this agent cannot know what becomes of the change."""
        self._alarm.cancel()
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._refuse(wanted, UNAVAILABLE, NEW_MASTER)
            self._go_on()

    # -- the judgement of the newest version -------------------------------------------------------------

    def published(self, record: ResultRecord) -> None:
        """A record is final: the master takes a version with too many unusable records back."""
        rollout = self._master.terms.rollout
        if rollout is None or rollout.halted or record.version != rollout.version or self._halting:
            return
        if is_tombstone(self._master.terms.manifest.signed):
            return  # a tombstone is to evaluate nothing
        used, bad = record.counts.get("contributed", 0), sum(record.counts.get(name, 0) for name in UNUSABLE)
        self._judged += used + record.counts.get("filtered", 0) + bad
        self._bad += bad
        if self._judged < JUDGED_RECORDS_MIN or self._bad <= rollout.bound * self._judged:
            return
        share, bound = 100 * self._bad / self._judged, 100 * rollout.bound
        self._halt(
            f"{share:.0f} % of the records of version {rollout.version} could not be used "
            f"(bound {bound:.0f} %), so version {rollout.replaces} continues"
        )

    def _halt(self, why: str) -> None:
        terms = self._master.terms
        if not terms.older or self._wanted is not None:
            return
        self._halting = True
        self._context.stats["control.rollouts_halted"] += 1
        self.begin(going_back(terms, self._context.now, halted=why))


def _answer(body: bytes) -> Rehearsed | None:
    try:
        message = unpack(body)
    except ProtocolError:
        return None
    return message if isinstance(message, Rehearsed) else None
