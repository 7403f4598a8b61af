"""Key streams of the benchmarks: deterministic, made once, kept outside the project.

Files live in ELF_BENCH_DATA, or in a directory of the user below the system's temporary one; they are
written beside and renamed, so that a killed run leaves none half made.

A stream is an Arrow file of batches (`k` string, `v` float64 with two decimals), read by mapping it, so that
no contestant pays for reading. Needs numpy and pyarrow only: the peers read it too.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

VERSION = 2
"""Part of every file's name: raise it when what a generator makes changes."""

BATCH_ROWS = 1 << 16


def directory() -> Path:
    """Where inputs and built peers are kept."""
    named = os.environ.get("ELF_BENCH_DATA")
    path = Path(named) if named else Path(tempfile.gettempdir()) / f"elf-bench-{getpass.getuser()}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def made(name: str, write: Callable[[Path], None]) -> Path:
    """The file of this name, written now if it is not there yet."""
    path = directory() / f"v{VERSION}-{name}"
    if not path.exists():
        beside = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            write(beside)
            beside.rename(path)
        finally:
            beside.unlink(missing_ok=True)
    return path


def hot(tuples: int, keys: int) -> Path:
    """Structured keys as in logs (`user:..`, `/p/...html`), Zipf 1.0."""

    def ids(rng: np.random.Generator, rows: int) -> np.ndarray:
        return np.searchsorted(zipf(keys), rng.random(rows)).astype(np.int32)

    return made(f"hot-{tuples}-{keys}.arrow", lambda path: _draw(path, tuples, _structured(keys), ids))


def wide(tuples: int, keys: int) -> Path:
    """Keys of 5 to 20 random letters, each as likely as any other."""

    def ids(rng: np.random.Generator, rows: int) -> np.ndarray:
        return rng.integers(0, keys, rows, dtype=np.int32)

    return made(f"wide-{tuples}-{keys}.arrow", lambda path: _draw(path, tuples, _letters(keys, 1), ids))


def unique(tuples: int) -> Path:
    """Keys of 5 to 20 random letters, nearly all of them once."""

    def write(path: Path) -> None:
        rng = np.random.default_rng(2)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as out:
            for start in range(0, tuples, BATCH_ROWS):
                rows = min(BATCH_ROWS, tuples - start)
                out.write_batch(pa.record_batch([_letters(rows, start + 3), _values(rng, rows)], _SCHEMA))

    return made(f"unique-{tuples}.arrow", write)


_SCHEMA = pa.schema([("k", pa.string()), ("v", pa.float64())])


def batches(path: Path) -> list[pa.RecordBatch]:
    """The batches of a key stream, mapped and touched: reading them costs nothing any more."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    out = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    for batch in out:
        for buffer in (*batch.column(0).buffers(), *batch.column(1).buffers()):
            if buffer is not None:
                np.frombuffer(buffer, np.uint8)[::4096].max(initial=0)
    return out


def _draw(
    path: Path, tuples: int, keys: pa.Array, ids: Callable[[np.random.Generator, int], np.ndarray]
) -> None:
    rng = np.random.default_rng(1)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as out:
        for start in range(0, tuples, BATCH_ROWS):
            rows = min(BATCH_ROWS, tuples - start)
            drawn = keys.take(pa.array(ids(rng, rows)))
            out.write_batch(pa.record_batch([drawn, _values(rng, rows)], _SCHEMA))


def _values(rng: np.random.Generator, rows: int) -> pa.Array:
    return pa.array(np.round(np.exp(rng.normal(2.5, 0.9, rows)), 2))


def zipf(keys: int) -> np.ndarray:
    """float64[keys], cumulative shares by rank: `searchsorted` of uniform numbers draws from it."""
    shares: np.ndarray = np.cumsum(1.0 / np.arange(1, keys + 1))
    shares /= shares[-1]
    return shares


def _letters(count: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(rng.integers(5, 21, count, dtype=np.int32), out=offsets[1:])
    letters = rng.integers(ord("a"), ord("z") + 1, int(offsets[-1]), dtype=np.uint8)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


_SHAPES = ("user:{}", "item/{}", "prod-{}", "/p/{}.html", "sess_{}", "sku{:X}-07", "ad.click:{}")


def _structured(count: int) -> pa.Array:
    numbers = (np.arange(count, dtype=np.uint64) * np.uint64(2_654_435_761)) % np.uint64(1_000_000_007)
    shapes = np.random.default_rng(4).integers(0, len(_SHAPES), count)
    return pa.array(
        [
            _SHAPES[shape].format(number)
            for shape, number in zip(shapes.tolist(), numbers.tolist(), strict=True)
        ]
    )
