"""What clients want of a running job's versions: another text, the last one back, an empty batch.

Owns the step from a request to a change of the master's (`master.rollout`), and what a dry run says. Begins
no job: a change that needs new interval numbers or other trees is handed back.

Invariant: one change of a job is under way at a time; what arrives meanwhile waits for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.answers import CONFLICT, OK, error_body, respond
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import updated
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.master.activation import summary
from elfmesh.control.master.master import Master
from elfmesh.control.master.rollout import Wanted, going_back
from elfmesh.control.protocol.messages import Ask, Submit
from elfmesh.control.protocol.request_deduplication import Once, word, words

if TYPE_CHECKING:
    from elfmesh.ql.engine.changes import Difference


CHANGING_VERBS = ("undo", "empty")
VERBS = ("rollout", *CHANGING_VERBS)
CHANGES = ("pause", "resume", "delete", *CHANGING_VERBS)


def runs_already(message: Submit, master: Master | None) -> str:
    """Why a savepoint cannot be restored over a job, "" if this is no restoring or was asked for before."""
    if master is None or message.start == FIRST:
        return ""
    if message.manifest.incarnation == master.manifest.incarnation:
        return ""
    return f"{master.manifest.qualified} runs: end it first, or restore the savepoint under another name"


def changes(message: Submit | Ask) -> bool:
    return message.verb in CHANGES if isinstance(message, Ask) else not message.dry_run


class VersionHandler:
    """Changes the versions of jobs that are led here.

    Args:
        context: clock and way out.
        once: the changes that were made here.
        begin_again: has a job end and begin again with a new numbering.
        again: takes a submission that had to wait.
    """

    def __init__(
        self,
        context: Context,
        once: Once,
        begin_again: Callable[[Master, Submit], None],
        again: Callable[[Submit | Ask], None],
    ) -> None:
        self._context, self._once = context, once
        self._begin_again, self._again = begin_again, again

    def submitted(self, master: Master, message: Submit) -> None:
        """A text for a job that runs here: nothing new, a new version, or a new numbering."""
        if master.stopping:
            text = "the job is being deleted; apply it again"
            respond(self._context, message.origin, message.token, CONFLICT, error_body(text))
            return
        if self.waits(master, message):
            return
        if not message.dry_run and self._was_made(master, message):
            return
        same_labels = master.manifest.narrowed == message.manifest.narrowed
        same_labels = same_labels and master.manifest.signed == message.manifest.signed
        if same_labels and master.manifest.text.strip() == message.manifest.text.strip():
            self._unchanged(master, message)
            return
        difference = ql.compare(master.manifest.text, message.manifest.text)
        if message.dry_run:
            self._would(master, message, difference)
        elif not difference.in_place:
            self._begin_again(master, message)
        else:
            manifest = replace(
                updated(master.manifest, message.manifest), incarnation=master.manifest.incarnation
            )
            extra = (("columns", dict(difference.columns)), ("reasons", list(difference.reasons)))
            now = self._context.now
            wanted = Wanted(manifest, difference.state, message.origin, message.token, now, extra=extra)
            self._begin(master, wanted)

    def _was_made(self, master: Master, message: Submit | Ask) -> bool:
        """Whether a word was obeyed before, here or by an earlier master: it is only answered."""
        made = self._once.of(message.origin, message.token)
        if made is None and word(message.origin, message.token) in master.manifest.asked:
            made = master.manifest.incarnation
        if made is None:
            return False
        if made == master.manifest.incarnation:
            master.activation.applied(message.origin, message.token, "unchanged")
        else:
            text = error_body("this text was already applied and is no longer active")
            respond(self._context, message.origin, message.token, CONFLICT, text)
        return True

    def in_doubt(self, master: Master | None, message: Submit | Ask, job: bytes) -> bool:
        """Whether a request was passed on from here, and the job does not say that a master carried it out.

        If one did, another request for the same would change what others have asked for since.
        """
        origin, token = message.origin, message.token
        if master is not None and word(origin, token) in master.manifest.asked:
            return False
        return self._once.was_passed(origin, token, job)

    def _begin(self, master: Master, wanted: Wanted) -> None:
        origin, token = wanted.origin, wanted.token
        assert origin is not None
        self._once.made(origin, token, wanted.manifest.incarnation)
        asked = words(master.manifest.asked, word(origin, token))
        manifest = replace(wanted.manifest, asked=asked)

        def refused() -> None:
            self._once.undone(origin, token)

        master.rollouts.begin(dataclasses.replace(wanted, manifest=manifest, refused=refused))

    def asked(self, master: Master, ask: Ask) -> None:
        """Undo, empty, or how the last change went."""
        if ask.verb == "rollout":
            respond(self._context, ask.origin, ask.token, OK, status(master))
        elif self.waits(master, ask) or self._was_made(master, ask):
            return
        elif ask.verb == "undo":
            terms = master.terms
            if not terms.older:
                body = error_body("there is no version before this one", hint="Apply its text again.")
                respond(self._context, ask.origin, ask.token, CONFLICT, body)
                return
            self._begin(master, going_back(terms, self._context.now, origin=ask.origin, token=ask.token))
        else:
            manifest = replace(master.manifest, version=master.manifest.version + 1)
            now = self._context.now
            self._begin(master, Wanted(manifest, ql.RESET, ask.origin, ask.token, now, empties=True))

    def pause(self, master: Master, ask: Ask) -> None:
        """Have members stop reading, or go on: once, by a master that the register confirms.

        One that another has followed changes nothing; if it leads again, the request is still to be obeyed.
        """
        if self.waits(master, ask):
            return
        origin, token = ask.origin, ask.token
        asked = word(origin, token)
        if self._once.of(origin, token) is None and asked not in master.obeyed:
            master.obeyed.add(asked)
            master.pause(ask.verb == "pause")

        def confirmed() -> None:
            self._once.made(origin, token, master.manifest.incarnation)
            master.activation.applied(origin, token, "paused" if master.paused else "running")

        master.committer.confirm(confirmed)

    def waits(self, master: Master, message: Submit | Ask) -> bool:
        """Whether a change is under way; the message comes again when it is through."""
        running = master.rollouts.running
        if running is None:
            return False
        if running.origin is None or (running.token, running.origin.id) != (message.token, message.origin.id):
            master.rollouts.later(message, lambda: self._again(message))
        return True

    def _unchanged(self, master: Master, message: Submit) -> None:
        if message.dry_run:
            body = summary(master.terms, master.book, "unchanged") | dry_run_fields()
            respond(self._context, message.origin, message.token, OK, body)
        else:
            master.activation.applied(message.origin, message.token, "unchanged")

    def _would(self, master: Master, message: Submit, difference: Difference) -> None:
        body = summary(master.terms, master.book, difference.state)
        body |= {"version": master.manifest.version + 1, "in_place": difference.in_place}
        body |= {"columns": dict(difference.columns), "reasons": list(difference.reasons)}
        body |= {"text": master.manifest.text} | dry_run_fields()
        respond(self._context, message.origin, message.token, OK, body)


def dry_run_fields() -> dict[str, Any]:
    """What the answer to a dry run says beside its outcome."""
    return {"dry_run": True, "seconds": {"prepare": 0.0, "activate": 0.0}}


def status(master: Master) -> dict[str, Any]:
    """How the last change of a job's version went."""
    terms, rollout = master.terms, master.terms.rollout
    body = summary(terms, master.book, "unchanged" if rollout is None else rollout.state)
    silent = sorted(entry.name for entry in master.book.unacknowledged)
    body |= {"in_force": master.closer.next >= terms.effective, "waits_for": silent}
    body["usable"] = {
        "unusable_share": round(master.tally.unusable_share(terms.manifest.version), 6),
        "bound": None if rollout is None else round(rollout.bound, 6),
    }
    body["replaces"] = None if rollout is None else rollout.replaces
    body["halted"] = "" if rollout is None else rollout.halted
    body["texts"] = {str(stage.manifest.version): stage.manifest.text for stage in terms.stages}
    return body
