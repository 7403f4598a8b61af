"""Results as one Parquet or Arrow file over HTTP: contents, HEAD, ranges, snapshots, limits and bad input."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import FILES, make_app
from elfmesh.api.authority.needs import routes
from elfmesh.api.web.result_file import ResultFiles
from elfmesh.control.protocol.events import Reply
from tests.control.fakes import FakeBackend, recorded, table

Api = TestClient[Any, Any]
PARQUET = "/v1/jobs/shop/top/results.parquet"
ARROW = "/v1/jobs/shop/top/results.arrow"


class Backend(FakeBackend):
    """A job with windows of 10 s, whose interval 0 starts in 1970."""

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 30.0) -> Reply:
        if verb == "offsets" and not self.deleted:
            self.asked.append((verb, body))
            found = [record.index for record, _ in self.records]
            log = {"earliest": min(found, default=0), "latest": max(found, default=-1)}
            return Reply(0, 200, log | {"expired": self.expired, "incarnation": self.incarnation})
        return await super().request(verb, body, timeout_s)


@pytest.fixture
def backend() -> Backend:
    backend = Backend()
    window = {"size": "10 s", "slide": "10 s"}
    backend.replies["describe"] = Reply(0, 200, {**recorded("describe"), "window": window})
    for index in range(8):
        backend.publish(index, table(("apple", index), ("beer", 1)))
    return backend


@pytest.fixture
async def api(backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1")) as client:
        yield client
    assert names(tmp_path) == [], "the API removes its files when it ends"


def limited(api: Api, **limits: Any) -> ResultFiles:
    files = ResultFiles(**limits)
    assert isinstance(api.server, TestServer)
    app = api.server.app
    app[FILES].close()
    app._state[FILES] = files  # the application is frozen once it runs
    return files


def names(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


def pages(backend: Backend) -> int:
    return sum(verb == "schema" for verb, _ in backend.asked)


async def test_a_parquet_file_has_the_closed_intervals_in_one_row_group(api: Api) -> None:
    answer = await api.get(PARQUET)
    assert (answer.status, answer.content_type) == (200, "application/vnd.apache.parquet")
    assert answer.headers["X-Elf-Incarnation"] == "a1"
    file = pq.ParquetFile(io.BytesIO(await answer.read()))
    found = file.read()
    assert found.schema.names == [
        "interval_index", "interval_start", "interval_end", "state", "rev", "completeness", "product", "hits",
    ]  # fmt: skip
    assert found["interval_index"].to_pylist() == [index for index in range(8) for _ in range(2)]
    assert found["hits"].to_pylist()[::2] == list(range(8))
    assert file.num_row_groups == 1


async def test_an_arrow_file_has_the_same_rows(api: Api) -> None:
    answer = await api.get(ARROW)
    assert answer.content_type == "application/vnd.apache.arrow.file"
    found = pa.ipc.open_file(await answer.read()).read_all()
    assert found.equals(pq.read_table(io.BytesIO(await (await api.get(PARQUET)).read())))
    frame = pd.read_feather(io.BytesIO(await (await api.get(ARROW)).read()))
    assert frame["hits"].sum() == sum(range(8)) + 8


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("since=1970-01-01T00:00:20Z", [2, 3, 4, 5, 6, 7]),
        ("since=1970-01-01T00:00:20.5", [3, 4, 5, 6, 7]),
        ("until=1970-01-01T00:00:20", [0, 1]),
        ("since=1970-01-01T00:00:10&until=1970-01-01T00:00:30", [1, 2]),
        ("since=1960-01-01&until=now", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("since=10%20min", []),
        ("since=1970-01-01T00:00:30&until=1970-01-01T00:00:10", []),
    ],
)
async def test_since_and_until_choose_intervals_by_their_start(
    api: Api, query: str, found: list[int]
) -> None:
    answer = await api.get(f"{PARQUET}?{query}")
    assert answer.status == 200, await answer.text()
    rows = pq.read_table(io.BytesIO(await answer.read()))
    assert rows["interval_index"].to_pylist()[::2] == found
    assert "product" in rows.schema.names


async def test_head_and_ranges_are_of_one_file_although_intervals_close(api: Api, backend: Backend) -> None:
    head = await api.head(PARQUET)
    size = int(head.headers["Content-Length"])
    assert (head.status, head.headers["Accept-Ranges"], await head.read()) == (200, "bytes", b"")
    backend.publish(8, table(("cider", 1)))
    parts = []
    for first in range(0, size, 500):
        part = await api.get(PARQUET, headers={"Range": f"bytes={first}-{min(first + 499, size - 1)}"})
        assert part.status == 206
        assert part.headers["Content-Range"] == f"bytes {first}-{min(first + 499, size - 1)}/{size}"
        assert part.headers["ETag"] == head.headers["ETag"]
        parts.append(await part.read())
    assert max(pq.read_table(io.BytesIO(b"".join(parts)))["interval_index"].to_pylist()) == 7
    suffix = await api.get(PARQUET, headers={"Range": "bytes=-4"})
    assert await suffix.read() == b"PAR1"
    assert pages(backend) == 1, "the rows are fetched once"
    whole = await api.get(PARQUET)
    assert max(pq.read_table(io.BytesIO(await whole.read()))["interval_index"].to_pylist()) == 8
    assert whole.headers["ETag"] != head.headers["ETag"]
    stale = await api.get(PARQUET, headers={"Range": "bytes=0-3", "If-Match": head.headers["ETag"]})
    assert stale.status == 412
    beyond = await api.get(PARQUET, headers={"Range": "bytes=999999999-"})
    assert beyond.status == 416


async def test_a_file_of_a_past_range_is_not_written_again_when_later_intervals_close(
    api: Api, backend: Backend
) -> None:
    url = f"{PARQUET}?until=1970-01-01T00:00:30"
    tag = (await api.head(url)).headers["ETag"]
    backend.publish(8, table(("cider", 1)))
    assert (await api.head(url)).headers["ETag"] == tag
    assert (await api.get(url, headers={"If-None-Match": tag})).status == 304
    assert pages(backend) == 1


async def test_requests_at_once_share_a_file(api: Api, backend: Backend) -> None:
    answers = await asyncio.gather(*(api.get(PARQUET, headers={"Range": "bytes=0-3"}) for _ in range(5)))
    assert {await each.read() for each in answers} == {b"PAR1"}
    assert pages(backend) == 1


async def test_a_file_beyond_the_limit_is_refused_with_its_remedy(api: Api, tmp_path: Path) -> None:
    limited(api, file_bytes_max=200)
    answer = await api.get(PARQUET)
    body = await answer.json()
    assert (answer.status, body["error"]) == (413, "the file has more than 200 bytes")
    assert "since" in body["hint"]
    assert names(tmp_path) == []


async def test_files_are_removed_when_all_of_them_are_large_or_quiet(api: Api, tmp_path: Path) -> None:
    size = int((await api.head(PARQUET)).headers["Content-Length"])
    files = limited(api, bytes_max=2 * size)
    for until in range(1, 6):
        assert (await api.head(f"{PARQUET}?until=1970-01-01T00:00:{until}0")).status == 200
    assert len(files._files) <= 2
    files._quiet_s = -1.0
    files._remove_quiet()
    assert files._files == {}
    files.close()


async def test_a_job_without_results_has_an_empty_file(api: Api, backend: Backend) -> None:
    backend.records.clear()
    answer = await api.get(PARQUET)
    assert pq.read_table(io.BytesIO(await answer.read())).num_rows == 0


async def test_bad_requests_are_one_line_each(api: Api, backend: Backend) -> None:
    answer = await api.get(f"{PARQUET}?since=yesterday")
    body = await answer.json()
    assert (answer.status, body["error"], body["where"]) == (400, "'yesterday' is not a time", "since")
    assert (await api.get("/v1/jobs/shop/other/results.parquet")).status == 404
    assert (await api.post(PARQUET)).status == 405
    backend.replies["describe"] = Reply(0, 200, {**recorded("describe"), "window": {}})
    answer = await api.get(f"{PARQUET}?since=1970-01-01")
    assert (answer.status, (await answer.json())["error"]) == (
        409,
        "since and until need a job with windows of time",
    )


async def test_columns_of_two_types_are_refused(api: Api, backend: Backend) -> None:
    backend.publish(8, pa.table({"product": ["x"], "hits": pa.array([1.5])}))
    schema = backend._schema()
    backend.publish(9, pa.table({"product": ["x"], "hits": pa.array(["many"])}))
    backend.replies["schema"] = schema
    answer = await api.get(PARQUET)
    assert answer.status == 409
    assert "different types" in (await answer.json())["error"]


async def test_a_job_that_is_created_again_meanwhile_is_not_mixed(api: Api, backend: Backend) -> None:
    backend.remade_after = 2
    answer = await api.get(PARQUET)
    assert (answer.status, (await answer.json())["error"]) == (503, "the results log broke off")


async def test_a_full_disk_is_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    answer = await api.get(PARQUET)
    assert (answer.status, (await answer.json())["error"].split(": ", 1)[1]) == (
        500,
        "cannot be written: No space left on device",
    )


def test_the_files_need_the_role_of_results() -> None:
    rules = routes()
    job = "/v1/jobs/{namespace}/{name}"
    for kind in ("parquet", "arrow"):
        assert rules["GET", f"{job}/results.{kind}"].need == rules["GET", f"{job}/results"].need
