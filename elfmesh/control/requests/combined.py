"""Combines the answers of all agents into one answer to the client.

The module decides which of several rows about one object the client gets, and the order of the rows. It sends
nothing.

Invariant: a row that the client gets is the row that its agent sent, with names that this release does not
know. Only `streams` has one row for several agents, whose names are those of this release.
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


def answers_of_all(verb: str, payload: bytes, stats: Counter[str]) -> list[tuple[Any, dict[str, Any]]]:
    """Return the rows of all agents, whose lines are the payload: as structs, and as they were sent.

    Rows that are damaged, or lack a name, are left out and counted.
    """
    found = []
    kinds = (StreamRow,) if verb == "streams" else (VERBS[verb].reply, VERBS[verb].other_row)
    for line in payload.splitlines():
        try:
            items = msgspec.json.decode(line, type=_Rows).items
        except UNREADABLE:
            stats["control.malformed"] += 1
            continue
        for item in items:
            for kind in filter(None, kinds):
                try:
                    found.append((msgspec.json.decode(item, type=kind), msgspec.json.decode(item)))
                    break
                except UNREADABLE:
                    continue
            else:
                stats["control.malformed"] += 1
    return found


def combine(verb: str, summary: dict[str, Any], payload: bytes, stats: Counter[str]) -> dict[str, Any]:
    rows = answers_of_all(verb, payload, stats)
    if verb == "cost":
        rows = sorted(rows, key=lambda each: each[0].agent)
    elif verb == "agents":
        rows = sorted(one_each(rows), key=lambda each: each[0].name)
    elif verb == "list":
        newest: dict[str, tuple[JobRow, dict[str, Any]]] = {}
        for row, sent in rows:
            if row.id not in newest or row.epoch > newest[row.id][0].epoch:
                newest[row.id] = (row, sent)
        rows = sorted(newest.values(), key=lambda each: each[0].job)
    elif verb == "streams":
        return {verb: msgspec.to_builtins(_streams([row for row, _ in rows])), **summary}
    elif verb not in {"steps", "forget"}:
        rows = sorted(rows, key=lambda each: each[0].tree if verb == "trees" else each[0].job)
    return {"jobs" if verb == "list" else verb: [sent for _, sent in rows], **summary}


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
