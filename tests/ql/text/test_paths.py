"""Ways of writing a path: none makes a submitter's request one about a namespace that is not theirs."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.authority.web import AUDIT
from elfmesh.ingest.authority.audit import AuditedApi, AuditLog
from elfmesh.storage.storage import MemoryStorage
from tests.api.authority.calls import OTHER, Api

PATHS = [
    "/v1/jobs/shop%2Ftop/x",
    "/v1/jobs/other%2F..%2Fshop/top",
    "/v1/jobs/other/../shop/top",
    "/v1/jobs//shop/top",
    "/v1/jobs/SHOP/top",
    "/v1/jobs/shop/top/",
    "/v1/jobs/other.shop/top",
    "/v1/jobs/other/shop.top",
    "/v1/jobs/%20shop/top",
    "/v1/jobs/other%00/top",
    "/v1/jobs/shop;other/top",
    "/v1/jobs/%2F/shop",
    "/v1/jobs/shop/top?namespace=other&creator=otto",
    "/v1/jobs/shop/top#/v1/jobs/other/top",
]


async def answered(api: Api, method: str, target: str, body: bytes = b"") -> bytes:
    """The answer to OTHER's request, sent as it stands."""
    api.caller = OTHER
    async with TestClient(TestServer(api.app, host="127.0.0.1")) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        kind = "Content-Type: application/json\r\n" if body else ""
        head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{kind}"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        reported = await reader.read()
        writer.close()
    return reported


@pytest.mark.parametrize("path", PATHS)
async def test_no_way_of_writing_a_path_reaches_anothers_namespace(path: str) -> None:
    base, _, query = path.partition("?")
    more = f"?{query}" if query else ""
    for method, target in (
        ("DELETE", path),
        ("delete", path),
        ("POST", f"{base}/pause{more}"),
        ("POST", f"{base}/rollout/undo{more}"),
        ("POST", f"{base}%2Fpause{more}"),
        ("PUT", path),
        ("OPTIONS", path),
    ):
        api = Api()
        reported = await answered(api, method, target)
        assert reported.split(b" ")[1] in (b"400", b"403", b"404", b"405"), (method, target)
        assert api.backend.asked == [], (method, target)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_bytes_that_are_no_text_are_refused_and_written_down(method: str) -> None:
    api, storage = Api(), MemoryStorage()

    class Now:
        async def run(self, lane: str, work: object) -> None:
            work()  # type: ignore[operator]  # what the executor is given

    log = AuditLog(storage, lambda: 1_000_000)
    api.app[AUDIT] = AuditedApi(log, Now())  # type: ignore[arg-type]  # runs at once
    reported = await answered(api, "DELETE", "/v1/jobs/%ff%fe%ed%a0%80/top")
    assert reported.split(b" ")[1] == b"403"
    assert log.describe()["lines"] == 1


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/check", "/v1/tap"])
async def test_text_that_is_no_unicode_is_an_error_of_the_client(path: str) -> None:
    body = b'{"text": "CREATE JOB other.x \\ud800", "texts": ["CREATE JOB other.x \\ud800"]}'
    reported = await answered(Api(), "POST", path, body)
    assert reported.split(b" ")[1] in (b"400", b"403"), reported


async def test_a_whole_pair_is_text() -> None:
    reported = await answered(Api(), "POST", "/v1/check", b'{"text": "SELECT \\ud83d\\ude00"}')
    assert b"not JSON" not in reported
