"""What `elf run` answers for one interval."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from elfmesh.control.jobs.records import ResultRecord


@dataclass(frozen=True, slots=True)
class IntervalResult:
    """The answer of one interval, its rows in the query's order."""

    record: ResultRecord
    table: pa.Table
