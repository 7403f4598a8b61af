"""Terms of a job: the state on which a master, its members and its successor agree.

Owns these types. Only the master changes the terms.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec.structs import replace

from elfmesh.control.jobs.manifest import Incarnation, Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.machine import Contact, Count, Index
from elfmesh.srt.residency import ANYWHERE, Rule


class Participant(msgspec.Struct, frozen=True, array_like=True):
    """A member of a job, as it enrols; see `RosterEntry`."""

    contact: Contact
    name: str
    keep_in: Rule = ANYWHERE
    stands_by: bool = False


class RosterEntry(msgspec.Struct, frozen=True, array_like=True):
    """One numbered member.

    Attributes:
        number: its bit in coverages; it is never given to another member.
        contact: its contact.
        name: the name to show.
        start: first interval in which it is expected.
        until: first interval in which it is not expected any more; None while it is a member.
        ahead: it has left at once: copy hosts have its intervals up to `until`, which it has sealed before
            their time, so they make no interval due.
        keep_in: which agents may get its data.
        stands_by: whether it takes the open panes of other members; agents of earlier releases do not.
    """

    number: Count
    contact: Contact
    name: str
    start: Index = FIRST
    until: Index | None = None
    ahead: bool = False
    keep_in: Rule = ANYWHERE
    stands_by: bool = False

    @property
    def participant(self) -> Participant:
        return Participant(self.contact, self.name, self.keep_in, self.stands_by)


class Stage(msgspec.Struct, frozen=True, array_like=True):
    """One version of a job and its first interval (D-16).

    Attributes:
        start: its first interval; it ends where the next stage starts.
        manifest: the version.
        evaluated: the version with whose text agents evaluate records; it is an earlier one if only the final
            part of the query has changed, so that agents keep their state.
    """

    start: Index
    manifest: Manifest
    evaluated: Count


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the last change of a job's version.

    Attributes:
        version: the new version.
        replaces: the version before it.
        state: what happens to the agents' state: "keep", "warm up" or "reset".
        effective: first interval of the new version.
        halted: why the master took it back; "" if it did not.
        bound: share of unusable records above which the master takes it back.
        usual: the share of unusable records of the version before it.
        change: "undo" or "empty" if such a request caused the change; "" if a new text did.
    """

    version: Count
    replaces: Count
    state: str
    effective: Index
    halted: str = ""
    bound: float = 0.0
    usual: float = 0.0
    change: str = ""


class Numbering(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier numbering of a job's intervals, which readers may not have read to its end.

    Attributes:
        incarnation: its name.
        first: index of its first record; None if it is not known.
        latest: index of its last record.
    """

    incarnation: Incarnation
    first: Index | None
    latest: Index


EARLIER_MAX = 32
"""Maximum number of earlier numberings in terms; each has some 60 bytes."""


class Gateway(msgspec.Struct, frozen=True, array_like=True):
    """The agent at the root of the trees of one group of members."""

    group: str
    contact: Contact


class PathLayout(msgspec.Struct, frozen=True, array_like=True):
    """Where the contributions of a job are reduced before they go to its master (`paths.layout`).

    Attributes:
        label: the failure domain whose values are the groups.
        gateways: one for each group. Members of no such group contribute to the job's own trees.
        sites: the agents that get the parts of all groups, the master first; empty if the master is alone.
    """

    label: str
    gateways: tuple[Gateway, ...]
    sites: tuple[Contact, ...] = ()


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """State on which a master, its members and its successor agree.

    Attributes:
        manifest: the newest version.
        master: master of this epoch.
        epoch: term of the master.
        version: version of the roster; it grows with each change.
        start: first interval of this incarnation.
        closed: first interval that is not closed.
        paused: whether members do not read, because the user has paused the job.
        pauses: how often the job was paused or resumed.
        members: the roster.
        acceptors: voters in the job's control register, as far as known.
        effective: first interval of the newest version.
        evaluated: see `Stage`; 0: its own version.
        older: earlier versions that have open intervals or may be restored.
        rollout: result of the last change of the version, for display.
        earlier: numberings before this one that have records, oldest first.
        given_in: (number, epoch): the epoch in which the numbers of the roster from this one on were given
            (`roster.has_number`). Empty from an earlier release.
        stated_roster_epoch: the roster epoch, absent if it is the epoch. Earlier releases ignore it.
        standbys: numbers of the members that ship their open panes to a standby (`replicas.standby_plans`);
            absent: all of them, if the job has STANDBY. A wrong plan costs a prefix, never a row.
        layout: absent if the job's own trees reduce all contributions. A wrong one costs time, never a row.
    """

    manifest: Manifest
    master: Contact
    epoch: Count
    version: Count = 0
    start: Index = FIRST
    closed: Index = FIRST
    paused: bool = False
    pauses: Count = 0
    members: tuple[RosterEntry, ...] = ()
    acceptors: tuple[Contact, ...] = ()
    effective: Index = FIRST
    evaluated: Count = 0
    older: tuple[Stage, ...] = ()
    rollout: Rollout | None = None
    earlier: tuple[Numbering, ...] = ()
    given_in: tuple[tuple[Count, Count], ...] = ()
    stated_roster_epoch: Count | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="roster_epoch")
    layout: PathLayout | msgspec.UnsetType = msgspec.UNSET
    standbys: tuple[Count, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def roster_epoch(self) -> int:
        """The number that fences contributions (D-5): in a new roster epoch all members contribute again."""
        return self.stated_roster_epoch or self.epoch

    def in_epoch(self, epoch: int, master: Contact) -> Terms:
        """Return the terms of a new epoch, which begins a new roster epoch.

        The master before may have announced numbers that no successor knows, so contributions under them must
        not meet those of the new roster.
        """
        return replace(self, epoch=epoch, master=master, stated_roster_epoch=msgspec.UNSET)

    def numberings(self, first: int | None, latest: int | None) -> tuple[Numbering, ...]:
        """Return the earlier numberings of the next numbering.

        Args:
            first: index of the oldest record of the present numbering.
            latest: index of its newest record; None if it has none.
        """
        if latest is None:
            return self.earlier
        own = Numbering(incarnation=self.manifest.incarnation, first=first, latest=latest)
        return (*self.earlier, own)[-EARLIER_MAX:]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All known versions, oldest first."""
        newest = Stage(self.effective, self.manifest, self.evaluated or self.manifest.version)
        return (*self.older, newest)


class CurrentTerms(Protocol):
    """Gives the terms of a job as they are now: a master's, or those of a copy that no master updates."""

    @property
    def terms(self) -> Terms: ...
