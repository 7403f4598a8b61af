"""Small state machines with their annotations: what a component of a random dataflow may be.

A machine has for each path a function that takes an instance's state and a record and returns the records
that it emits. The annotations are true; the explorer checks what the analysis makes of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elfmesh.control.coordination.graph import AnnotatedPath
from tests.control.coordination.graphs import path

Record = dict[str, int]
Step = Callable[[dict[str, Any], Record], list[Record]]


@dataclass(frozen=True)
class Machine:
    """Paths by their input, and what each does; `reads` waits for writers where a seal protects it."""

    name: str
    paths: tuple[AnnotatedPath, ...]
    steps: Mapping[str, Step] = field(repr=False)


def canonical(record: Record) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(record.items()))


def _same(state: dict[str, Any], record: Record) -> list[Record]:
    return [record]


def _drop(state: dict[str, Any], record: Record) -> list[Record]:
    return [{name: value for name, value in record.items() if name != "campaign"}]


def _overwrite(state: dict[str, Any], record: Record) -> list[Record]:
    return [{**record, "campaign": record.get("v", 0) % 2}]


def _store(state: dict[str, Any], record: Record) -> list[Record]:
    state.setdefault("stored", Counter())[canonical(record)] += 1
    return [record]


def _dedupe(state: dict[str, Any], record: Record) -> list[Record]:
    seen = state.setdefault("stored", Counter())
    if seen[canonical(record)]:
        return []
    seen[canonical(record)] = 1
    return [record]


def _tally(*gate: str) -> Step:
    """Number the records of a partition as they arrive, and keep which record got which number."""

    def step(state: dict[str, Any], record: Record) -> list[Record]:
        counts = state.setdefault("counts", Counter())
        counts[_key(record, gate)] += 1
        state.setdefault("arrived", {}).setdefault(_key(record, gate), []).append(canonical(record))
        return [{**record, "v": 100 * counts[_key(record, gate)] + record.get("v", 0)}]

    return step


def _key(record: Record, gate: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(record.get(name, 0) for name in gate)


def _last(state: dict[str, Any], record: Record) -> list[Record]:
    before = state.setdefault("last", {})
    found = {**record, "v": before.get(record.get("id", 0), -1)}
    before[record.get("id", 0)] = record.get("v", 0)
    return [found]


def _number(state: dict[str, Any], record: Record) -> list[Record]:
    state["number"] = state.get("number", 0) + 1
    state.setdefault("arrived", []).append(canonical(record))
    return [{**record, "v": 100 * state["number"] + record.get("v", 0)}]


def _click(*gate: str) -> Step:
    def step(state: dict[str, Any], record: Record) -> list[Record]:
        state.setdefault("counts", Counter())[_key(record, gate)] += 1
        return []

    return step


def _count(*gate: str) -> Step:
    def step(state: dict[str, Any], record: Record) -> list[Record]:
        return [{**record, "v": state.get("counts", Counter())[_key(record, gate)]}]

    return step


def _absent(state: dict[str, Any], record: Record) -> list[Record]:
    return [] if state.get("counts", Counter())[record.get("id", 0),] else [record]


def _first(state: dict[str, Any], record: Record) -> list[Record]:
    """Emit the first record of each id, as LIMIT does."""
    seen = state.setdefault("first", set())
    if record.get("id", 0) in seen:
        return []
    seen.add(record.get("id", 0))
    return [record]


def _hot(state: dict[str, Any], record: Record) -> list[Record]:
    """Emit an id once when its second record arrives: a threshold that only rises."""
    counts = state.setdefault("counts", Counter())
    counts[record.get("id", 0)] += 1
    return [{"id": record.get("id", 0)}] if counts[record.get("id", 0)] == 2 else []


def _late(state: dict[str, Any], record: Record) -> list[Record]:
    """Emit the record before: a punctuation of its partition may overtake it."""
    before: Record | None = state.get("before")
    state["before"] = record
    return [before] if before is not None else []


STATE_ONLY = ("state", "right", "log")
"""Outputs of paths that write a state and emit nothing: what differs there is the state."""

_ALL = {name: name for name in ("id", "campaign", "v", "w")}
_COUNTED = {"id": "id", "campaign": "campaign", "v": "counted(v)", "w": "w"}

MACHINES = (
    Machine("late", (path("x", "out", "OW", lineage=_ALL),), {"x": _late}),
    Machine("map", (path("x", "out", "CR", lineage=_ALL),), {"x": _same}),
    Machine("drop", (path("x", "out", "CR", lineage={"id": "id", "v": "v", "w": "w"}),), {"x": _drop}),
    Machine(
        "overwrite", (path("x", "out", "CR", lineage={**_ALL, "campaign": "parity(v)"}),), {"x": _overwrite}
    ),
    Machine("store", (path("x", "out", "CW", lineage=_ALL),), {"x": _store}), Machine("dedupe", (path("x",
    "out", "CW", lineage=_ALL, idempotent=True),), {"x": _dedupe}), Machine("tally", (path("x", "out", "OW",
    ["id"], lineage=_COUNTED),), {"x": _tally("id")}), Machine("tally by campaign", (path("x", "out", "OW",
    ["campaign", "id"], lineage=_COUNTED),), {"x": _tally("id", "campaign")}), Machine("last writer",
    (path("x", "out", "OW", ["id"], lineage=_COUNTED),), {"x": _last}), Machine("arrival number", (path("x",
    "out", "OW", lineage=_COUNTED),), {"x": _number}), Machine("threshold", (path("x", "out", "CW",
    lineage={"id": "id"}),), {"x": _hot}), Machine("limit", (path("x", "out", "OR", ["id"], lineage=_ALL),),
    {"x": _first}), Machine( "count and read", (path("x", "state", "CW"), path("y", "out", "OR", ["id"],
    lineage=_COUNTED)), {"x": _click("id"), "y": _count("id")}, ), Machine( "read and log", (path("x",
    "log", "CW"), path("y", "out", "OR", ["id", "campaign"], lineage=_COUNTED), path("z", "out", "CR",
    lineage=_ALL)), {"x": _click("id", "campaign"), "y": _count("id", "campaign"), "z": _same}, ), Machine(
    "tally and read", (path("x", "out", "OW", ["id"], lineage=_COUNTED), path("y", "read", "OR", ["id"],
    lineage=_COUNTED)), {"x": _tally("id"), "y": _count("id")}, ), Machine( "anti join", (path("x", "right",
    "CW"), path("y", "out", "OR", ["id"], lineage=_ALL)), {"x": _click("id"), "y": _absent}, ), Machine(
    "union", (path("x", "out", "CR", lineage=_ALL), path("y", "out", "CR", lineage=_ALL)), {"x": _same, "y":
    _same}, ), )  # fmt: skip

WINDOWED = (
    Machine("map", (path("x", "out", "CR", lineage=_ALL),), {"x": _same}),
    Machine(
        "tally by window", (path("x", "out", "OW", ["window(w)"], lineage=_COUNTED),), {"x": _tally("w")}
    ),
    Machine(
        "count and read by window",
        (path("x", "state", "CW"), path("y", "out", "OR", ["id", "window(w)"], lineage=_COUNTED)),
        {"x": _click("id", "w"), "y": _count("id", "w")},
    ),
)
"""Machines whose partitions end by a watermark."""
