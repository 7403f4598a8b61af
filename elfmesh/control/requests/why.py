"""What delays a job, and which agents its results lack.

The module names the first open interval, the agents that the master waits for, dead agents, and the agents
that the newest record lacks. It reads a master and changes nothing.
"""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET, UnsetType

from elfmesh.control.closing.stores.replica_buffers import covered_in_all, frontier_in_all
from elfmesh.control.context import Context
from elfmesh.control.election.election import Attempt
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.roster import called
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.replies import DelayingAgent, SiteVotes, Span, Why
from elfmesh.control.requests.describe import head_of, shown_interval, voters_without_votes
from elfmesh.control.requests.paths_plan import planned_cost, planned_standbys
from elfmesh.interval_map import bits, numbers
from elfmesh.ql.values.row_json import iso_us
from elfmesh.units import format_duration

SHOWN_MAX = 256
"""Maximum number of agents in a reply."""

CONTRIBUTING = "waiting for agents to contribute"
"""Stage in which agents delay the interval."""

IN_TIME = "in time"
"""Stage in which no interval is due."""

NAMED = 3
"""Maximum number of agents in the sentence."""

READING = "waiting for the job that it reads"
"""Stage of a job that waits for intervals of the jobs that it reads."""

UNANSWERED_S = 1.0
"""Time after which `why` shows that no majority of the voters answers."""


def explanation(context: Context, master: Master) -> Why:
    """Return what delays the first open interval of a job."""
    closer, collection, book = master.term.closer, master.term.collection, master.term.book
    index = master.term.held
    due = collection.due_since(index)
    is_due = closer.idle and due is not None
    required, inside = book.required(index), covered_in_all(collection.trees, index)
    missing = collection.missing() if is_due else required & ~inside & bits(collection.straggler_policy.dead)
    newest = master.tally.recent[-1] if master.tally.recent else None
    agents = [_agent(context, master, number, index) for number in numbers(missing)[:SHOWN_MAX]]
    stage = _stage(master, due, missing if is_due else 0)
    shown = shown_interval(index)
    held = None if due is None else round(context.now - due, 3)
    sites = _sites(master, index)
    return Why(
        job=master.term.manifest.qualified,
        state=master.term.state,
        interval=None if shown is None else Span(shown, *map(iso_us, master.term.plan.window(shown))),
        held_for_seconds=held,
        stage=stage,
        tentative_rev=closer.tentative.rev(index),
        inside=(required & (~missing if is_due else inside)).bit_count(),
        expected=required.bit_count(),
        agents=agents,
        newest=None if newest is None else head_of(newest),
        missing=sorted({*book.names(missing), *(newest.missing if newest is not None else ())}),
        reads=closer.waits_for(),
        voters_without_votes=voters_without_votes(master),
        sites=sites,
        because=_sentence(stage, agents, len(numbers(missing)), held, master)
        + _lags(agents)
        + _lacking(newest)
        + _prefixes(newest)
        + _without_rows(master)
        + _without_standby(master)
        + _voters(master)
        + _votes(sites, is_due=is_due)
        + _expected(master)
        + _idle(context, master)
        + _names(master)
        + _waiting(context),
    )


def _expected(master: Master) -> str:
    """State how long a record takes by the latencies of the layout, for comparison."""
    found = master.term.layouts.expectation
    if found is None:
        return ""
    by = found.by_votes if master.term.committer.is_granted else found.by_master
    return f"; by the latencies of its layout, a record takes {by:.3f} s from the last seal"


def _idle(context: Context, master: Master) -> str:
    """Name the paths that carry nothing, because of COST."""
    cost = planned_cost(context, master)
    if cost is None or not cost.idle:
        return ""
    named = _named([f"{each.gateway} -> {each.site}" for each in cost.idle])
    return f"; COST keeps {cost.live} of {cost.paths} paths; idle until they are requested: {named}"


def _lacking(newest: ResultRecord | None) -> str:
    if newest is None or not newest.missing:
        return ""
    inside = f"{newest.agents_in} of {newest.agents_expected} agents"
    return (
        f"; the newest record (interval {newest.index}, {newest.state}) has {inside}"
        f" and lacks {_named(newest.missing)}"
    )


def _prefixes(newest: ResultRecord | None) -> str:
    """Name the members of which the newest record has a prefix, which their standbys have sent."""
    if newest is None or not newest.partly:
        return ""
    found = [
        f"{each.agent} up to {iso_us(each.until_us)} ({each.contributed + each.filtered} records)"
        for each in newest.partly
    ]
    return f", but has from their standbys: {_named(found)}"


def _lags(agents: list[DelayingAgent]) -> str:
    """Name the standbys of the members that an interval lacks: a result without them lacks what they lack."""
    found = [
        f"{each.standby} stands by for {each.agent} and lacks at most its newest"
        f" {each.standby_lag_seconds:g} s"
        for each in agents
        if each.state == "dead" and each.standby is not UNSET
    ]
    return f"; {_named(found)}" if found else ""


def _named(texts: list[str]) -> str:
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return f"{', '.join(texts[:NAMED])}{more}"


def _without_standby(master: Master) -> str:
    if master.term.plan.standby_s is None:
        return ""
    found = [f"{each.agent} ({each.problem})" for each in planned_standbys(master).members if each.problem]
    return f"; without a standby: {_named(found)}" if found else ""


