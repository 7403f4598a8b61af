"""The trees of one job as its master sees them: orders to their roots, and the closed watermark.

Owns the closed watermark on its way to the members, and the roots of the partitions. Closes nothing.

Invariant: only the root of the job's own tree publishes a watermark, a little after the records below it. A
gateway passes it on in the tree of its group, because the job's own tree crosses a link between groups for
nearly each member. That tree carries it every `OWN_TREE_S`, for members that no gateway reaches: theirs is
gone, or of an earlier release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from elfmesh import ids
from elfmesh.control.closing.outcomes import Lacking
from elfmesh.control.context import Alarm
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.master.ports import TermView
from elfmesh.control.paths.layout import by_group, copies_of, group_trees
from elfmesh.control.paths.layouts import Layouts
from elfmesh.control.protocol.messages import Mark
from elfmesh.control.protocol.messages_parts import PartRoot, TreeOrder
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.events import Hasten, Recollect, Release
from elfmesh.srt.messages import Segment

WATERMARK_S = 0.25
"""How long closed watermarks are collected, so that all intervals of a quarter second cost one multicast."""

WATERMARK_TIMEOUT_S = 2.0

OWN_TREE_S = 30.0
"""How often the job's own tree carries the watermark of a job with gateways."""


class TreesTerm(TermView, Protocol):
    """The term whose trees are claimed."""

    layouts: Layouts


