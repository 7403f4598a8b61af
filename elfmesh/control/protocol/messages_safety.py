"""Messages about verification, copies and outcomes.

Owns the messages of verification (`verification`), of copies of contributions (`copy_store`, `copy_sender`)
and of the outcomes of contributions (`outcomes`, `accounting`).
"""

from __future__ import annotations

import msgspec

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Caused, Contact, Count, Id, Index, Message
from elfmesh.srt.messages import SegmentEntry
from elfmesh.srt.residency import Rule


class Verify(Message, frozen=True, tag="ctl.verify"):
    """Master to member: compute the contribution to this interval again from the raw logs."""

    manifest: Manifest
    epoch: Count
    interval: Index
    token: Count


class Verified(Message, frozen=True, tag="ctl.verified"):
    """The answer to `Verify`; the payload has a part per partition, with these `sizes`."""

    job: Id
    token: Count
    number: Count
    counts: tuple[Count, ...] = ()
    sizes: tuple[Count, ...] = ()
    error: str = ""


class Keep(Message, frozen=True, tag="ctl.keep"):
    """Member to peer: store a copy of a contribution until its intervals are closed.

    Attributes:
        member: id of the member, because a master that died early may have given its number to two members.
        parts: entries per partition; the payload has those of the entries in this order.
        evaluated: see `terms.Stage`.
        rev: number of revisions of all its intervals.
        epoch: epoch of the term in which it was contributed first. A copy of a later term, or with more
            revisions in the same term, replaces an earlier copy. A later term may have another version of the
            job, and its copy fewer revisions.
        keep_in: which agents may get it; absent: all.
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
    keep_in: Rule | msgspec.UnsetType = msgspec.UNSET


class Kept(Message, frozen=True, tag="ctl.kept"):
    """Peer to member: it has stored the copy that begins at `start`, of this term, with `rev` revisions."""

    job: Id
    incarnation: str
    number: Count
    start: Index
    rev: Count = 0
    epoch: Count = 0


class Surrender(Caused, frozen=True, tag="ctl.surrender", omit_defaults=True):
    """Master to the members, multicast: send the master the copies of these members from `start` on.

    `members` is the bitmap of their numbers, empty if there is only one; `number` is the first. An agent of a
    release without `members` answers for the first one.
    """

    job: Id
    incarnation: str
    master: Contact
    epoch: Count
    number: Count
    start: Index
    members: bytes = b""


class KeptCopy(Caused, frozen=True, tag="ctl.kept_copy"):
    """The answer to `Surrender`: one copy with its payload."""

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


class PrefixIn(msgspec.Struct, frozen=True, array_like=True):
    """A closed interval that lacks the contribution of `number` contains these records of it."""

    interval: Index
    number: Count
    contributed: Count
    filtered: Count


class AskFates(Message, frozen=True, tag="ctl.ask_fates"):
    """Member to master: which of these closed intervals contain the contribution of `number`?

    `epoch` is the epoch of the roster that gave the member this number; 0 from an earlier release. A master
    of another epoch sends its roster instead of an answer, because another agent may have the number on it.
    """

    job: Id
    incarnation: str
    number: Count
    indices: tuple[Index, ...]
    epoch: Count = 0


class Fates(Message, frozen=True, tag="ctl.fates"):
    """The answer to `AskFates`, as far as the master knows it now.

    Attributes:
        job: id of the job.
        incarnation: incarnation of the job.
        number: number of the member.
        inside: intervals that contain the contribution, in the revision in `revs`.
        outside: intervals that were closed without it.
        unknown: intervals that the results log does not contain any more.
        revs: one revision for each of `inside`.
        partly: for each of `outside`, the contributed and filtered records of a prefix that it contains;
            empty if none contains any.
    """

    job: Id
    incarnation: str
    number: Count
    inside: tuple[Index, ...]
    outside: tuple[Index, ...]
    unknown: tuple[Index, ...] = ()
    revs: tuple[Count, ...] = ()
    partly: tuple[tuple[Count, Count], ...] = ()


MESSAGES: tuple[type[Message], ...] = (Verify, Verified, Keep, Kept, Surrender, KeptCopy, AskFates, Fates)
"""For the codec."""
