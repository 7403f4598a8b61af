"""One computation in three ways: an expression, a Python function over columns, and one per record.

    python -m benchmarks.peers.functions expression|columns|records numbers|text ROWS PASSES

Counts the CPU of this process and of the function's own one, from the second pass over the input on; the
first starts the process and warms everything up. Making the checksum is not counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from elfmesh.ingest.functions.evaluator import Evaluator
from elfmesh.ingest.functions.process import Limits
from elfmesh.ql import Query, parse

BLOCK_ROWS = 65_536
NULLS = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
KINDS = {
    # type, what is computed: as an expression, over columns, per record
    "numbers": (
        "BIGINT",
        "x * 3 - 1",
        "pc.subtract(pc.multiply(x, 3), 1)",
        "None if x is None else x * 3 - 1",
    ),
    "text": (
        "STRING",
        "upper(substring(x, 1, 3))",
        "pc.ascii_upper(pc.utf8_slice_codeunits(x, 0, 3))",
        "None if x is None else x[:3].upper()",
    ),
}


def text_of(way: str, kind: str) -> str:
    """The query."""
    gives, expression, columns, record = KINDS[kind]
    if way == "expression":
        return f"SELECT {expression} AS y FROM log"
    how, body = (" VECTORISED", columns) if way == "columns" else ("", record)
    return (
        f"WITH FUNCTION f(x {gives}) RETURNS {gives} LANGUAGE PYTHON{how} AS $$\n"
        f"import pyarrow.compute as pc\ndef f(x): return {body}\n$$ SELECT f(x) AS y FROM log"
    )


def blocks(kind: str, rows: int) -> list[pa.RecordBatch]:
    """The input, the same each time."""
    rng = np.random.default_rng(7)
    made = []
    for start in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - start)
        numbers, null = rng.integers(0, 1 << 40, count), rng.random(count) < NULLS
        values = numbers if kind == "numbers" else [f"product-{number:x}" for number in numbers % 5000]
        made.append(pa.record_batch({"x": pa.array(values, mask=null)}))
    return made


def cpu_of(pid: int | None) -> float:
    """Seconds of this process and of another."""
    other = 0.0
    if pid is not None:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        other = (int(fields[11]) + int(fields[12])) / TICKS
    return time.process_time() + other


def memory_of(pid: int) -> dict[str, int]:
    """Bytes that a process has in memory, and those of them that are of no file."""
    _, resident, of_files = (int(each) for each in Path(f"/proc/{pid}/statm").read_text().split()[:3])
    page = os.sysconf("SC_PAGE_SIZE")
    return {"rss_bytes": resident * page, "own_bytes": (resident - of_files) * page}


def main() -> None:
    """Measure, and print one JSON object."""
    way, kind, rows, passes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    statement = parse(text_of(way, kind))
    evaluator = Evaluator(statement.functions, Limits(seconds=60.0))
    query = Query(statement, functions=evaluator)
    given = blocks(kind, rows)
    seen = hashlib.sha256()
    for block in given:
        done = query.prepare(block)
        assert done.failed == 0, evaluator.problem
        seen.update(json.dumps(done.tables["main"].column(0).to_pylist()).encode())
    costs = []
    for _ in range(passes):
        before = cpu_of(evaluator.pid)
        for block in given:
            query.prepare(block)
        costs.append((cpu_of(evaluator.pid) - before) / rows * 1e9)
    memory = memory_of(evaluator.pid) if evaluator.pid is not None else {}
    evaluator.close()
    report = {"record_ns": statistics.median(costs), "checksum": seen.hexdigest()[:16], **memory}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
