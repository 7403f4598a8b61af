"""Hash maps of C++: `unordered` (the standard's), `sparsehash` (Google's, ELF's rival), `absl` flat_hash_map.

Built on demand with g++ into the benchmarks' directory. Debian and Ubuntu: libsparsehash-dev, libabsl-dev.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import data, meter

SOURCE = Path(__file__).with_name("hash_maps.cpp")
MAPS = {"unordered": (1, []), "sparsehash": (2, []), "absl": (3, ["-labsl_raw_hash_set", "-labsl_hash"])}
POINTER = ctypes.c_void_p


class CannotBuild(Exception):
    """No compiler, or the map's headers are not installed."""


@cache
def build(variant: str, aggregates: str) -> Path:
    """The shared library of a map.

    Raises:
        CannotBuild: with the compiler's first complaint.
    """
    number, libraries = MAPS[variant]
    out = data.directory() / f"hash-maps-{variant}-{aggregates}-{int(SOURCE.stat().st_mtime)}.so"
    if out.exists():
        return out
    if shutil.which("g++") is None:
        raise CannotBuild("g++ is not installed")
    four = int(aggregates == "four")
    command = ["g++", "-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", f"-DMAP={number}"]
    beside = out.with_suffix(".part")
    command += [f"-DFOUR={four}", str(SOURCE), "-o", str(beside), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = next((line for line in done.stderr.splitlines() if "error" in line), "g++ failed")
        raise CannotBuild(complaint.split("error:")[-1].strip())
    beside.rename(out)
    return out


class HashMap:
    def __init__(self, variant: str, aggregates: str) -> None:
        self._names = meter.AGGREGATES[aggregates]
        library = self._library = ctypes.CDLL(str(build(variant, aggregates)))
        library.groups_new.restype = POINTER
        for name in ("groups_count", "groups_key_bytes"):
            getattr(library, name).restype = ctypes.c_int64
        self._groups = POINTER(library.groups_new())

    def __del__(self) -> None:
        self._library.groups_free(self._groups)

    def insert(self, batch: pa.RecordBatch) -> None:
        _, offsets, text = batch.column(0).buffers()
        values = batch.column(1).buffers()[1]
        assert batch.column(0).offset == 0, "batches of a stream are not slices"
        rows = ctypes.c_int64(len(batch))
        arguments = (POINTER(buffer.address) for buffer in (text, offsets, values))
        self._library.groups_insert(self._groups, *arguments, rows)

    def result(self) -> pa.Table:
        count = self._library.groups_count(self._groups)
        text = np.empty(max(self._library.groups_key_bytes(self._groups), 1), np.uint8)
        offsets, counts = np.empty(count + 1, np.int64), np.empty(count, np.int64)
        sums, least, greatest = (np.empty(count) for _ in range(3))
        arrays = (text, offsets, counts, sums, least, greatest)
        self._library.groups_read(self._groups, *(POINTER(array.ctypes.data) for array in arrays))
        keys = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
        columns = dict(zip(("n", "s", "lo", "hi"), arrays[2:], strict=True))
        return pa.table({"k": keys, **{name: columns[name] for name in self._names}})


if __name__ == "__main__":
    meter.main(HashMap)
