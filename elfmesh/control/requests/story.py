"""The story of an interval: the steps of all agents for it, each after the step that caused it.

The module makes the reply of each agent about its steps, the reply of the master about the interval, and one
story from both. It decides nothing about the interval.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from elfmesh import ids
from elfmesh.control.answers import BAD_REQUEST, CONFLICT, NOT_FOUND, OK, Body, error_body
from elfmesh.control.causes import AGENT_BYTES, Step
from elfmesh.control.context import Context
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.replies import (
    AgentName,
    IdleAgent,
    IntervalState,
    KeptSteps,
    ReportedStep,
    Span,
    Story,
    StoryStep,
)
from elfmesh.control.requests.describe import shown_interval
from elfmesh.ql.values.row_json import iso_us
from elfmesh.srt.coverage import bits_of

Answer = tuple[int, Body]

STEPS_SHOWN = 200
"""Maximum number of steps of one agent for one interval, without repetitions."""

AGAIN_MAX = 16
"""Maximum number of repetitions with a name, the newest ones. Their effects stand after the first step."""

TREES_MAX = 4096

CLOSED = "CLOSED"
"""State of a closed interval whose record the master no longer has in memory."""

DEAD = "does not answer"
FORGOTTEN = "keeps no steps of so old an interval"
IDLE = "has no step"


# -- of an agent -----------------------------------------------------------------------------------------


def own_steps(context: Context, body: dict[str, Any]) -> list[KeptSteps | ReportedStep]:
    """Return how far back this agent keeps steps of a job, and its steps for one interval."""
    interval, partitions = body.get("interval"), body.get("partitions")
    try:
        job = bytes.fromhex(str(body.get("id")))
    except ValueError:
        return []
    if not isinstance(interval, int) or not isinstance(partitions, int) or partitions > TREES_MAX:
        return []
    trees = {ids.partition_tree(job, each): each for each in range(partitions)}
    agent = context.me.id.hex()
    now_us = int(context.facts("clock").get("now_us", 0))
    steps = collapsed(context.causes.of(trees, interval))[:STEPS_SHOWN]
    return [
        KeptSteps(agent, context.causes.kept_from(trees)),
        *(
            ReportedStep(
                agent,
                context.name,
                step.name.hex(),
                step.cause.hex(),
                now_us - round((context.now - step.at) * 1e6),
                step.kind,
                step.peer.hex(),
                _detail(step),
                1 + len(again),
                [name.hex() for name in again[-AGAIN_MAX:]],
            )
            for step, again in steps
        ),
    ]


def collapsed(steps: Iterable[Step]) -> list[tuple[Step, list[bytes]]]:
    """Return equal steps once, with the names of the repetitions."""
    found: dict[tuple[str, bytes, str | bytes], tuple[Step, list[bytes]]] = {}
    for step in steps:
        says = (step.kind, step.peer, step.detail)
        if says in found:
            found[says][1].append(step.name)
        else:
            found[says] = (step, [])
    return list(found.values())


def _detail(step: Step) -> str:
    if isinstance(step.detail, str):
        return step.detail
    agents = bits_of(step.detail).bit_count()
    return f"{agents} agent" if agents == 1 else f"{agents} agents"


# -- of the master ---------------------------------------------------------------------------------------


def interval_of(master: Master, wanted: object) -> Answer:
    """Return what the master of a job knows of an interval; the default is the newest closed one."""
    recent = {record.index: record for record in master.tally.recent}
    closed = shown_interval(master.term.closer.closed)
    newest = max(recent, default=None if closed is None else closed - 1)
    index = newest if wanted is None else wanted
    if index is None:
        hint = "`elf why JOB` says what the job waits for."
        return CONFLICT, error_body("no interval of this job is closed yet", hint=hint)
    if not isinstance(index, int) or shown_interval(index) is None:
        return BAD_REQUEST, error_body("an interval is named by its number", code=2)
    span = master.term.plan.window(index)
    record = recent.get(index)
    state = CLOSED if index < master.term.closer.closed else None
    entries = [each for each in master.term.book.entries if each.start <= index]
    here = [each for each in entries if each.until is None or index < each.until]
    return OK, IntervalState(
        job=master.term.manifest.qualified,
        id=master.job.hex(),
        partitions=master.term.manifest.partitions,
        interval=Span(index, *map(iso_us, span)),
        end_us=span[1],
        newest=newest,
        state=state if record is None else record.state,
        completeness=None if record is None else record.completeness,
        missing=[] if record is None else record.missing,
        agents=[AgentName(each.name, each.contact.id.hex()) for each in here],
    )


# -- of both ---------------------------------------------------------------------------------------------


def story(about: IntervalState, rows: list[dict[str, Any]]) -> Answer:
    """Return the story of an interval, or the error that says why there is none.

    Args:
        about: what the master knows of the interval.
        rows: the answer of all agents to "steps".
    """
    index = about.interval.index
    kept = {row["agent"]: row["kept_from"] for row in rows if "kept_from" in row}
    steps = in_order([msgspec.convert(row, ReportedStep) for row in rows if "kept_from" not in row])
    if not steps:
        return NOT_FOUND, _no_story(index, about.newest, kept)
    names = {each.id[: 2 * AGENT_BYTES]: each.agent for each in about.agents}
    names |= {step.agent[: 2 * AGENT_BYTES]: step.name for step in steps}
    first = {name: step.step for step in steps for name in step.again}
    acted = {step.agent for step in steps}
    without = {each.agent: _reason(each.id, index, kept) for each in about.agents if each.id not in acted}
    acting = {step.name for step in steps}
    without |= {name: DEAD for name in about.missing if name not in acting and name not in without}
    shown = [
        StoryStep(
            seconds=round((step.at_us - about.end_us) / 1e6, 6),
            agent=step.name,
            kind=step.kind,
            peer=names.get(step.peer, step.peer),
            detail=step.detail,
            times=step.times,
            step=step.step,
            cause=first.get(step.cause, step.cause),
        )
        for step in steps
    ]
    idle = [IdleAgent(name, without[name]) for name in sorted(without)]
    return OK, Story(about.job, about.interval, about.state, about.completeness, about.missing, shown, idle)


def in_order(steps: Sequence[ReportedStep]) -> list[ReportedStep]:
    """Sort steps by time, but none before its cause or an earlier step of its agent.

    The clocks of agents differ, so that the time alone would put effects before their causes.
    """
    places = {name: place for place, step in enumerate(steps) for name in (step.step, *step.again)}
    waits = [0] * len(steps)
    leads_to: dict[int, list[int]] = {}
    newest: dict[str, int] = {}
    for place, step in enumerate(steps):
        for earlier in dict.fromkeys((places.get(step.cause), newest.get(step.agent))):
            if earlier is not None and earlier != place:
                leads_to.setdefault(earlier, []).append(place)
                waits[place] += 1
        newest[step.agent] = place
    ready = [(step.at_us, place) for place, step in enumerate(steps) if not waits[place]]
    heapq.heapify(ready)
    found: list[int] = []
    while ready:
        _, place = heapq.heappop(ready)
        found.append(place)
        for later in leads_to.get(place, ()):
            waits[later] -= 1
            if not waits[later]:
                heapq.heappush(ready, (steps[later].at_us, later))
    circle = (place for place, left in enumerate(waits) if left)  # causes that only a faulty agent names
    return [steps[place] for place in (*found, *circle)]


def _reason(agent: str, index: int, kept: dict[str, int | None]) -> str:
    if agent not in kept:
        return DEAD
    first = kept[agent]
    return FORGOTTEN if first is not None and first > index else IDLE


def _no_story(index: int, newest: int | None, kept: dict[str, int | None]) -> dict[str, Any]:
    if newest is not None and index > newest:
        return error_body(f"no agent has a step of interval {index}; the newest closed one is {newest}")
    first = min((each for each in kept.values() if isinstance(each, int)), default=None)
    hint = "" if first is None else f"The oldest interval of which an agent keeps steps is {first}."
    return error_body(f"interval {index} is too old: no agent keeps steps of it", hint=hint)
