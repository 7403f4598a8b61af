"""What sites append and hold: the members of a record that votes close, and parts that a master lacks.

A site names the members that are expected in a record of votes, because the master may be dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.control.master.master import Master
from elfmesh.control.paths.layout import group_trees
from elfmesh.control.paths.part_requests import ANSWER_S
from elfmesh.control.paths.site_parts import HeldPart
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages_parts import Part, SitePart
from elfmesh.machine import Effect, Event, Received
from elfmesh.srt.coverage import bits_of

if TYPE_CHECKING:
    from tests.sim.swarm.judging.outcome import Outcome

_PARTS = (Part, SitePart)
AT_SITES = "appended at sites"
"""Name of the counter of records that sites append under a grant, each site for itself."""

REACHED_S = 4 * ANSWER_S
"""A site counts if the master has reached it for as long."""

ON_THE_WAY_S = 2.0
"""Until what has reached a site is at the master; a request that was lost is repeated meanwhile."""

LOSS_MAX = 0.02
"""Share of lost messages up to which one of two requests and answers arrives."""


def at_site(local: LocalAgent, appended: ctl.Append) -> tuple[str, ...] | None:
    """Return the members expected in a record; None unless the agent appends it as a site under a grant."""
    site, record = local.control.sites._sites.get(appended.job), appended.record
    if site is None or site._grant.epoch != record.epoch or record.index < site._grant.first:
        return None
    return tuple(site.book.names(site.book.required(record.index)))


class ControlSteps:
    """Counts the steps of an agent's control machine.

    Most steps of an agent are pings, and acknowledgements in trees. They change nothing that the control
    machine knows, so a watch of its state need not look at it again after them.
    """

    def __init__(self, local: LocalAgent) -> None:
        self._taken = 0
        step = local.control.step

        def counted(event: Event, now: float) -> list[Effect]:
            self._taken += 1
            return step(event, now)

        local.control.step = counted  # type: ignore[method-assign]  # listens in

    def watch(self) -> Callable[[], bool]:
        """Return what says whether the machine has made a step since it was last called."""
        seen = self._taken

        def moved() -> bool:
            nonlocal seen
            before, seen = seen, self._taken
            return before != seen

        return moved


@dataclass(frozen=True, slots=True)
class LeftOut:
    """At `at`, a master ended an interval without members of which a site had held a part since `since`."""

    at: float
    since: float
    master: str
    site: str
    interval: str


@dataclass
class SiteWatch:
    """The parts that the agents of one run have received, and what its sites have shown.

    Attributes:
        shown: by job and incarnation, the records that sites have shown before they were closed.
        partial: how many intervals of jobs with sites ended without a member.
        left_out: those that a site had a part for.
    """

    shown: dict[tuple[str, str], list[tuple[ResultRecord, bytes]]] = field(default_factory=dict)
    partial: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    _names: dict[bytes, str] = field(default_factory=dict)
    _agents: dict[bytes, LocalAgent] = field(default_factory=dict)
    _received: dict[tuple[bytes, bytes, HeldPart], float] = field(default_factory=dict)

    def tap(self, host: str, local: LocalAgent, now: Callable[[], float], steps: ControlSteps) -> None:
        """Note which parts this agent receives, and what it decides as a master."""
        me, step = local.pump.me.id, local.core.step
        self._names[me], self._agents[me] = host, local
        reached: dict[tuple[bytes, int], int] = {}
        lines: dict[tuple[bytes, str], int] = {}
        moved = steps.watch()

        def noted(event: Event, at: float) -> list[Effect]:
            if type(event) is Received and isinstance(message := event.message, _PARTS):
                key = HeldPart(message.partition, message.tree or None, message.segment)
                self._received.setdefault((me, message.job, key), now())
            effects = step(event, at)
            if not moved():
                return effects
            for job, site in local.control.sites._sites.items():
                manifest = site._term.stages[-1].manifest
                shown = self.shown.setdefault((manifest.qualified, manifest.incarnation), [])
                for number, record, rows in site.lines.since(
                    lines.get((job, site.lines.source), 0), FIRST, early=False
                ):
                    lines[job, site.lines.source] = number
                    shown.append((record, rows))
            for job, master in local.control.leadership.masters.items():
                term, upto = (job, master.term.epoch), master.term.closer.next
                if reached.setdefault(term, upto) != upto:
                    self._decided(master, reached[term], now())
                    reached[term] = upto
            return effects

        local.core.step = noted  # type: ignore[method-assign, assignment]  # listens in

    def _decided(self, master: Master, start: int, now: float) -> None:
        """A master has decided intervals from `start` on."""
        term, layout = master.term, master.term.layouts.layout
        if layout is None:
            return
        for closing in term.closer._closing:
            record, missing = closing.record, 0 if closing.decision is None else closing.decision.missing
            if record.index < start or record.state != "FINAL_PARTIAL" or record.reason or record.revs:
                continue
            self.partial += 1
            me = term.context.me.id
            gateways = [each for each in layout.gateways if each.contact.id == me]
            own = {
                tree for each in gateways for tree in group_trees(term.job, len(term.collection.trees), each)
            }
            for site in layout.sites[1:]:
                local = self._agents.get(site.id)
                for key, _ in [] if local is None else local.control.member_host.site_parts.of(term.job):
                    segment, since = key.segment, self._received.get((site.id, term.job, key))
                    is_of = (
                        segment.epoch == term.roster_epoch and segment.start <= record.index < segment.stop
                    )
                    lacked = (me, term.job, key) not in self._received and key.tree not in own
                    if is_of and lacked and since is not None and bits_of(segment.coverage) & missing:
                        names = self._names[me], self._names[site.id]
                        text = f"{record.job} {record.index} without {record.missing}"
                        self.left_out.append(LeftOut(now, since, *names, text))


def i19_partial_records_lack_nothing_that_a_site_has(out: Outcome) -> Iterator[str]:
    """A record without a member lacks no part that a site had, if the master has reached the site."""
    weather = out.scenario.weather
    if weather.faults.loss > LOSS_MAX or weather.stall:
        return
    for each in out.history.sites.left_out:
        apart = (*out.cut_off.get(frozenset((each.master, each.site)), ()), *out.absent.get(each.site, ()))
        reached = all(to < each.at - REACHED_S or since > each.at for since, to in apart)
        if reached and each.since < each.at - ON_THE_WAY_S:
            yield f"{each.interval}: {each.site} had it for {each.at - each.since:.1f} s"


def i20_shown_records_are_the_final_ones(out: Outcome) -> Iterator[str]:
    """What a site shows of a complete interval is tentative, and is its final record without revisions."""
    for key, shown in out.history.sites.shown.items():
        for record, rows in shown:
            if record.state != "TENTATIVE" or record.completeness != 1.0:
                yield f"{key[0]} {record.index}: shown as {record.state}, {record.completeness}"
            final, final_rows = out.final.get(key, {}).get(record.index, (record, rows))
            alike = (
                final.state == "FINAL" and not final.revs and final.agents_expected == record.agents_expected
            )
            if (
                alike
                and final.version == record.version
                and (final.counts, final_rows) != (record.counts, rows)
            ):
                yield f"{key[0]} {record.index}: shown with {record.counts}, closed with {final.counts}"
