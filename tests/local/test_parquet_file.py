"""Rows in one Parquet file: types, blocks, and files that are whole or absent."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elfmesh.errors import DataError, RuntimeFailure
from elfmesh.local import parquet_file as module
from elfmesh.local.parquet_file import parquet_file, table_of


def test_a_file_has_the_columns_and_types_of_all_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    blocks = [
        pa.table({"n": pa.array([1], pa.int64()), "t": pa.nulls(1)}),
        pa.table({"n": pa.array([2.5]), "k": pa.array(["x"]), "t": pa.nulls(1)}),
        pa.table({"n": pa.array([], pa.int64())}),
    ]
    with parquet_file(path) as rows:
        for block in blocks:
            rows.write(block)
        assert [*tmp_path.iterdir()] == []
    table = pq.read_table(path)
    assert table.schema == pa.schema([("n", pa.float64()), ("t", pa.string()), ("k", pa.string())])
    assert table.to_pylist() == [{"n": 1.0, "t": None, "k": None}, {"n": 2.5, "t": None, "k": "x"}]
    assert [*tmp_path.iterdir()] == [path]


def test_small_blocks_share_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP_ROWS", 3)
    with parquet_file(tmp_path / "a") as rows:
        for number in range(7):
            rows.write(pa.table({"n": [number]}))
    found = pq.ParquetFile(tmp_path / "a")
    assert (found.num_row_groups, found.read().column("n").to_pylist()) == (3, [*range(7)])


def test_a_column_of_types_without_a_common_type_is_refused(tmp_path: Path) -> None:
    def write() -> None:
        with parquet_file(tmp_path / "a") as rows:
            rows.write(pa.table({"n": [1]}))
            rows.write(pa.table({"n": ["x"]}))

    with pytest.raises(DataError, match="n has values of the types BIGINT and STRING") as raised:
        write()
    assert "CAST(n AS STRING)" in raised.value.hint
    assert [*tmp_path.iterdir()] == []


def test_an_integer_that_no_fraction_represents_is_refused(tmp_path: Path) -> None:
    def write() -> None:
        with parquet_file(tmp_path / "a") as rows:
            rows.write(pa.table({"n": [2**53 + 1]}))
            rows.write(pa.table({"n": [1.5]}))

    with pytest.raises(DataError, match="n has values of the types BIGINT and DOUBLE"):
        write()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt()])
def test_an_error_leaves_the_earlier_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")

    def write() -> None:
        with parquet_file(path) as rows:
            rows.write(pa.table({"n": [1]}))
            raise error

    with pytest.raises(type(error)):
        write()
    assert [(each, each.read_bytes()) for each in tmp_path.iterdir()] == [(path, b"before")]


@pytest.mark.parametrize("writes", [0, 1, 4])
def test_a_full_disk_is_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    left = [writes]

    class Full:
        """A file on a disk with room for so many writes."""

        def __init__(self, file: object) -> None:
            self._file = file

        def write(self, data: bytes) -> int:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self._file.write(data)  # type: ignore[attr-defined, no-any-return]  # any file

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

    opened = pq.ParquetWriter
    monkeypatch.setattr(pq, "ParquetWriter", lambda file, schema: opened(Full(file), schema))
    with pytest.raises(RuntimeFailure) as raised, parquet_file(tmp_path / "a") as rows:
        rows.write(pa.table({"n": [*range(1000)]}))
    assert raised.value.message == f"{tmp_path}/a: cannot be written: No space left on device"
    assert [*tmp_path.iterdir()] == []


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="is not a regular file"), parquet_file(tmp_path):
        pass
    with pytest.raises(RuntimeFailure, match="No such file or directory"), parquet_file(tmp_path / "a/b"):
        pass


def test_objects_of_json_become_columns() -> None:
    rows: list[dict[str, Any]] = [
        {"n": 1, "l": ["a"], "o": {"k": [1]}, "m": 1, "d": [{"x": 1}], "extra": 1},
        {"n": None, "l": [], "m": "x"},
    ]
    found = table_of(["n", "l", "o", "m", "d", "none"], rows)
    assert [str(field.type) for field in found.schema] == [
        *("int64", "list<item: string>", "string", "string", "string", "null"),
    ]
    assert found.to_pylist()[0] == {
        "n": 1, "l": ["a"], "o": '{"k":[1]}', "m": "1", "d": '[{"x":1}]', "none": None
    }  # fmt: skip
