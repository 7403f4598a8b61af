"""Parquet files as input of a run: the rows of the same table in memory, and one line for what is wrong."""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import elfmesh
from elfmesh.errors import DataError, QueryError, UsageError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local import parquet_input
from elfmesh.local.log_profile import profile
from elfmesh.local.parquet_input import ParquetTable, parquet_tables
from tests.cli.remote import elf

ROWS = 500
START = datetime.datetime(2026, 1, 1)


def table(rows: int = ROWS, first: int = 0) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "ts": pa.array([START + datetime.timedelta(seconds=at) for at in numbers], pa.timestamp("ms")),
            "k": [f"k{at % 7}" for at in numbers],
            "v": pa.array(numbers, pa.int32()),
            "tags": [["a", "b"][: at % 3] for at in numbers],
            "s": [{"x": at % 5, "y": {"z": "q"}} for at in numbers],
            "m": pa.array([[("a", at)] for at in numbers], pa.map_(pa.string(), pa.int64())),
        }
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "x.parquet", table(), row_group_size=120)


def written(path: Path, rows: pa.Table, **options: Any) -> Path:
    pq.write_table(rows, path, **options)
    return path


def rows_of(text: str, inputs: Any, **options: Any) -> list[dict[str, Any]]:
    return [row for each in elfmesh.run(text, inputs, **options) for row in each.to_pylist()]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM log",
        "SELECT count(*) AS n FROM log",
        "SELECT k, count(*) AS n, sum(v) AS s, max(m['a']) AS a FROM log WHERE v > 9 GROUP BY k",
        "SELECT s.x AS x, min(s.y.z) AS z, count(s.none) AS none FROM log GROUP BY s.x ORDER BY x",
        "SELECT v, tags[0] AS t, _host AS h FROM log WHERE array_contains(tags, 'b') ORDER BY v LIMIT 5",
        "SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
    ],
)
def test_the_rows_are_those_of_the_table_in_memory(text: str, file: Path) -> None:
    assert rows_of(text, file) == rows_of(text, table())


def test_files_of_a_stream_are_read_in_order_and_named_by_source(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{at}.parquet", table(10, 10 * at)) for at in range(3)]
    found = rows_of("SELECT v, _source AS f FROM log", [str(path) for path in paths])
    assert [row["v"] for row in found] == [*range(30)]
    assert [row["f"] for row in found] == [str(path) for path in paths for _ in range(10)]


def test_a_sample_and_a_range_of_times_hold(file: Path) -> None:
    assert rows_of("SELECT count(*) AS n FROM log", file, sample=130) == [{"n": 130}]
    found = rows_of("SELECT v FROM log", file, start="2026-01-01T00:01:00Z", end="2026-01-01T00:01:03Z")
    assert [row["v"] for row in found] == [60, 61, 62]


def test_a_join_reads_a_parquet_file_and_a_log(tmp_path: Path, file: Path) -> None:
    log = tmp_path / "names.ndjson"
    log.write_text('{"k": "k1", "name": "one"}\n')
    text = "SELECT a.name AS name, count(*) AS n FROM x JOIN a ON x.k = a.k GROUP BY a.name"
    assert rows_of(text, (), streams={"x": file, "a": log}) == [{"name": "one", "n": 72}]


def test_columns_that_a_query_does_not_read_are_not_read(tmp_path: Path) -> None:
    rows = pa.table({"a": [*range(1000)], "b": [f"text {at}" for at in range(1000)]})
    path = written(tmp_path / "x.parquet", rows, compression="none", use_dictionary=False)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"text 5", b"text \xff"))
    assert rows_of("SELECT sum(a) AS n FROM log", path) == [{"n": 499500}]
    with pytest.raises(DataError, match=r"x\.parquet: is a damaged Parquet file: "):
        rows_of("SELECT b FROM log", path)


