"""Operators of a topology as its JSON states them, before they are linked.

Owns the checks of single values; `topology_build.py` checks how operators fit together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from elfmesh.control.planning.topology import KINDS
from elfmesh.errors import ControlFlow

Path = tuple[str | int, ...]
"""Keys and positions from the top of the JSON to a value."""

_OPERATOR = {"name": str, "tasks": list, "inputs": list, "correlated": bool, "selectivity": (int, float)}
_TASK = {"name": str, "rate": (int, float), "cost": (int, float), "domains": list}
_INPUT = {"from": str, "partitioning": str}


class TopologyRefused(ControlFlow):
    """The values are no topology; `topology_text.py` adds the place in the text."""

    def __init__(self, message: str, path: Path, hint: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.hint = hint


@dataclass
class TopologyDraft:
    """An operator while its topology is being read."""

    at: int
    name: str
    tasks: list[str]
    given: list[float | None]
    costs: list[float]
    domains: list[tuple[str, ...]]
    selectivity: float
    correlated: bool
    inputs: dict[str, str | None]
    consumers: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return ("operators", self.at)


def draft_of(at: int, values: Any) -> TopologyDraft:
    path: Path = ("operators", at)
    found = checked(values, _OPERATOR, ("name", "tasks"), path)
    tasks = [
        checked(each, _TASK, ("name",), (*path, "tasks", number))
        for number, each in enumerate(found["tasks"])
    ]
    if not tasks:
        raise TopologyRefused("no tasks", (*path, "tasks"))
    domains = []
    for number, task in enumerate(tasks):
        for position, domain in enumerate(task.get("domains", ())):
            if not isinstance(domain, str) or not re.fullmatch(r"[^=]+=.+", domain):
                raise TopologyRefused(
                    "a domain is label=value", (*path, "tasks", number, "domains", position)
                )
        domains.append(tuple(task.get("domains", ())))
    inputs: dict[str, str | None] = {}
    for number, each in enumerate(found.get("inputs", ())):
        place = (*path, "inputs", number)
        one = checked(each, _INPUT, ("from",), place)
        if one["from"] in inputs:
            raise TopologyRefused(f"a second input from {one['from']!r}", place)
        if (kind := one.get("partitioning")) is not None:
            check_known(kind, KINDS, "partitioning", (*place, "partitioning"))
        inputs[one["from"]] = kind
    given = [task.get("rate") for task in tasks]
    if not inputs and None in given and any(rate is not None for rate in given):
        number = given.index(None)
        hint = "Give the rate of all tasks of a source, or of none."
        raise TopologyRefused(f"task {tasks[number]['name']!r} has no rate", (*path, "tasks", number), hint)
    return TopologyDraft(
        at, found["name"], [task["name"] for task in tasks],
        [None if rate is None else float(rate) for rate in given],
        [float(task.get("cost", 1)) for task in tasks], domains,
        float(found.get("selectivity", 1)), found.get("correlated", False), inputs,
    )  # fmt: skip


def checked(values: Any, fields: Mapping[str, Any], required: tuple[str, ...], path: Path) -> dict[str, Any]:
    """Return an object of JSON whose fields have the declared types."""
    if not isinstance(values, dict):
        raise TopologyRefused("an object is expected", path, "" if path else 'Write {"operators": [...]}.')
    for name, value in values.items():
        check_known(name, fields, "key", (*path, name))
        kinds = fields[name] if isinstance(fields[name], tuple) else (fields[name],)
        if type(value) not in kinds:
            names = {str: "a text", list: "a list", bool: "true or false", float: "a number"}
            expected = " or ".join(names[kind] for kind in kinds if kind in names)
            raise TopologyRefused(f"{expected} is expected", (*path, name))
        if type(value) in (int, float):
            check_amount(value, name, (*path, name))
        if type(value) is str and not value:
            raise TopologyRefused("an empty text", (*path, name))
    for name in required:
        if name not in values:
            raise TopologyRefused(f"{name!r} is missing", path)
    return values


def check_amount(value: int | float, name: str, path: Path) -> None:
    if not abs(value) <= 1e15 or not isfinite(value):
        raise TopologyRefused(f"{name} is too large", path)
    if value < 0 or (name == "cost" and value == 0):
        raise TopologyRefused(
            f"{name} is {value}; it must be {'above 0' if name == 'cost' else '0 or more'}", path
        )


def check_known(name: str, names: Collection[str], what: str, path: Path) -> None:
    if name not in names:
        shown = [each for each in names if each][:8]
        raise TopologyRefused(f"no {what} {name!r}", path, f"There are: {', '.join(shown)}.")
