"""Results of a real agent as a file over HTTP, as programs that know no elfmesh read them."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.fleet import Fleet
from tests.e2e.test_agents import append, close, closed_after

JOB = """CREATE JOB e2e.files HORIZON '300 s' AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
URL = "/v1/jobs/e2e/files/results"
Row = tuple[int, str, int]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.start(2, options=",format=json,idle=1 h")
        fleet.apply(JOB)
        for second in range(6):
            for agent, path in enumerate((fleet.log(0), fleet.log(1))):
                line = {"ts": f"1970-01-01T00:00:0{second}Z", "k": "abc"[(second + agent) % 3], "v": agent}
                append(path, [json.dumps(line)])
        close(fleet, 1000)
        for number in (0, 1):
            closed_after(fleet, "e2e/files", 4, number)
        yield fleet


def expected(fleet: Fleet) -> list[Row]:
    found = fleet[1].results("e2e/files")
    return [(each["interval"]["index"], row["k"], row["n"]) for each in found for row in each["rows"]]


def rows_of(table: pa.Table) -> list[Row]:
    return [(row["interval_index"], row["k"], row["n"]) for row in table.to_pylist()]


def test_a_file_has_the_rows_of_the_results_at_each_agent(fleet: Fleet) -> None:
    wanted = expected(fleet)
    assert len(wanted) == 12
    for agent in fleet:
        parquet = pq.read_table(io.BytesIO(agent.ask("GET", f"{URL}.parquet")))
        assert rows_of(parquet) == wanted
        assert pa.ipc.open_file(agent.ask("GET", f"{URL}.arrow")).read_all().equals(parquet)
    late = fleet[0].ask("GET", f"{URL}.parquet?since=1970-01-01T00:00:04Z&until=1970-01-01T00:00:05Z")
    assert rows_of(pq.read_table(io.BytesIO(late))) == [row for row in wanted if row[0] == 4] != []


def test_pandas_reads_the_address(fleet: Fleet) -> None:
    options = {name: text for name, text in fleet[0].headers().items() if name == "Authorization"}
    frame = pd.read_parquet(f"http://{fleet[0].api}{URL}.parquet", storage_options=options)
    assert [*zip(frame["interval_index"], frame["k"], frame["n"], strict=True)] == expected(fleet)


def test_a_reader_of_ranges_gets_columns_without_the_rest_of_the_file(fleet: Fleet) -> None:
    address = f"http://{fleet[0].api}{URL}.parquet"

    class Ranges(io.RawIOBase):
        """A file that sends a request for each read."""

        def __init__(self) -> None:
            self.at, self.read_bytes = 0, 0
            request = urllib.request.Request(address, headers=fleet[0].headers(), method="HEAD")
            with urllib.request.urlopen(request) as answer:
                self.size = int(answer.headers["Content-Length"])

        def seekable(self) -> bool:
            return True

        def readable(self) -> bool:
            return True

        def tell(self) -> int:
            return self.at

        def seek(self, place: int, whence: int = 0) -> int:
            self.at = place + (0, self.at, self.size)[whence]
            return self.at

        def read(self, count: int = -1) -> bytes:
            last = self.size if count < 0 else min(self.size, self.at + count)
            headers = fleet[0].headers() | {"Range": f"bytes={self.at}-{last - 1}"}
            with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
                assert answer.status == 206
                data: bytes = answer.read()
            self.at += len(data)
            self.read_bytes += len(data)
            return data

    file = Ranges()
    found = pq.ParquetFile(pa.PythonFile(file, mode="r")).read(columns=["n"])
    assert found["n"].to_pylist() == [n for _, _, n in expected(fleet)]
    assert 0 < file.read_bytes < 2 * file.size


def test_duckdb_reads_the_address(fleet: Fleet) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    connection = duckdb.connect()
    try:
        connection.execute("LOAD httpfs")
    except duckdb.Error as error:
        pytest.skip(f"duckdb has no extension httpfs here: {error}".splitlines()[0])
    token = fleet[0].headers()["Authorization"].removeprefix("Bearer ")
    connection.execute(f"CREATE SECRET elf (TYPE http, BEARER_TOKEN '{token}')")
    query = f"SELECT interval_index, k, n FROM read_parquet('http://{fleet[0].api}{URL}.parquet')"
    assert connection.execute(query).fetchall() == expected(fleet)


def test_an_invalid_token_gets_no_file(fleet: Fleet) -> None:
    headers = {"Authorization": "Bearer wrong"}
    request = urllib.request.Request(f"http://{fleet[0].api}{URL}.parquet", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as caught, urllib.request.urlopen(request):
        pass
    with caught.value as answer:
        assert answer.code == 401
        assert json.loads(answer.read())["error"]