class JobTrees:
    """Sends the orders of one master to its trees.

    Args:
        term: of the master.
        lacking: the members that are missing in each interval.
    """

    def __init__(self, term: TreesTerm, lacking: Lacking) -> None:
        self._context, self._term, self._lacking = term.context, term, lacking
        first = term.terms
        self._job, self._partitions = first.manifest.job_id, first.manifest.partitions
        self._epoch, self._roster_epoch = first.epoch, first.roster_epoch
        self._stated = first.stated_roster_epoch
        self._roots: dict[tuple[int, bytes | None], Contact] = {}
        """By partition and the tree of a group, None for the job's own tree."""
        self._ordered: list[tuple[int, int, int, int]] = []
        """Collections that were ordered again for open intervals: partition, start, stop, attempt."""
        self._has_groups = False
        self._copies: dict[bytes, int] = {}
        self._announced, self._own_tree_at = first.closed, float("-inf")
        self._alarm, self._stopped = Alarm(self._context, self._publish), False

    def claim(self) -> None:
        """Claim the roots of the partitions and groups: they send their segments to this master."""
        terms = self._term.terms
        layout = terms.layout or None
        gateways = () if layout is None else layout.gateways
        groups = [group_trees(self._job, self._partitions, gateway) for gateway in gateways]
        self._has_groups = bool(groups)
        if layout is not None:
            self._copies |= copies_of(self._job, self._partitions, layout)
        known = {tree for trees in groups for tree in trees}
        self._roots = {key: root for key, root in self._roots.items() if key[1] is None or key[1] in known}
        self._ordered = [each for each in self._ordered if each[2] > terms.closed]
        for partition in range(1, self._partitions):
            tree = ids.partition_tree(self._job, partition)
            self._context.route(tree, PartRoot(self._job, partition, *self._about()))
        for gateway, trees in zip(gateways, groups, strict=True):
            for tree, claim in self._claims(gateway.contact, trees):
                self._context.route(tree, claim)

    def revive(self, gateway: Contact) -> None:
        """Claim the trees of a gateway at once, because one of its paths carries parts again."""
        layout = self._term.terms.layout or None
        for each in () if layout is None else layout.gateways:
            if each.contact.id == gateway.id:
                for _, claim in self._claims(gateway, group_trees(self._job, self._partitions, each)):
                    self._context.send(gateway, claim)

    def _about(self) -> tuple[Contact, int, int, int | UnsetType]:
        return self._context.me, self._epoch, self._term.terms.closed, self._stated

    def _claims(self, gateway: Contact, trees: Sequence[bytes]) -> Iterator[tuple[bytes, PartRoot]]:
        """Yield the claims of a gateway's trees, with the sites whose paths are live."""
        layout, idle = self._term.terms.layout or None, self._term.layouts.idle_paths.idle
        others = () if layout is None else layout.sites[1:]
        sites = tuple(each for each in others if (gateway.id, each.id) not in idle)
        is_idle = (gateway.id, self._context.me.id) in idle
        for partition, tree in enumerate(trees):
            about = self._job, partition, *self._about()
            yield tree, PartRoot(*about, tree, sites or UNSET, is_idle or UNSET)

    def copy_of(self, tree: bytes | None) -> int:
        """Return the number of the copy that a tree is, or was in an earlier layout of this term."""
        return 0 if tree is None else self._copies.get(tree, 0)

    def arrived(self, partition: int, tree: bytes | None, root: Contact, segment: Segment) -> None:
        """The root of a tree has sent a part.

        A partition has one number of attempts, because its parts are in one store. So all its trees follow
        the one that has begun another attempt by itself, and one that is new follows those before it.
        """
        key = partition, tree
        is_new = key not in self._roots
        if partition or tree is not None:
            self._roots[key] = root
        if self._has_groups:
            for ordered in [each for each in self._ordered if is_new and each[0] == partition]:
                self._order(key, *ordered[1:], recollect=True)
            self._follow(partition, segment)

    @safeguard("one-attempt-for-all-groups")
    def _follow(self, partition: int, segment: Segment) -> None:
        start, stop, attempt = segment.start, segment.stop, segment.attempt
        ordered = any(
            at == partition and low <= start and stop <= high and attempt <= known
            for at, low, high, known in self._ordered
        )
        if attempt and not ordered:
            self.recollect(start, stop, partition, attempt)

    def hasten(self, stop: int) -> None:
        if self._job in self._context.roots:
            self._context.emit(Hasten(self._job, stop, self._roster_epoch))
        for key in self._roots:
            self._order(key, FIRST, stop, 0, recollect=False)

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        self._ordered.append((partition, start, stop, attempt))
        if partition == 0 and self._job in self._context.roots:
            self._context.emit(Recollect(self._job, start, stop, attempt, self._roster_epoch))
        for key in [key for key in self._roots if key[0] == partition]:
            self._order(key, start, stop, attempt, recollect=True)

    def _order(
        self, key: tuple[int, bytes | None], start: int, stop: int, attempt: int, *, recollect: bool
    ) -> None:
        partition, tree = key
        about = (self._job, partition, self._epoch, start, stop, attempt, recollect, self._stated)
        if key in self._roots:
            self._context.send(self._roots[key], TreeOrder(*about, tree or UNSET))

    def watermark(self) -> Mark:
        terms = self._term.terms
        lacked_from, lacks, revised, partly = self._lacking.notified(terms.closed)
        return Mark(
            self._job,
            terms.manifest.incarnation,
            self._epoch,
            terms.version,
            terms.closed,
            lacked_from,
            lacks,
            revised,
            partly,
        )

    def watermark_soon(self) -> None:
        """The closed watermark has grown: publish it soon."""
        if not self._alarm.is_set and not self._stopped:
            self._alarm.set(WATERMARK_S)

    def stop(self) -> None:
        self._alarm.cancel()
        self._stopped = True

    def _publish(self) -> None:
        watermark = self.watermark()
        if watermark.closed <= self._announced:
            return
        if self._job not in self._context.roots:
            self.watermark_soon()
            return
        self._context.note("watermark", self._job, self._announced, watermark.closed)
        self._announced = watermark.closed
        self._term.book.forget_below(watermark.closed)
        self._context.emit(Release(self._job, watermark.closed, self._roster_epoch))
        layout, now = self._term.terms.layout or None, self._context.now
        for gateways in () if layout is None else by_group(layout).values():
            present = [each for each in gateways if not self._context.is_gone(each.id)]
            self._context.send((present or gateways)[0], watermark)
        if layout is None or not layout.gateways or now - self._own_tree_at >= OWN_TREE_S:
            self._own_tree_at = now
            self._context.publish(self._job, watermark, WATERMARK_TIMEOUT_S, lambda done: None)
