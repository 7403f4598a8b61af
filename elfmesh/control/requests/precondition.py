"""What a client has seen of a job when it asks for a change: the precondition of that change (D-16).

Owns the text of it, the *tag*, and the answers that name one. A tag names the id of the job, the incarnation,
the version and how often the job was paused or resumed. Version 0 means that there was no job: the
incarnation is then that of its tombstone, "" without one.

A network may deliver a request minutes later, and a client's agent sends it again while it is not answered.
The tag makes both harmless, because each change makes its own tag outdated: the master, or the control
register of a new job, refuses a change whose tag does not name what is there. A job that already is what a
request asks for answers success. Otherwise the client learns what is there, and that its change was refused
if the version behind the one that it has seen is known and another's; else that the outcome is unknown.

A client that names nothing asks with `LOOK`: such a request changes nothing, and its answer is the tag. A
request without any tag is of an agent of an earlier version; it is obeyed whenever it arrives.
"""

from __future__ import annotations

from typing import NamedTuple

from elfmesh import ids
from elfmesh.control.answers import AGAIN, CONFLICT, error_body, respond
from elfmesh.control.context import Context
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages import Ask, Submit
from elfmesh.errors import ProtocolError
from elfmesh.safeguards import safeguard

LOOK = "?"
UNKNOWN, REFUSED = "unknown", "refused"


class Seen(NamedTuple):
    """A tag, read."""

    job: bytes
    incarnation: str = ""
    version: int = 0
    pauses: int = 0

    def __str__(self) -> str:
        return f"{self.job.hex()}.{self.incarnation}.{self.version}.{self.pauses}"


def read_seen(text: object) -> Seen | None:
    """A tag of a request; None if it has none, or only looks.

    Raises:
        ProtocolError: not a tag.
    """
    if not text or text == LOOK:
        return None
    try:
        job, incarnation, version, pauses = str(text).split(".")
        seen = Seen(bytes.fromhex(job), incarnation, int(version), int(pauses))
    except ValueError:
        raise ProtocolError(f"not what a job was seen as: {str(text)[:80]!r}") from None
    if len(seen.job) != ids.ID_BYTES:
        raise ProtocolError("a job was seen under what is no id")
    return seen


def seen_of(terms: Terms) -> Seen:
    """What there is of a job that runs."""
    manifest = terms.manifest
    return Seen(manifest.job_id, manifest.incarnation, manifest.version, terms.pauses)


def admits(
    context: Context, message: Submit | Ask, tag: str, terms: Terms, *names: str, refused: bool = False
) -> bool:
    """Whether a change may be made of a job that runs; if not, its client is answered.

    `names`: the fields of the tag that the change makes outdated. `refused`: no copy of it was obeyed,
    because the version behind the one seen is another's.
    """
    seen, there = read_seen(tag), seen_of(terms)
    if tag == LOOK:
        answer_seen(context, message, there)
    elif seen is not None and not holds(seen, there, names):
        outdated(context, message, there, REFUSED if refused else UNKNOWN)
    else:
        return True
    return False


@safeguard("as-it-was-seen:master")
def holds(seen: Seen, there: Seen, names: tuple[str, ...]) -> bool:
    return all(getattr(seen, name) == getattr(there, name) for name in names)


def answer_seen(context: Context, message: Submit | Ask, seen: Seen) -> None:
    """Answer a request that asked with `LOOK`: its agent asks again and names what there is."""
    respond(context, message.origin, message.token, AGAIN, {"seen": str(seen)})


def outdated(context: Context, message: Submit | Ask, seen: Seen, outcome: str = UNKNOWN) -> None:
    """Answer a request whose tag is outdated: an earlier copy of it may have made its change, or not."""
    there = f"it is at version {seen.version} now" if seen.version else "there is no such job now"
    what = "the change is refused" if outcome == REFUSED else "the outcome is unknown"
    text = f"the job has changed since it was looked at, and {what}: {there}"
    hint = "Look at the job, and ask again if it is not what you want."
    body = error_body(text, hint=hint) | {"outcome": outcome, "version": seen.version, "seen": str(seen)}
    context.stats["control.outdated_requests"] += 1
    respond(context, message.origin, message.token, CONFLICT, body)
