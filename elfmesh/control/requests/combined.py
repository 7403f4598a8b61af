"""Combines the answers of all agents into one answer to the client.

The module decides which of several rows about one object the client gets, and the order of the rows. It sends
nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from elfmesh.control.protocol.replies import JobRow, StreamRow, StreamSummary
from elfmesh.control.requests.dead_agents import one_each
from elfmesh.control.requests.verbs import VERBS
from elfmesh.wire import UNREADABLE


class _Rows(msgspec.Struct):
    items: list[msgspec.Raw] = []


def answers_of_all(verb: str, payload: bytes, stats: Counter[str]) -> list[Any]:
    """Return the rows of all agents, whose lines are the payload.

    Rows that are damaged, or lack a name, are left out and counted.
    """
    found, kind = [], StreamRow if verb == "streams" else VERBS[verb].reply
    for line in payload.splitlines():
        try:
            items = msgspec.json.decode(line, type=_Rows).items
        except UNREADABLE:
            stats["control.malformed"] += 1
            continue
        for item in items:
            try:
                found.append(msgspec.json.decode(item, type=kind))
            except UNREADABLE:
                stats["control.malformed"] += 1
    return found


def combine(verb: str, summary: dict[str, Any], payload: bytes, stats: Counter[str]) -> dict[str, Any]:
    rows = answers_of_all(verb, payload, stats)
    if verb == "agents":
        rows = sorted(one_each(rows), key=lambda row: str(row.get("name")))
    elif verb == "list":
        newest: dict[str, JobRow] = {}
        for row in rows:
            if row.id not in newest or row.epoch > newest[row.id].epoch:
                newest[row.id] = row
        rows = sorted(newest.values(), key=lambda row: row.job)
    elif verb == "streams":
        rows = _streams(rows)
    elif verb != "steps":
        rows = sorted(rows, key=lambda row: row.tree if verb == "trees" else row.job)
    return {"jobs" if verb == "list" else verb: msgspec.to_builtins(rows), **summary}


def _streams(rows: list[StreamRow]) -> list[StreamSummary]:
    streams: dict[str, StreamSummary] = {}
    for row in rows:
        stream = streams.setdefault(row.stream, StreamSummary(row.stream, [], [], []))
        stream.formats.extend({row.format}.difference(stream.formats))
        stream.columns.extend([each for each in row.columns if each not in stream.columns])
        stream.agents.append(row.agent)
    for stream in streams.values():
        stream.agents.sort()
        stream.formats.sort()
    return [streams[name] for name in sorted(streams)]
