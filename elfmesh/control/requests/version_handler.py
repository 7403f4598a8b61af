"""Requests that change the version of a running job: another text, the previous version, an empty batch.

The module turns a request into a change by the master (`master.rollout`), and answers dry runs. It creates no
job: a change that needs new interval numbers or other trees is returned to `creation`.

Invariant: a job has one change at a time. Requests that arrive meanwhile wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.answers import BAD_REQUEST, CONFLICT, OK, error_body, refusal_body, respond
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest, updated
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Rollout, Terms
from elfmesh.control.master.activation import summary
from elfmesh.control.master.master import Master
from elfmesh.control.master.wanted_version import WantedVersion, going_back
from elfmesh.control.protocol.messages import Ask, Submit
from elfmesh.control.protocol.replies_changes import Applied, RolloutStatus
from elfmesh.control.requests.precondition import Seen, admits, read_seen
from elfmesh.control.requests.verbs import changes_job

if TYPE_CHECKING:
    from elfmesh.ql.engine.changes import Difference


VERSION = ("job", "incarnation", "version")
"""Fields of a tag that a change of the text makes outdated."""

DRY_RUN: dict[str, Any] = {"dry_run": True, "seconds": {"prepare": 0.0, "activate": 0.0}}
"""Fields of the reply to a dry run."""


def runs_already(message: Submit, master: Master | None) -> str:
    """Return why a savepoint cannot be restored over a job; "" if it can, or if this is not a savepoint."""
    if master is None or message.start == FIRST or read_plan(message.manifest.text).history_us is not None:
        return ""
    if message.manifest.incarnation == master.term.manifest.incarnation:
        return ""
    return f"{master.term.manifest.qualified} runs: end it first, or restore the savepoint under another name"


def _range(manifest: Manifest) -> tuple[int | None, int | None, bool]:
    plan = read_plan(manifest.text)
    return plan.history_us, plan.until_us, plan.dated


def changes(message: Submit | Ask) -> bool:
    return changes_job(message.verb) if isinstance(message, Ask) else not message.dry_run


class VersionHandler:
    """Changes the versions of the jobs of this master.

    Args:
        begin_again: ends a job and creates it again with new interval numbers.
        again: takes a request that had to wait.
    """

    def __init__(
        self,
        context: Context,
        begin_again: Callable[[Master, Submit], None],
        again: Callable[[Submit | Ask], None],
    ) -> None:
        self._context = context
        self._begin_again, self._again = begin_again, again

    def submitted(self, master: Master, message: Submit) -> None:
        """Handle a text for a running job: it changes nothing, the version, or the interval numbers."""
        if master.term.stopping:
            text = "the job is being deleted; apply it again"
            respond(self._context, message.origin, message.token, CONFLICT, error_body(text))
            return
        if self.waits(master, message):
            return
        same_labels = master.term.manifest.narrowed == message.manifest.narrowed
        same_labels = same_labels and master.term.manifest.signed == message.manifest.signed
        if same_labels and master.term.manifest.text.strip() == message.manifest.text.strip():
            self._unchanged(master, message)
            return
        if _range(master.term.manifest) != _range(message.manifest):
            hint = "Delete the job first, or give the new one another name."
            body = error_body("HISTORY and UNTIL of a running job cannot be changed", hint=hint)
            respond(self._context, message.origin, message.token, CONFLICT, body)
            return
        refused = _is_anothers(master.term.terms, message)
        if not message.dry_run and not admits(
            self._context, message, message.seen, master.term.terms, *VERSION, refused=refused
        ):
            return
        difference = ql.compare(master.term.manifest.text, message.manifest.text)
        # Agents check a version in place before it changes the job, so only the other requests are left.
        if (message.dry_run or not difference.in_place) and self._refuses_label(master, message):
            return
        if message.dry_run:
            self._would(master, message, difference)
        elif not difference.in_place:
            self._begin_again(master, message)
        else:
            manifest = replace(
                updated(master.term.manifest, message.manifest), incarnation=master.term.manifest.incarnation
            )
            extra = (("columns", dict(difference.columns)), ("reasons", list(difference.reasons)))
            now = self._context.now
            wanted = WantedVersion(
                manifest, difference.state, message.origin, message.token, now, extra=extra
            )
            master.term.rollouts.begin(wanted)

    def asked(self, master: Master, ask: Ask, tag: str) -> None:
        """Handle "undo" or "empty"."""
        if self.waits(master, ask) or master.term.activation.awaits(ask.origin, ask.token):
            return
        elif (last := _follows(master.term.terms, read_seen(tag))) and last.change == ask.verb:
            master.term.activation.applied(ask.origin, ask.token, "unchanged")
        elif not admits(self._context, ask, tag, master.term.terms, *VERSION, refused=last is not None):
            return
        elif ask.verb == "undo":
            terms = master.term.terms
            if not terms.older:
                body = error_body("there is no version before this one", hint="Apply its text again.")
                respond(self._context, ask.origin, ask.token, CONFLICT, body)
                return
            now = self._context.now
            master.term.rollouts.begin(going_back(terms, now, origin=ask.origin, token=ask.token))
        else:
            manifest = replace(master.term.manifest, version=master.term.manifest.version + 1)
            now = self._context.now
            master.term.rollouts.begin(
                WantedVersion(manifest, ql.RESET, ask.origin, ask.token, now, empties=True)
            )

    def pause(self, master: Master, ask: Ask, tag: str) -> None:
        """Pause or resume the job after the register has confirmed the master.

        A master that has a successor changes nothing, because the terms of the successor lack the pause.
        """
        paused = ask.verb == "pause"
        if self.waits(master, ask):
            return
        if master.term.paused != paused and not admits(
            self._context, ask, tag, master.term.terms, "incarnation", "pauses"
        ):
            return
        master.term.committer.without_grant(lambda: self._pause(master, ask, paused))

    def _pause(self, master: Master, ask: Ask, paused: bool) -> None:
        master.term.pause(paused)
        master.term.committer.confirm(
            lambda: master.term.activation.applied(
                ask.origin, ask.token, "paused" if master.term.paused else "running"
            )
        )

    def waits(self, master: Master, message: Submit | Ask) -> bool:
        """Whether a change is running; the message is then handled again after it."""
        running = master.term.rollouts.running
        if running is None:
            return False
        if running.origin is None or (running.token, running.origin.id) != (message.token, message.origin.id):
            master.term.rollouts.later(message, lambda: self._again(message))
        return True

    def _refuses_label(self, master: Master, message: Submit) -> bool:
        """Refuse a label in ACROSS that no member states; return whether this was done."""
        errors = master.term.rollouts.label_errors(message.manifest)
        if not errors:
            return False
        body = refusal_body(errors, text=message.manifest.text)
        body["hint"] = f"{body['hint']} Version {master.term.manifest.version} continues.".lstrip()
        respond(self._context, message.origin, message.token, BAD_REQUEST, body)
        return True

    def _unchanged(self, master: Master, message: Submit) -> None:
        if message.dry_run:
            body = summary(Applied, master.term.terms, master.term.book, "unchanged", **DRY_RUN)
            respond(self._context, message.origin, message.token, OK, body)
        else:
            master.term.activation.applied(message.origin, message.token, "unchanged")

    def _would(self, master: Master, message: Submit, difference: Difference) -> None:
        body = summary(
            Applied,
            master.term.terms,
            master.term.book,
            difference.state,
            in_place=difference.in_place,
            columns=dict(difference.columns),
            reasons=list(difference.reasons),
            text=master.term.manifest.text,
            **DRY_RUN,
        )
        body = replace(body, version=master.term.manifest.version + 1)
        respond(self._context, message.origin, message.token, OK, body)


def _follows(terms: Terms, seen: Seen | None) -> Rollout | None:
    """Return the change of the version that the client has seen, if it is the last change of the job."""
    rollout, newest = terms.rollout, terms.manifest
    if rollout is None or seen is None or seen.incarnation != newest.incarnation:
        return None
    return rollout if seen.version + 1 == rollout.version == newest.version else None


def _is_anothers(terms: Terms, message: Submit) -> bool:
    """Whether the version after the one that the client has seen is known, and has another text."""
    seen = read_seen(message.seen)
    if seen is None or seen.incarnation != terms.manifest.incarnation:
        return False
    texts = {stage.manifest.version: stage.manifest.text.strip() for stage in terms.stages}
    return texts.get(seen.version + 1, message.manifest.text.strip()) != message.manifest.text.strip()


def status(master: Master) -> RolloutStatus:
    """Return the progress of the last change of the job's version."""
    terms, rollout = master.term.terms, master.term.terms.rollout
    return summary(
        RolloutStatus,
        terms,
        master.term.book,
        "unchanged" if rollout is None else rollout.state,
        in_force=master.term.closer.next >= terms.effective,
        waits_for=sorted(entry.name for entry in master.term.book.unacknowledged),
        usable={
            "unusable_share": round(master.tally.unusable_share(terms.manifest.version), 6),
            "bound": None if rollout is None else round(rollout.bound, 6),
        },
        replaces=None if rollout is None else rollout.replaces,
        halted="" if rollout is None else rollout.halted,
        texts={str(stage.manifest.version): stage.manifest.text for stage in terms.stages},
    )
