"""What this agent checks for itself before it leads a job, or ends one: the master's side of `policy`.

A job's master is whichever agent the overlay names; it may carry none of the job's streams. Those who do
check the text, and a job over streams needs no more from its master. A job that reads other jobs has no
members: its master evaluates it, so its master checks it. Where versions must be signed, a job's end must be.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.answers import CONFLICT, error_body, respond
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import has_no_members
from elfmesh.control.jobs.signing import is_tombstone
from elfmesh.control.master.master import Master
from elfmesh.control.member.preflight import Preflight
from elfmesh.control.protocol.messages import Ask, Submit


class Leading:
    """The checks of one agent.

    Args:
        context: clock, way out and policy.
        preflight: of this agent.
    """

    def __init__(self, context: Context, preflight: Preflight) -> None:
        self._context, self._preflight = context, preflight

    def submitted(self, message: Submit, then: Callable[[Submit], None]) -> None:
        """Pass a submission on, unless it is of a job that this agent would evaluate and must not."""

        def checked() -> None:
            if problem := self.problem(message.manifest):
                body = error_body(f"{self._context.name}: {problem}", code=65)
                respond(self._context, message.origin, message.token, CONFLICT, body)
            else:
                then(message)

        if has_no_members(message.manifest.text):
            self._preflight.before(message.manifest, checked)
        else:
            then(message)

    def problem(self, manifest: Manifest) -> str:
        """Why this agent must not evaluate a job that reads other jobs, "" if it may; after its trial."""
        return self._preflight.error(manifest) or self._context.policy.refusal(manifest, ())

    def asked(self, ask: Ask, master: Master | None, then: Callable[[Ask], None]) -> None:
        """Pass a question on, unless it would end a job without the signature that its end needs."""
        if ask.verb == "delete" and master is not None and not self._may_end(master.terms.manifest):
            hint = "Sign it: `elf sign --tombstone JOB --serial N`, then `elf delete JOB --signature FILE`."
            body = error_body("this job ends by a signed tombstone only", hint=hint)
            respond(self._context, ask.origin, ask.token, CONFLICT, body)
        else:
            then(ask)

    def _may_end(self, manifest: Manifest) -> bool:
        return not self._context.policy.signed or bool(manifest.narrowed) or is_tombstone(manifest.signed)
