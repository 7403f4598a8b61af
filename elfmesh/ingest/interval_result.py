"""Result of one interval for `elf run`."""

from __future__ import annotations

import pyarrow as pa
from msgspec import Struct

from elfmesh.control.jobs.records import ResultRecord


class IntervalResult(Struct, frozen=True):
    """Result of one interval, with its rows in the query's order."""

    record: ResultRecord
    table: pa.Table
