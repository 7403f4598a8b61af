"""The HTTP API against browsers that were sent here, slow senders and crowds: a real listener."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import pytest

from elfmesh.api.app import make_app
from elfmesh.api.web.request_limits import RequestLimits
from tests.control.fakes import FakeBackend
from tests.hostile.listening import Listening, head, listening

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
async def api() -> AsyncIterator[Listening]:
    request_limits = RequestLimits(requests_max=4, streams_max=2, connections_max=6, quiet_s=0.0)
    async with listening(make_app(FakeBackend(), request_limits=request_limits), request_limits) as found:
        yield found


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example",
        b"evil.example:80",
        b"",
        b"[::1",
        b"0x7f.1",
    ],
)
async def test_a_name_that_was_bound_to_this_address_gets_nothing(api: Listening, host: bytes) -> None:
    status, _, body = await api.ask(head("GET", "/v1/jobs", host=host))
    assert status in (400, 403), body


@pytest.mark.parametrize("origin", [b"http://evil.example", b"null", b"file://", b"http://127.0.0.1:1"])
async def test_a_page_of_another_origin_gets_nothing(api: Listening, origin: bytes) -> None:
    status, _, _ = await api.ask(head("GET", "/v1/jobs", Origin=origin))
    assert status == 403


async def test_a_form_of_a_page_is_no_request(api: Listening) -> None:
    body = b'{"text": "CREATE JOB a.b AS SELECT 1"}'
    for kind in (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data"):
        status, _, _ = await api.ask(head("POST", "/v1/jobs", body=body, Content_Type=kind))
        assert status == 400


@pytest.mark.parametrize(
    "path", [f"/{SCRIPT}", f"/v1/jobs/a/{SCRIPT}", f"/v1/jobs/a/b/results?from={SCRIPT}"]
)
async def test_an_answer_that_repeats_a_request_is_never_a_page(api: Listening, path: str) -> None:
    _, headers, _ = await api.ask(head("GET", path.replace("<", "%3C").replace(">", "%3E")))
    assert headers["content-type"].startswith(("application/json", "application/x-ndjson"))
    assert headers["x-content-type-options"] == "nosniff"


async def test_bodies_are_not_unfolded(api: Listening) -> None:
    bomb = gzip.compress(b'{"text": "' + b" " * (8 << 20) + b'"}')
    assert len(bomb) < 10_000
    fields = {"Content_Type": b"application/json", "Content_Encoding": b"gzip"}
    status, _, answer = await api.ask(head("POST", "/v1/jobs", body=bomb, **fields))
    assert status == 400
    assert "not JSON" in json.loads(answer)["error"]


async def test_deep_json_is_refused(api: Listening) -> None:
    for body in (b"[" * 100_000, b'{"a":' * 40_000):
        status, _, _ = await api.ask(head("POST", "/v1/jobs", body=body, Content_Type=b"application/json"))
        assert status == 400


@pytest.mark.parametrize(
    "request_head",
    [b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
     b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
     b"Content-Length: 99999999999\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
     b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n"],
    ids=["path", "header", "stated body", "two lengths", "negative length"],
)  # fmt: skip
async def test_lengths_have_limits(api: Listening, request_head: bytes) -> None:
    status, _, _ = await api.ask(request_head)
    assert status in (400, 404, 413)
