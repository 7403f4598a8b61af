"""Inside a contestant's process: group a key stream or parse a log, measure it, say a checksum of the result.

    python -m benchmarks.peers.groupby_pyarrow VARIANT STREAM count|four

Owns what is counted. CPU is user and system time of all threads, from the first insert to the last; making
the result afterwards is timed apart. Memory is anonymous memory (the mapped input is not counted): what the
process holds after the last insert (`held`), the same once the allocators have returned what is free
(`settled`), and its peak since the first insert. Start-up, imports and a warm-up on a few batches are left
out. Needs numpy and pyarrow only: it runs in the peers' environments too.
"""

from __future__ import annotations

import ctypes
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from benchmarks import data

WARM_UP_BATCHES = 4
KEY_BYTES_MAX = 32
CHECK_ROWS = 1 << 18
BLOCK_BYTES = 2 << 20
Table: TypeAlias = pa.Table | pa.RecordBatch
AGGREGATES = {"count": ("n",), "four": ("n", "s", "lo", "hi")}
"""The columns of a result behind its key `k`: count; count, sum, min and max of `v`."""


class GroupBy(Protocol):
    """One contestant: groups batches as they come and can say the result at any time."""

    def insert(self, batch: pa.RecordBatch) -> None:
        """Take a batch of `k` and `v`."""
        ...

    def result(self) -> pa.Table:
        """All groups so far: `k` and the columns of AGGREGATES."""
        ...


class OneShot(Protocol):
    """A contestant that wants the whole input at once: no state that could be asked in between."""

    def run(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """All groups."""
        ...


def memory(field: str) -> int:
    """Bytes of a field of /proc/self/status."""
    with Path("/proc/self/status").open() as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def reset_peak() -> None:
    """Begin the kernel's count of the peak again."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Anonymous peak since `reset_peak`; the mapped input has been touched before, so it is constant."""
    return memory("VmHWM") - memory("RssFile") - memory("RssShmem")


def main(make: Callable[[str, str], GroupBy | OneShot]) -> None:
    """Run `make(variant, aggregates)` on the stream that the command line names; prints one JSON object."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    variant, stream, aggregates = sys.argv[1:4]
    batches = data.batches(Path(stream))
    _feed(make(variant, aggregates), batches[:WARM_UP_BATCHES])
    _give_back()
    subject = make(variant, aggregates)
    held = memory("RssAnon")
    reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    if hasattr(subject, "run"):
        table = subject.run(batches)
        cpu_s = time.process_time() - cpu
        report: dict[str, Any] = {"result_s": 0.0, "held_bytes": 0}
    else:
        for batch in batches:
            subject.insert(batch)
        cpu_s = time.process_time() - cpu
        report = {"held_bytes": memory("RssAnon") - held}
    report |= {"cpu_s": cpu_s, "wall_s": time.perf_counter() - wall, "peak_bytes": peak() - held}
    if hasattr(subject, "nbytes"):
        report["stated_bytes"] = subject.nbytes
    if not hasattr(subject, "run"):
        _give_back()
        report["settled_bytes"] = memory("RssAnon") - held
        cpu = time.process_time()
        table = subject.result()
        report["result_s"] = time.process_time() - cpu
    report |= {"rows": sum(len(batch) for batch in batches), "keys": table.num_rows}
    report["checksum"] = f"{checksum(table.select(['k', *AGGREGATES[aggregates]])):016x}"
    print(json.dumps(report))


def _feed(subject: GroupBy | OneShot, batches: Sequence[pa.RecordBatch]) -> None:
    if hasattr(subject, "run"):
        subject.run(batches)
        return
    for batch in batches:
        subject.insert(batch)
    subject.result()


def parse_main(make: Callable[[str, str], Callable[[bytes], Table] | WholeFile]) -> None:
    """Parse a log with `make(variant, format)`, block by block; prints one JSON object.

        python -m benchmarks.peers.parse_pyarrow VARIANT FILE FORMAT PASSES

    Counted is the CPU from a block's bytes to its columns; of several passes the median.
    """
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    variant, path, form, passes = sys.argv[1:5]
    parse = make(variant, form)
    blocks: list[Any] = [path] if isinstance(parse, WholeFile) else read_blocks(Path(path), form)
    parse(blocks[0])
    times = []
    for _ in range(int(passes)):
        total = rows = 0
        spent = 0.0
        for block in blocks:
            cpu = time.process_time()
            table = parse(block)
            spent += time.process_time() - cpu
            rows += table.num_rows
            total += checksum(table)
        times.append(spent)
    report = {
        "cpu_s": statistics.median(times),
        "rows": rows,
        "spread": (max(times) - min(times)) / min(times),
    }
    print(json.dumps(report | {"checksum": f"{total % 2**64:016x}"}))


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A parser that only reads files: gets the path instead of blocks."""

    parse: Callable[[str], Table]

    def __call__(self, path: str) -> Table:
        return self.parse(path)


def read_blocks(path: Path, form: str) -> list[bytes]:
    """Blocks of whole lines of about BLOCK_BYTES; a csv header is left out."""
    text = path.read_bytes()
    start, blocks = text.index(b"\n") + 1 if form == "csv" else 0, []
    while start < len(text):
        end = min(len(text), start + BLOCK_BYTES)
        end = text.rindex(b"\n", start, end) + 1
        blocks.append(text[start:end])
        start = end
    return blocks


def _give_back() -> None:
    """Return free memory to the system: what a warm-up leaves would hide growth later."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def checksum(table: pa.Table | pa.RecordBatch) -> int:
    """Of the set of rows, whatever their order: text by its bytes, integers, floats in hundredths, null as 0.

    Sums of float64 in different orders differ in their last bits; in hundredths they must not.
    """
    total = np.uint64(0)
    for start in range(0, table.num_rows, CHECK_ROWS):
        rows = np.zeros(min(CHECK_ROWS, table.num_rows - start), np.uint64)
        for column in table.columns:
            part = column.slice(start, CHECK_ROWS)
            part = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
            rows = _mix(rows ^ _words(part))
        total += rows.sum(dtype=np.uint64)
    return int(total)


def _words(column: pa.Array) -> np.ndarray:
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        return _hash_keys(column)
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    whole = numbers if pa.types.is_integer(column.type) else np.rint(numbers * 100)
    words: np.ndarray = whole.astype(np.int64).view(np.uint64)
    return words


def _hash_keys(keys: pa.Array) -> np.ndarray:
    """uint64[rows] of the bytes and the length of keys of up to KEY_BYTES_MAX bytes."""
    keys = keys.cast(pa.large_binary()) if keys.type != pa.string_view() else keys.cast(pa.large_string())
    buffers = keys.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(offsets)
    assert lengths.max(initial=0) <= KEY_BYTES_MAX, "a key is longer than the checksum reads"
    text = np.frombuffer(buffers[2], np.uint8)
    columns = np.arange(KEY_BYTES_MAX)
    places = np.minimum(offsets[:-1, None] + columns, max(len(text) - 1, 0))
    words = np.where(columns < lengths[:, None], text[places], 0).astype(np.uint8).view(np.uint64)
    hashes = lengths.astype(np.uint64)
    for column in range(words.shape[1]):
        hashes = _mix(hashes ^ words[:, column])
    return hashes


def _mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed
