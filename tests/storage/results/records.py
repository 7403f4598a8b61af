"""Records that the tests of results logs write."""

from __future__ import annotations

import pyarrow as pa

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.ql.values.plain_ipc import table_to_ipc

JOB = b"\x07" * 20


def record(index: int) -> ResultRecord:
    return ResultRecord(job="shop/top", index=index, counts={"contributed": index})


def rows(value: object, kind: pa.DataType | None = None) -> bytes:
    return table_to_ipc(pa.table({"x": pa.array([value], kind)}))
