"""What agents say to each other so that nothing is lost and everything can be checked.

Owns the messages of verification (`verify`), of contributions that peers keep (`copy_store`, `copy_sender`)
and of what became of contributions (`outcomes`, `accounting`).
"""

from __future__ import annotations

import msgspec

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Contact, Count, Id, Index, Message
from elfmesh.srt.messages import SegmentEntry


class Verify(Message, frozen=True, tag="ctl.verify"):
    """A master to a member: compute this interval again from your raw logs."""

    manifest: Manifest
    epoch: Count
    interval: Index
    token: Count


class Verified(Message, frozen=True, tag="ctl.verified"):
    """The answer to `Verify`; the payload is one part of `sizes` per partition."""

    job: Id
    token: Count
    number: Count
    counts: tuple[Count, ...] = ()
    sizes: tuple[Count, ...] = ()
    error: str = ""


class Keep(Message, frozen=True, tag="ctl.keep"):
    """A member to a peer: keep this contribution until its intervals are closed.

    `parts` has the entries of each partition; the payload is theirs in this order. `member` is whose it is:
    a master that died young may have given its number to another as well. `evaluated`: see `terms.Stage`.
    `epoch` is that of the term in which it was contributed first, `rev` counts the revisions of all its
    intervals: a copy of a later term, or with more revisions in the same, replaces the one before. Another
    version of the job may begin with a term, so that what it says of an interval has fewer revisions.
    """

    job: Id
    incarnation: str
    member: Id
    number: Count
    start: Index
    stop: Index
    parts: tuple[tuple[SegmentEntry, ...], ...]
    evaluated: Count = 1
    rev: Count = 0
    epoch: Count = 0


class Kept(Message, frozen=True, tag="ctl.kept"):
    """The peer has the contribution that begins at `start`, of a term, with `rev` revisions, on its disk."""

    job: Id
    incarnation: str
    number: Count
    start: Index
    rev: Count = 0
    epoch: Count = 0


class Surrender(Message, frozen=True, tag="ctl.surrender", omit_defaults=True):
    """The master, multicast: agents that keep contributions of these members from `start` on send them to me.

    `members` is the bitmap of all their numbers and empty if there is one; `number` is the first. An agent
    that does not know `members` answers for the first one.
    """

    job: Id
    incarnation: str
    master: Contact
    epoch: Count
    number: Count
    start: Index
    members: bytes = b""


class KeptCopy(Message, frozen=True, tag="ctl.kept_copy"):
    """The answer to `Surrender`, with the payload of the copy."""

    epoch: Count
    copy: Keep


class Lack(msgspec.Struct, frozen=True, array_like=True):
    """The intervals [start, stop) were closed without the contributions of the numbers in `absent`."""

    start: Index
    stop: Index
    absent: bytes


class Revisions(msgspec.Struct, frozen=True, array_like=True):
    """A closed interval, and (number, revision) of each contribution in it that replaced an earlier one."""

    interval: Index
    revs: tuple[tuple[Count, Count], ...]


class AskFates(Message, frozen=True, tag="ctl.ask_fates"):
    """A member to its master: is what I contributed under `number` to these closed intervals inside?

    `epoch` is that of the roster that gives the member this number, 0 if an earlier release asks. A master of
    another epoch does not answer, because an agent may have another number on its roster.
    """

    job: Id
    incarnation: str
    number: Count
    indices: tuple[Index, ...]
    epoch: Count = 0


class Fates(Message, frozen=True, tag="ctl.fates"):
    """The answer to `AskFates`, as far as it is known now.

    Attributes:
        job: its id.
        incarnation: of the job.
        number: whose contributions.
        inside: closed with the contribution, in the revision of `revs`.
        outside: closed without it.
        unknown: the results log does not hold these any more.
        revs: one for each of `inside`.
    """

    job: Id
    incarnation: str
    number: Count
    inside: tuple[Index, ...]
    outside: tuple[Index, ...]
    unknown: tuple[Index, ...] = ()
    revs: tuple[Count, ...] = ()


MESSAGES: tuple[type[Message], ...] = (
    Verify,
    Verified,
    Keep,
    Kept,
    Surrender,
    KeptCopy,
    AskFates,
    Fates,
)
"""For the codec."""
