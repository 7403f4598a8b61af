"""A reducer's merge of its children's partial aggregates.

    python -m benchmarks.peers.merge VARIANT STREAM count|four CHILDREN CHILD_ROWS

`elf` merges the children's bytes into bytes (`merge_partials`); `group` decodes the same bytes and groups the
tables in pyarrow, without encoding the result; `arrow` does without our format: the children send Arrow IPC
with zstd, which is read, grouped and written again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import data, meter
from benchmarks.peers.groupby_elf import FOUR
from benchmarks.peers.groupby_pyarrow import AGAIN
from benchmarks.peers.slide import Spec
from elfmesh.cbt import Panes, decode_partial, encode_partial, finish, merge_partials

TABLE = "groups"


def _partial(table: pa.Table, aggregates: str) -> bytes:
    """What an agent sends of these records."""
    spec = Spec(TABLE, ("k",), {name: FOUR[name] for name in meter.AGGREGATES[aggregates]})
    panes = Panes([spec], None)
    for batch in table.to_batches():
        panes.insert(TABLE, np.zeros(len(batch), np.int64), batch)
    window = panes.window(0)
    assert window is not None
    return encode_partial(window)


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as out:
        out.write_table(table)
    return bytes(sink.getvalue())


def _from_ipc(part: bytes) -> pa.Table:
    return pa.ipc.open_stream(part, options=pa.ipc.IpcReadOptions(use_threads=False)).read_all()


def _group(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    whole = pa.concat_tables(tables)
    grouped = whole.group_by("k", use_threads=False).aggregate(AGAIN[: len(names)])
    return grouped.rename_columns(["k", *names])


def main(variant: str, stream: str, aggregates: str, children: int, rows: int) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    names = meter.AGGREGATES[aggregates]
    whole = pa.Table.from_batches(data.batches(Path(stream)))
    parts = [_partial(whole.slice(child * rows, rows), aggregates) for child in range(children)]

    def finished(part: bytes) -> pa.Table:
        return finish(decode_partial(part))[TABLE].select(["k", *names])

    if variant == "arrow":
        parts = [_to_ipc(finished(part)) for part in parts]
    merges: dict[str, Callable[[], bytes | pa.Table]] = {
        "elf": lambda: merge_partials(parts),
        "group": lambda: _group([finished(part) for part in parts], names),
        "arrow": lambda: _to_ipc(_group([_from_ipc(part) for part in parts], names)),
    }
    reads: dict[str, Callable[..., pa.Table]] = {
        "elf": finished,
        "group": lambda table: table,
        "arrow": _from_ipc,
    }
    held = meter.memory("RssAnon")
    meter.reset_peak()
    cpu = time.process_time()
    merged = merges[variant]()
    report = {
        "cpu_s": time.process_time() - cpu,
        "peak_bytes": max(meter.peak() - held, 1),
        "in_bytes": sum(map(len, parts)),
        "out_bytes": len(merged) if isinstance(merged, bytes) else merged.nbytes,
    }
    table = reads[variant](merged)
    report |= {"keys": table.num_rows, "checksum": f"{meter.checksum(table.select(['k', *names])):016x}"}
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:6]))