def test_a_large_row_group_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_input, "BLOCK_BYTES", 1 << 20)
    rng = random.Random(1)
    texts = [rng.randbytes(500).hex() for _ in range(40_000)]
    path = written(tmp_path / "x.parquet", pa.table({"t": texts}), use_dictionary=False, compression="none")
    del texts
    assert path.stat().st_size > 30 << 20
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for _, batch, _ in ParquetTable([str(path)]).batches(["t"]):
        most, rows = max(most, pa.total_allocated_bytes() - before), rows + batch.num_rows
    assert rows == 40_000
    assert most < 8 << 20


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (cut, "is a Parquet file without its end", "its writer"),
        (lambda data: b"", "is empty, and no Parquet file", "its writer"),
        (lambda data: b"PAR1", "is a damaged Parquet file", "Copy it again"),
        (lambda data: b'{"a": 1}\n', "is no Parquet file, although it is named like one", "--format json"),
        (lambda data: data[:-4] + b"PARE", "is an encrypted Parquet file", "Decrypt it"),
        (lambda data: data[:-8] + b"\xff\xff\xff\x00PAR1", "is a damaged Parquet file", "Copy it again"),
    ],
)
def test_a_bad_file_is_one_line_with_a_remedy(
    file: Path, change: Callable[[bytes], bytes], message: str, hint: str
) -> None:
    file.write_bytes(change(file.read_bytes()))
    done = elf("run", "SELECT * FROM log", str(file))
    assert done.exit_code == 65
    first, second = done.stderr.removeprefix("elf: ").splitlines()
    assert first.startswith(f"{file}: {message}")
    assert hint in second


def test_damaged_bytes_anywhere_are_refused_or_read(file: Path) -> None:
    good, rng, messages = file.read_bytes(), random.Random(7), []
    for _ in range(150):
        data = bytearray(good)
        first = rng.choice((0, len(data) - 2500))
        for _ in range(rng.choice((1, 2, 20))):
            data[rng.randrange(first, len(data))] = rng.randrange(256)
        file.write_bytes(data)
        try:
            elfmesh.run("SELECT * FROM log", file)
        except (DataError, QueryError) as error:
            messages.append(error.message)
    assert 50 < len(messages) < 150
    assert not any("\n" in message for message in messages)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1] * 4, pa.time64("us")), r"column v has the type time64\[us\], which ELF-QL lacks"),
        (pa.array([1.5] * 4), "column v has the type DOUBLE, and BIGINT in .*a.parquet"),
        (None, "has no column v, which .*a.parquet has"),
    ],
)
def test_a_column_that_does_not_fit_is_refused_where_it_is_read(
    tmp_path: Path, column: pa.Array | None, message: str
) -> None:
    one = written(tmp_path / "a.parquet", pa.table({"k": ["x"] * 4, "v": pa.array([1] * 4, pa.int8())}))
    other = pa.table({"k": ["y"] * 4} | ({} if column is None else {"v": column}))
    paths = [str(one), str(written(tmp_path / "b.parquet", other))]
    assert rows_of("SELECT k, count(*) AS n FROM log GROUP BY k", paths) == [
        {"k": "x", "n": 4},
        {"k": "y", "n": 4},
    ]
    for text in ("SELECT * FROM log", "SELECT v FROM log", "SELECT sum(v) AS s FROM log"):
        with pytest.raises(DataError, match=f"b.parquet: {message}"):
            rows_of(text, paths)


def test_a_column_of_a_later_file_is_refused_in_the_first_one(tmp_path: Path) -> None:
    paths = [str(written(tmp_path / f"{name}.parquet", pa.table({name: [1]}))) for name in "ab"]
    with pytest.raises(DataError, match=r"b\.parquet: has no column a, which .*a\.parquet has"):
        rows_of("SELECT * FROM log", paths)
    with pytest.raises(DataError, match=r"a\.parquet: has no column b, which .*b\.parquet has"):
        rows_of("SELECT b FROM log", paths)
    with pytest.raises(QueryError, match="log has no column c"):
        rows_of("SELECT c FROM log", paths)


def test_integers_of_any_width_and_columns_of_nulls_fit(tmp_path: Path) -> None:
    columns = (pa.array([1], pa.int8()), pa.array([2], pa.uint32()), pa.nulls(1))
    paths = [
        str(written(tmp_path / f"{at}.parquet", pa.table({"v": column}))) for at, column in enumerate(columns)
    ]
    assert rows_of("SELECT v FROM log", paths) == [{"v": 1}, {"v": 2}, {"v": None}]


def uuids(numbers: list[int | None]) -> pa.Array:
    plain = [None if each is None else uuid.UUID(int=each).bytes for each in numbers]
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(plain, pa.binary(16)))


