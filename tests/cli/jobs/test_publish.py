"""`elf publish`: files as tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elfmesh.cli.jobs.publish import read_file
from elfmesh.errors import DataError, ElfError, RuntimeFailure

ROWS = [{"name": "ann", "weight": 7}, {"name": "bob", "weight": 9}]
JSON = b'{"name": "ann", "weight": 7}\n{"name": "bob", "weight": 9}\n'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", b"name,weight\nann,7\nbob,9\n"),
        ("t.json", JSON),
        ("t.jsonl", JSON),
        ("t.ndjson", JSON),
        ("T.NDJSON", JSON),
        ("t.parquet", None),
    ],
)
def test_rows_are_the_same_however_they_are_written(name: str, data: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if data is None:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        path.write_bytes(data)
    assert read_file(path).to_pylist() == ROWS


@pytest.mark.parametrize(
    ("name", "data", "error", "message"),
    [
        ("t.txt", b"a", DataError, "is not a table"),
        ("csv", b"a", DataError, "is not a table"),
        ("t.parquet", b"a,b", DataError, "cannot be read: "),
        ("t.json", b"{", DataError, "cannot be read: "),
        ("t.csv", b"", DataError, "cannot be read: "),
        ("t.csv", None, RuntimeFailure, "cannot open it: "),
    ],
)
def test_a_file_that_is_no_table_is_named(
    name: str, data: bytes | None, error: type[ElfError], message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(error) as refused:
        read_file(path)
    assert (refused.value.where, "\n" in refused.value.message) == (str(path), False)
    assert message in refused.value.message
