"""Checks of an agent before it leads or ends a job: the master's side of `policy`.

The overlay determines the master of a job, which may have none of the job's streams. The members of a job
over streams check its text. The master checks a job that reads other jobs, because such a job has no members
and its master evaluates it. Where the policy requires signed versions, it also requires a signed end of a
job.
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
from elfmesh.control.member.required_label import label_refusal
from elfmesh.control.protocol.messages import Ask, Submit


class Leading:
    """The checks of one agent.

    Args:
        context: clock, effects and policy.
        preflight: preflight of this agent.
    """

    def __init__(self, context: Context, preflight: Preflight) -> None:
        self._context, self._preflight = context, preflight

    def on_submit(self, message: Submit, then: Callable[[Submit], None]) -> None:
        """Pass on a submission, unless this agent would have to evaluate the job and must not."""

        def checked() -> None:
            if problem := self.problem(message.manifest) or self._label_refusal(message.manifest):
                body = error_body(f"{self._context.name}: {problem}", code=65)
                respond(self._context, message.origin, message.token, CONFLICT, body)
            else:
                then(message)

        if has_no_members(message.manifest.text):
            self._preflight.before(message.manifest, checked)
        else:
            then(message)

    def problem(self, manifest: Manifest) -> str:
        """Return why this agent must not evaluate a job that reads other jobs; "" if it may.

        The preflight of the job must have ended.
        """
        return self._preflight.error(manifest) or self._context.policy.refusal(manifest, ())

    def _label_refusal(self, manifest: Manifest) -> str:
        require = self._context.policy.require
        return label_refusal(require, f"{manifest.namespace}/{manifest.name}", manifest.text)

    def on_ask(self, ask: Ask, master: Master | None, then: Callable[[Ask], None]) -> None:
        """Pass on a request, unless it would end a job without the required signature."""
        if ask.verb == "delete" and master is not None and not self._may_end(master.term.terms.manifest):
            hint = "Sign it: `elf sign --tombstone JOB --serial N`, then `elf delete JOB --signature FILE`."
            body = error_body("this job ends by a signed tombstone only", hint=hint)
            respond(self._context, ask.origin, ask.token, CONFLICT, body)
        else:
            then(ask)

    def _may_end(self, manifest: Manifest) -> bool:
        return not self._context.policy.signed or bool(manifest.narrowed) or is_tombstone(manifest.signed)