def test_a_uuid_is_its_canonical_text_wherever_it_is(tmp_path: Path) -> None:
    """As DuckDB prints it; Spark 4 has no type for it."""
    ids = uuids([5, None, 2**128 - 1])
    rows = pa.table(
        {
            "u": ids,
            "l": pa.ListArray.from_arrays(pa.array([0, 1, 1, 3]), ids, mask=pa.array([False, True, False])),
            "s": pa.StructArray.from_arrays([ids], ["id"], mask=pa.array([False, True, False])),
        }
    )
    path = written(tmp_path / "x.parquet", rows)
    first, last = "00000000-0000-0000-0000-000000000005", "ffffffff-ffff-ffff-ffff-ffffffffffff"
    assert rows_of("SELECT u, l, s.id AS s FROM log ORDER BY u NULLS LAST", path) == [
        {"u": first, "l": [first], "s": first},
        {"u": last, "l": [None, last], "s": last},
        {"u": None, "l": None, "s": None},
    ]
    assert rows_of(f"SELECT count(*) AS n FROM log WHERE u = '{first}'", path) == [{"n": 1}]
    found = {each.name: each.types for each in profile(str(path), StreamFormat("auto")).columns}
    assert (found["u"], found["l"]) == (["STRING"], ["ARRAY<STRING>"])


def test_the_footer_of_a_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, whole = list[str](), pq.read_metadata

    def counted(path: str) -> pq.FileMetaData:
        read.append(path)
        return whole(path)

    monkeypatch.setattr("elfmesh.local.parquet_input.pq.read_metadata", counted)
    assert len(rows_of("SELECT * FROM log", file)) == ROWS
    assert len(rows_of("SELECT k, count(*) AS n FROM log GROUP BY k", file)) == 7
    assert read == [str(file)]
    written(file, table(3))
    assert rows_of("SELECT count(*) AS n FROM log", file) == [{"n": 3}]
    assert len(read) == 2


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    path = written(tmp_path / "x.parquet", rows)
    with pytest.raises(DataError, match=r"x\.parquet: has several columns named a"):
        rows_of("SELECT * FROM log", path)


def test_settings_for_lines_and_files_of_lines_are_refused(tmp_path: Path, file: Path) -> None:
    log = tmp_path / "a.ndjson"
    log.write_text('{"v": 1}\n')
    with pytest.raises(DataError, match=r"x\.parquet: is a Parquet file, in a pipe or behind lines"):
        rows_of("SELECT v FROM log", [log, file])
    with pytest.raises(DataError, match=r"a\.ndjson: is no Parquet file, and .*x\.parquet is one"):
        rows_of("SELECT v FROM log", [file, log])
    other = file.with_name("y.parquet")
    other.write_text("x")
    with pytest.raises(DataError, match=r"y\.parquet: is no Parquet file, although"):
        rows_of("SELECT v FROM log", [file, other])
    with pytest.raises(UsageError, match="--ts and --multiline are for lines"):
        rows_of("SELECT v FROM log", file, ts="v")
    done = elf("run", "--follow", "SELECT v FROM log", str(file))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "recognises Parquet files" in elf("run", "--format", "parquet", "SELECT 1 AS a FROM x").stderr


def test_a_file_object_is_refused_with_a_remedy(file: Path) -> None:
    with (
        file.open("rb") as opened,
        pytest.raises(DataError, match="is a Parquet file, in a pipe") as found,
    ):
        rows_of("SELECT v FROM log", opened)
    assert "Give Parquet files alone" in found.value.hint


def test_a_log_is_no_table(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("PAR is no magic\n")
    assert parquet_tables({"log": ([str(log)], StreamFormat())}) == {}


def test_a_profile_has_the_types_of_the_file(tmp_path: Path, file: Path) -> None:
    found = profile(str(file), StreamFormat())
    assert (found.format, found.records, found.fitting, found.bad) == ("parquet", ROWS, None, 0)
    assert {each.name: each.types for each in found.columns} == {
        "ts": ["TIMESTAMP"],
        "k": ["STRING"],
        "v": ["BIGINT"],
        "tags": ["ARRAY<STRING>"],
        "s": ["STRING"],
        "m": ["MAP<STRING, BIGINT>"],
    }
    assert found.first is not None
    assert (found.first.replace(tzinfo=None), found.lines_per_second) == (START, ROWS / (ROWS - 1))
    timeless = written(tmp_path / "y.parquet", table().select(["k"]))
    assert profile(str(timeless), StreamFormat()).first is None
    shown = elf("describe", "log", str(timeless)).stdout
    assert "time: none; a window needs an event time: name its column" in shown


def test_the_commands_over_files_read_it(file: Path) -> None:
    assert "parquet, 500 lines" in elf("report", str(file)).stdout
    assert '"n":500' in elf("sql", str(file), "-c", "SELECT count(*) AS n FROM log", "-o", "jsonl").stdout
    assert "tags" in elf("sql", str(file), "-c", ".schema log").stdout
