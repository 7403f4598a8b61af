"""Result of one interval for `elf run`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from elfmesh.control.jobs.records import ResultRecord


@dataclass(frozen=True, slots=True)
class IntervalResult:
    """Result of one interval, with its rows in the query's order."""

    record: ResultRecord
    table: pa.Table
