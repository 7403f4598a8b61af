"""Reads a request to apply the text of a job, at the agent of the client.

The module checks what needs no other agent: the text, its signature, the canary, and the interval to resume
at. It sends nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from elfmesh.control.answers import error_body, error_of
from elfmesh.control.jobs.manifest import CREATOR, Manifest, canary_of, new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.resuming import resumed_at, within_range
from elfmesh.control.jobs.signing import decode_envelope
from elfmesh.errors import DataError, QueryError


class Submission(NamedTuple):
    """A job to apply.

    Attributes:
        manifest: its manifest, without an incarnation.
        first: the interval at which it begins, FIRST if its records decide that.
        dry_run: only report what it would do.
        update: change this job only; otherwise create it if there is none.
    """

    manifest: Manifest
    first: int
    dry_run: bool
    update: bool


def read_submission(body: dict[str, Any], wall_us: int) -> Submission | dict[str, Any]:
    """Return the job that a request describes, or the JSON of the error that the client gets."""
    text, creator = body.get("text"), body.get("creator") or CREATOR
    if not isinstance(text, str) or not isinstance(creator, str):
        return error_body("apply needs the text of a job", code=2, hint='Send {"text": "CREATE JOB ..."}.')
    signed = str(body.get("signed") or "").encode()
    try:
        job, _ = read_job(text, source=str(body.get("source") or "query"))
        if signed:
            decode_envelope(signed)
        manifest, first = (
            new_manifest(job, text, creator, created=wall_us, incarnation="", signed=signed),
            FIRST,
        )
        if canary := body.get("canary"):
            manifest = canary_of(manifest, {str(key): str(value) for key, value in dict(canary).items()})
        if (asked_first := body.get("first")) is not None:
            manifest, first = resumed_at(manifest, asked_first)
        else:
            manifest, first = within_range(manifest, wall_us, leased=bool(body.get("leased")))
    except (QueryError, DataError) as error:
        return error_of(error)
    wanted = body.get("job")
    if wanted is not None and wanted != f"{job.namespace}/{job.name}":
        text = f"this is the text of {job.namespace}/{job.name}, not of {wanted}"
        hint = f"Begin it with CREATE JOB {str(wanted).replace('/', '.')} AS."
        return error_body(text, hint=hint, code=65)
    return Submission(manifest, first, bool(body.get("dry_run")), wanted is not None and not canary)