def _without_rows(master: Master) -> str:
    skipped = [each for each in master.tally.recent if each.state == "SKIPPED" and each.reason]
    return f"; interval {skipped[-1].index} has no rows: {skipped[-1].reason}" if skipped else ""


def _voters(master: Master) -> str:
    lost = voters_without_votes(master)
    return f"; lost their votes, and are being replaced: {', '.join(lost)}" if lost else ""


def _sites(master: Master, index: int) -> SiteVotes | UnsetType:
    found = master.voters_on(index)
    if found is None:
        return UNSET
    names = {entry.contact.id: entry.name for entry in master.term.book.entries}
    voted, lacking = (
        sorted(names.get(each.id, f"{each.host}:{each.port}") for each in part) for part in found
    )
    return SiteVotes(voted, lacking)


def _votes(sites: SiteVotes | UnsetType, *, is_due: bool) -> str:
    if isinstance(sites, UnsetType) or not (is_due or sites.voted):
        return ""
    lacking = f", and {', '.join(sites.lacking)} not" if sites.lacking else ""
    return f"; of its sites, {', '.join(sites.voted) or 'none'} voted{lacking}"


def _who_answers(master: Master) -> str:
    return ", ".join(map(str, Attempt(master.term.terms, master.proposer, since=0.0).voters()))


def _names(master: Master) -> str:
    names = Counter(entry.name for entry in master.term.book.active)
    shared = sorted(name for name, count in names.items() if count > 1)
    if not shared:
        return ""
    return f"; several agents have the name {', '.join(shared)}: give each a name of its own"


def _waiting(context: Context) -> str:
    problem = context.facts("problem").get("problem")
    return f"; {context.name}, which leads the job, waits: {problem}" if problem else ""


def _stage(master: Master, due: float | None, missing: int) -> str:
    closer = master.term.closer
    if master.term.stopping or master.term.state in ("starting", "waiting for agents"):
        return master.term.state
    if closer.paused:
        return "complete" if master.term.bounded.is_complete else "paused"
    if closer.behind:
        return "fetching earlier results"
    if master.term.committer.unanswered_s > UNANSWERED_S:
        return "waiting for a majority"
    if not closer.idle:
        return "finishing"
    if master.term.quiesce.handing_over:
        return "handing over"
    if closer.founding:
        return "founding"
    if closer.waits_for() and not missing:
        return READING
    if due is None:
        return IN_TIME
    return CONTRIBUTING if missing else "closing"


def _agent(context: Context, master: Master, number: int, index: int) -> DelayingAgent:
    entry = master.term.book.entry(number)
    assert entry is not None, "only members are missing"
    dead_since = master.term.collection.straggler_policy.dead_since(number)
    reported = master.term.collection.frontiers.of(number)
    if dead_since is not None:
        state = "dead"
    elif reported is not None and reported > index:
        state = "on the way"
    else:
        state = "behind"
    frontier = frontier_in_all(master.term.collection.trees, number)
    standby, shipping = master.term.members.standby_of(number), master.term.members.shipping_of(number)
    return DelayingAgent(
        agent=called(entry, master.term.book.shared_names()),
        state=state,
        frontier=shown_interval(frontier),
        behind=max(0, (master.term.collection.frontier or index) - max(frontier, index)),
        dead_for_seconds=None if dead_since is None else round(context.now - dead_since, 3),
        error=master.tally.worker_errors.get(entry.name, ""),
        standby=UNSET if standby is None else standby.name,
        standby_lag_seconds=UNSET if shipping is None else shipping[0],
    )


_MEANING = {
    "dead": "does not answer",
    "on the way": "has sealed it, and its contribution is not here",
    "behind": "has not sealed it",
}


def _sentence(
    stage: str, agents: list[DelayingAgent], missing: int, held: float | None, master: Master
) -> str:
    if stage == READING:
        return f"{stage}: {'; '.join(master.term.closer.waits_for())}"
    if stage == IN_TIME and agents:
        dead = ", ".join(each.agent for each in agents[:NAMED])
        others = f" and {missing - NAMED} more" if missing > NAMED else ""
        verb = "does" if missing == 1 else "do"
        return (
            f"no agent has sealed the next interval yet; it expects {dead}{others}, which {verb} not answer"
        )
    if not agents or stage != CONTRIBUTING:
        return {
            IN_TIME: "nothing is held: no agent has sealed the next interval yet",
            "waiting for a majority": "most of the agents that vote on the job do not answer:"
            f" {_who_answers(master)}",
            "finishing": "its rows are being made or its record is being written",
            "closing": "all members are in; it closes now",
            "complete": "the job is complete: its last interval is closed",
            "paused": "the job is paused: `elf resume` lets it go on",
            "waiting for agents": "no agent carries the stream with the job's labels",
            "fetching earlier results": "a new master fetches the results that it lacks",
            "founding": "the job begins: agents that carry its stream are still being gathered",
        }.get(stage, stage)
    named = [
        f"{each.agent} {_MEANING[each.state]}" + (f" ({each.error})" if each.error else "")
        for each in agents[:NAMED]
    ]
    more = f", and {missing - len(named)} more" if missing > len(named) else ""
    since = "" if held is None else f"; due for {format_duration(round(held * 1_000_000))}"
    return f"{'; '.join(named)}{more}{since} (ON STRAGGLER {master.term.plan.on_straggler.upper()})"
