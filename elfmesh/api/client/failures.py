"""Intervals that failed: the text about a record with a reason, which has no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHOWN = 5
"""Missing agents that the text names."""


def failure_of(record: Mapping[str, Any], job: str = "") -> str:
    """Return why a record has no result, with its interval and agents; "" if it has one.

    `record` is as `elf results -o json` prints it.
    """
    if not record.get("reason"):
        return ""
    interval, agents = record["interval"], record["agents"]
    missing = [str(name) for name in agents["missing"]]
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    names = f", without {', '.join(missing[:SHOWN])}{more}" if missing else ""
    where = f"{job}: " if job else ""
    bounds = "" if interval["start"] is None else f", {interval['start']} .. {interval['end']}"
    return (
        f"{where}interval {interval['index']}{bounds}, {record['state']}, "
        f"{agents['in']} of {agents['expected']} agents{names}: {record['reason']}"
    )
