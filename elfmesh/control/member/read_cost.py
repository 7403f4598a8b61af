"""What a job would read on this host: the size of its logs, and the expected time.

Owns the sums and the refusal of a query that would read too much. The host measures (the facts "logs" and
"reading"): whole logs, less what the time indexes spare a job with HISTORY. What a job reads is never more
than was predicted, unless the logs have grown, or a compressed file does not state its size (`estimated`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol.replies_agents import AgentCost, StreamCost
from elfmesh.units import shown_size


def cost_of(context: Context, streams: Collection[str], manifest: Manifest) -> AgentCost:
    """Return what a job over these streams of this agent would read."""
    facts = context.facts("reading", manifest)
    found = [_stream_cost(name, facts[name]) for name in streams if name in facts]
    return AgentCost(
        agent=context.name,
        id=context.me.id.hex(),
        streams=found,
        bytes=sum(each.bytes for each in found),
        lines=_sum([each.lines for each in found]),
        seconds=_sum([each.seconds for each in found]),
        bytes_max=context.policy.query_bytes,
        refusal=too_costly(context, streams, manifest) if manifest.leased else "",
        estimated=sum(each.estimated for each in found),
    )


def too_costly(context: Context, streams: Collection[str], manifest: Manifest) -> str:
    """Return why this agent refuses a query over these streams of it, "" if it does not."""
    limit = context.policy.query_bytes
    if limit is None:
        return ""
    facts = context.facts("logs", manifest)
    nbytes = sum(int(facts[name]["bytes"]) for name in streams if name in facts)
    if nbytes <= limit:
        return ""
    return f"it would read {shown_size(nbytes)}, and its limits.query_bytes allows {shown_size(limit)}"


def _stream_cost(name: str, facts: dict[str, Any]) -> StreamCost:
    """Return the cost of one stream.

    The expected time is that of one reader with `cores` of a processor: bytes / (read_bytes / cpu_seconds) /
    cores.
    """
    nbytes, read, cpu_s = int(facts["bytes"]), int(facts["read_bytes"]), float(facts["cpu_seconds"])
    rate = read / cpu_s * float(facts["cores"]) if read and cpu_s else None
    seconds = 0.0 if not nbytes else None if rate is None else round(nbytes / rate, 6)
    return StreamCost(
        stream=name,
        files=int(facts["files"]),
        bytes=nbytes,
        lines=0 if not nbytes else round(nbytes * int(facts["read_lines"]) / read) if read else None,
        seconds=seconds,
        bytes_per_second=None if rate is None else round(rate),
        measured_on=str(facts["measured_on"]),
        estimated=int(facts["estimated"]),
    )


def _sum(values: list[Any]) -> Any:
    """Return the sum of values, None if one of them is not known."""
    return None if None in values else sum(values)
