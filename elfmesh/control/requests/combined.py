"""One answer to a client out of those of all agents.

Owns what is said once of what many say. Sends nothing.
"""

from __future__ import annotations

from typing import Any

from elfmesh.control.answers import decode_body
from elfmesh.control.requests.dead_agents import one_each
from elfmesh.errors import ProtocolError


def answers_of_all(payload: bytes) -> list[dict[str, Any]]:
    """The JSON objects of all agents, one a line; damaged ones are left out."""
    found: list[dict[str, Any]] = []
    for line in payload.splitlines():
        try:
            items = decode_body(line).get("items")
        except ProtocolError:
            continue
        if isinstance(items, list):
            found.extend(item for item in items if isinstance(item, dict))
    return found


def combine(verb: str, summary: dict[str, Any], payload: bytes) -> dict[str, Any]:
    items = answers_of_all(payload)
    if verb == "list":
        newest: dict[str, dict[str, Any]] = {}
        for item in items:
            held = newest.get(str(item.get("id")))
            if held is None or int(item.get("epoch") or 0) > int(held.get("epoch") or 0):
                newest[str(item.get("id"))] = item
        return {"jobs": sorted(newest.values(), key=lambda item: str(item.get("job"))), **summary}
    if verb == "streams":
        return {"streams": _streams(items), **summary}
    if verb == "steps":
        return {"steps": items, **summary}
    if verb == "agents":
        items = one_each(items)
    key = "name" if verb == "agents" else "tree"
    return {verb: sorted(items, key=lambda item: str(item.get(key))), **summary}


def _streams(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    streams: dict[str, dict[str, Any]] = {}
    for item in items:
        name = str(item.get("stream"))
        stream = streams.setdefault(name, {"stream": name, "formats": [], "columns": [], "agents": []})
        if item.get("format") not in stream["formats"]:
            stream["formats"].append(item.get("format"))
        columns = item.get("columns")
        known = stream["columns"]
        known += [each for each in columns if each not in known] if isinstance(columns, list) else []
        stream["agents"].append(item.get("agent"))
    for stream in streams.values():
        stream["agents"].sort(key=str)
        stream["formats"].sort(key=str)
    return [streams[name] for name in sorted(streams)]
