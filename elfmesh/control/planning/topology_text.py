"""Reads and writes topologies in JSON.

Owns the text. A refusal names the place in it: the line, and the path of keys.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_build import topology_of
from elfmesh.control.planning.topology_draft import Path, TopologyRefused
from elfmesh.errors import DataError

DEPTH_MAX = 16
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')


def read_topology(text: str, source: str) -> Topology:
    """Read a topology.

    Args:
        text: JSON.
        source: name of the file in messages.

    Raises:
        DataError: the text is no topology; with line and path of the fault.
    """
    depth = 0
    for letter in text:  # the parser of the standard library recurses
        depth += (letter in "[{") - (letter in "]}")
        if depth > DEPTH_MAX:
            raise DataError(f"nested deeper than {DEPTH_MAX}", where=source)
    try:
        return topology_of(json.loads(text, object_pairs_hook=_once, parse_constant=_constant))
    except json.JSONDecodeError as error:
        raise DataError(
            f"not JSON: {error.msg}",
            where=f"{source}:{error.lineno}",
            hint="Write the file as JSON, with double quotes and without comments.",
        ) from None
    except TopologyRefused as error:
        shown = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in error.path).lstrip(
            "."
        )
        place = f"{source}:{_line_of(text, error.path)}" + (f": {shown}" if shown else "")
        raise DataError(error.message, where=place, hint=error.hint) from None
    except ValueError:  # a number of thousands of digits
        raise DataError("not JSON: a number that is too long", where=source) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise TopologyRefused(f"the key {max(names, key=names.count)!r} occurs twice in one object", ())
    return found


def _constant(name: str) -> NoReturn:
    raise TopologyRefused(f"{name} is no number of JSON", ())


def _line_of(text: str, path: Path) -> int:
    """Return the line of the value at a path, or of the last part of the path that exists."""
    if not path:
        return 1  # the refusal came while the text was read, so what follows may be no JSON
    line, depth, best = 1, 0, 1
    stack: list[list[Any]] = []
    after_colon = False
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
            continue
        if token in "]}":
            stack.pop()
        elif token == ",":
            after_colon = False
            if stack[-1][0] == "[":
                stack[-1][1] += 1
        elif token == ":":
            after_colon = True
        elif stack and stack[-1][0] == "{" and not after_colon:
            stack[-1][1] = json.loads(token)
        else:
            here: Path = tuple(each[1] for each in stack)
            if here == path[: len(here)] and len(here) >= depth:
                depth, best = len(here), line
            if token in "[{":
                stack.append([token, 0 if token == "[" else None])
            after_colon = False
    return best


def topology_values(topology: Topology) -> dict[str, Any]:
    """Return a topology as the values of its JSON, substream by substream."""
    return {
        "operators": [
            {
                "name": each.name,
                "correlated": each.correlated,
                "inputs": [{"from": topology.operators[stream.sender].name} for stream in each.inputs],
                "tasks": [
                    {
                        "name": topology.names[task],
                        "rate": float(topology.rates[task]),
                        "cost": float(topology.costs[task]),
                        "domains": list(topology.domains[task]),
                    }
                    for task in each.tasks
                ],
            }
            for each in topology.operators
        ],
        "edges": [
            [topology.names[one], topology.names[other], rate]
            for _, stream in topology.pairs
            for one, other, rate in zip(
                stream.senders.tolist(), stream.receivers.tolist(), stream.rates.tolist(), strict=True
            )
        ],
        "sink": [topology.operators[at].name for at in topology.sinks],
    }
