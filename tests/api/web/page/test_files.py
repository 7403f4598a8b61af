"""The files of the page: nothing from elsewhere, small on the wire, and no other name."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import zstandard
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from elfmesh.api.web.page.files import INDEX, page_files
from tests.control.fakes import FakeBackend

Api = TestClient[Any, Any]

TRANSFER_BYTES_MAX = {"zstd": 205_000, "gzip": 220_000}

JOB = "CREATE JOB shop.top AS SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend()
    streams = [{"stream": "log", "formats": ["json"], "columns": [], "agents": ["web1"]}]
    backend.lists("streams", streams)
    backend.lists("list", [{"job": "shop/top"}])
    return backend


@pytest.fixture
async def api(backend: FakeBackend) -> AsyncIterator[Api]:
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1"), auto_decompress=False) as client:
        yield client


async def test_the_page_may_load_nothing_from_elsewhere_and_no_other_page_may_frame_it(api: Api) -> None:
    answer = await api.get("/page/")
    assert (answer.status, answer.content_type) == (200, "text/html")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert all(
        "unsafe" not in value and "http" not in value and "*" not in value for value in policy.values()
    )
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_nothing_stands_in_the_html_that_the_policy_would_have_to_allow() -> None:
    html = page_files()[INDEX].encoded[""].decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|https?://", html)
    assert all(re.search(r"\bsrc=", tag) for tag in re.findall(r"<script\b[^>]*>", html))


def test_our_scripts_make_no_markup_of_values() -> None:
    ours = {name: each for name, each in page_files().items() if name.endswith(".js") and "/" not in name}
    assert len(ours) > 8
    for name, each in ours.items():
        text = each.encoded[""].decode()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", text
        ), name
        assert "localStorage" not in text, "a token is kept in memory only"
        assert text.count("\n") <= 400, name


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_all_files_together_are_small_on_the_wire(api: Api, coding: str) -> None:
    sent = 0
    for name, each in page_files().items():
        if name.endswith(".txt"):
            continue
        answer = await api.get(f"/page/{name}", headers={"Accept-Encoding": coding})
        body = await answer.read()
        assert answer.headers["Content-Encoding"] == coding
        plain = gzip.decompress(body) if coding == "gzip" else zstandard.decompress(body)
        assert plain == each.encoded[""]
        sent += len(body)
    assert 50_000 < sent < TRANSFER_BYTES_MAX[coding]


async def test_a_browser_that_refuses_a_coding_does_not_get_it(api: Api) -> None:
    for accepted in ("identity", "gzip;q=0", "br", ""):
        answer = await api.get("/page/style.css", headers={"Accept-Encoding": accepted})
        assert "Content-Encoding" not in answer.headers, accepted
        assert await answer.read() == page_files()["style.css"].encoded[""]


async def test_a_browser_that_has_a_file_gets_status_304(api: Api) -> None:
    first = await api.get("/page/app.js")
    again = await api.get("/page/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, await again.read()) == (304, b"")
    assert "Content-Security-Policy" in again.headers


@pytest.mark.parametrize(
    "path", ["../routes.py", "..%2froutes.py", "%2e%2e/files.py", "vendor/", "no.js", "//etc/passwd"]
)
async def test_only_the_pages_own_files_are_there(api: Api, path: str) -> None:
    answer = await api.get(f"/page/{path}")
    assert answer.status == 404


def test_the_licence_of_every_library_is_with_it() -> None:
    text = page_files()["vendor/LICENSES.txt"].encoded[""].decode()
    for name in ("uplot", "@codemirror/view", "@codemirror/lang-sql", "@lezer/lr", "style-mod", "crelt"):
        assert f"{name} " in text
    assert text.count("Permission is hereby granted") >= 10
