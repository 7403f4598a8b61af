"""Builds a topology from its operators: order, substreams, rates and sinks.

Owns the checks of how operators fit together, and the defaults of rates and substreams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from elfmesh.control.planning.topology import (
    FULL,
    InputStream,
    Operator,
    Topology,
    default_substreams,
    kind_of,
)
from elfmesh.control.planning.topology_draft import (
    Path,
    TopologyDraft,
    TopologyRefused,
    check_amount,
    check_known,
    checked,
    draft_of,
)

TASKS_MAX = 100_000
SUBSTREAMS_MAX = 4_000_000
"""Substreams of one topology; a full edge between two operators of 2,000 tasks has so many."""

_TOP = {"operators": list, "edges": list, "sink": (str, list)}
Edges = dict[tuple[str, str], dict[tuple[int, int], tuple[float, int]]]
"""By pair of operators and by pair of task numbers: rate, and position in `edges`."""


def topology_of(values: Any) -> Topology:
    """Build a topology from the values of its JSON; `read_topology` adds the line to a refusal."""
    top = checked(values, _TOP, ("operators",), ())
    drafts: dict[str, TopologyDraft] = {}
    owner: dict[str, tuple[str, int]] = {}
    for at, each in enumerate(top["operators"]):
        draft = draft_of(at, each)
        if draft.name in drafts:
            raise TopologyRefused(f"a second operator {draft.name!r}", (*draft.path, "name"))
        drafts[draft.name] = draft
        for number, name in enumerate(draft.tasks):
            if name in owner:
                raise TopologyRefused(f"a second task {name!r}", (*draft.path, "tasks", number, "name"))
            owner[name] = (draft.name, number)
        if len(owner) > TASKS_MAX:
            raise TopologyRefused(f"more than {TASKS_MAX:,} tasks", draft.path, "Plan parts of the topology.")
    if not drafts:
        raise TopologyRefused("no operators", ("operators",))
    for draft in drafts.values():
        for number, sender in enumerate(draft.inputs):
            check_known(sender, drafts, "operator", (*draft.path, "inputs", number, "from"))
            drafts[sender].consumers.append(draft.name)
    sinks = sinks_of(top.get("sink"), drafts)
    return built(ordered(drafts), drafts, edges_of(top.get("edges", []), drafts, owner), sinks)


def sinks_of(given: Any, drafts: Mapping[str, TopologyDraft]) -> list[str]:
    if given is None:
        return [each.name for each in drafts.values() if not each.consumers] or list(drafts)
    sinks = given if isinstance(given, list) else [given]
    for number, name in enumerate(sinks):
        place: Path = ("sink", number) if isinstance(given, list) else ("sink",)
        if not isinstance(name, str):
            raise TopologyRefused("a text is expected", place)
        check_known(name, drafts, "operator", place)
        if sinks.index(name) < number:
            raise TopologyRefused(f"a second sink {name!r}", place)
    if not sinks:
        raise TopologyRefused("no sink", ("sink",))
    return sinks


def edges_of(
    given: list[Any], drafts: Mapping[str, TopologyDraft], owner: Mapping[str, tuple[str, int]]
) -> Edges:
    found: Edges = {}
    for at, edge in enumerate(given):
        if not isinstance(edge, list) or len(edge) != 3:
            raise TopologyRefused("an edge is [sender, receiver, rate]", ("edges", at))
        for position in (0, 1):
            if not isinstance(edge[position], str):
                raise TopologyRefused("a text is expected", ("edges", at, position))
            if edge[position] not in owner:
                raise TopologyRefused(f"no task {edge[position]!r}", ("edges", at, position))
        if type(edge[2]) not in (int, float):
            raise TopologyRefused("a number is expected", ("edges", at, 2))
        check_amount(edge[2], "rate", ("edges", at, 2))
        (sender, one), (receiver, other) = owner[edge[0]], owner[edge[1]]
        if sender not in drafts[receiver].inputs:
            raise TopologyRefused(f"{receiver!r} has no input from {sender!r}", ("edges", at))
        pair = found.setdefault((sender, receiver), {})
        if (one, other) in pair:
            raise TopologyRefused(f"a second edge from {edge[0]!r} to {edge[1]!r}", ("edges", at))
        pair[one, other] = (float(edge[2]), at)
    return found


def ordered(drafts: Mapping[str, TopologyDraft]) -> list[TopologyDraft]:
    """Return the operators with senders before receivers; otherwise in the order of the file."""
    waiting = {name: len(each.inputs) for name, each in drafts.items()}
    ready = [each for each in drafts.values() if not waiting[each.name]]
    order: list[TopologyDraft] = []
    while ready:
        ready.sort(key=lambda each: -each.at)
        order.append(ready.pop())
        for name in order[-1].consumers:
            waiting[name] -= 1
            if not waiting[name]:
                ready.append(drafts[name])
    if len(order) < len(drafts):
        left = [each for each in drafts.values() if each not in order]
        cycle = ", ".join(each.name for each in left)
        raise TopologyRefused(f"the operators {cycle} form or await a cycle", (*left[0].path, "inputs"))
    return order


def built(
    order: list[TopologyDraft], drafts: Mapping[str, TopologyDraft], edges: Edges, sinks: list[str]
) -> Topology:
    _reaching(order, drafts, sinks)
    number = {draft.name: at for at, draft in enumerate(order)}
    first: dict[str, int] = {}
    rates: list[float] = []
    operators: list[Operator] = []
    count = 0
    for draft in order:
        first[draft.name] = len(rates)
        into, inputs = np.zeros(len(draft.tasks)), []
        reached = set[int]()
        for sender in draft.inputs:
            pairs, kind, given = _substreams(drafts[sender], draft, edges)
            count += len(pairs)
            if count > SUBSTREAMS_MAX:
                raise TopologyRefused(f"more than {SUBSTREAMS_MAX:,} substreams", draft.path)
            pairs.sort(key=lambda each: (each[1], each[0]))
            senders = np.array([one for one, _ in pairs], dtype=np.intp)
            receivers = np.array([other for _, other in pairs], dtype=np.intp)
            reached |= set(receivers.tolist())
            fan_out = np.bincount(senders, minlength=len(drafts[sender].tasks))
            at = senders + first[sender]
            amounts = np.array([given[each] for each in pairs]) if given else (
                np.array(rates)[at] / fan_out[senders]
            )  # fmt: skip
            np.add.at(into, receivers, amounts)
            inputs.append(
                InputStream(number[sender], kind, at, receivers + first[draft.name], amounts)
            )  # fmt: skip
        if inputs and len(reached) < len(draft.tasks):
            missing = min(set(range(len(draft.tasks))) - reached)
            raise TopologyRefused(
                f"task {draft.tasks[missing]!r} receives nothing", (*draft.path, "tasks", missing)
            )
        for task, rate in enumerate(draft.given):
            usual = draft.selectivity * float(into[task]) if inputs else 1.0
            rates.append(usual if rate is None else rate)
        operators.append(
            Operator(draft.name, first[draft.name], len(rates), tuple(inputs), draft.correlated)
        )  # fmt: skip
    return Topology(
        tuple(operators),
        tuple(name for draft in order for name in draft.tasks),
        np.array(rates),
        np.array([cost for draft in order for cost in draft.costs]),
        tuple(each for draft in order for each in draft.domains),
        tuple(sorted(number[each] for each in sinks)),
    )


def _reaching(order: list[TopologyDraft], drafts: Mapping[str, TopologyDraft], sinks: list[str]) -> None:
    """Refuse operators whose output reaches no sink."""
    reaching = set(sinks)
    for draft in reversed(order):
        if draft.name not in reaching:
            raise TopologyRefused(f"the output of {draft.name!r} reaches no sink", draft.path)
        reaching |= set(draft.inputs)


def _substreams(
    sender: TopologyDraft, receiver: TopologyDraft, edges: Edges
) -> tuple[list[tuple[int, int]], str, dict[tuple[int, int], float]]:
    """Return the substreams between two operators, their kind, and their rates where these are given."""
    counts = len(sender.tasks), len(receiver.tasks)
    named = receiver.inputs[sender.name]
    path = (*receiver.path, "inputs", list(receiver.inputs).index(sender.name))
    shape = f"{counts[0]} tasks to {counts[1]}"
    given = {each: rate for each, (rate, _) in edges.get((sender.name, receiver.name), {}).items()}
    if given:
        kind = kind_of([one for one, _ in given], [other for _, other in given], *counts)
        if named not in (None, kind) and not (named == FULL and len(given) == counts[0] * counts[1]):
            at = min(at for _, at in edges[sender.name, receiver.name].values())
            raise TopologyRefused(f"the edges of {shape} are no {named} but {kind}", ("edges", at))
        return list(given), kind, given
    if named is None:
        raise TopologyRefused("'partitioning' is missing, and there are no edges", path)
    pairs = default_substreams(named, *counts)
    if pairs is None:
        raise TopologyRefused(f"{shape} is no {named}", (*path, "partitioning"))
    return pairs, kind_of([one for one, _ in pairs], [other for _, other in pairs], *counts), {}
