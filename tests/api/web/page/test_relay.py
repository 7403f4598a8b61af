"""`elf page` between a browser and an agent: its token and its own origin, or nothing; all else as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio

from elfmesh.api.identity.credentials import Credentials
from elfmesh.api.web.page.relay import PageRelay
from tests.control.fakes import FakeBackend, served

pytestmark = pytest.mark.asyncio


@pytest.fixture
def api() -> Iterator[str]:
    with served(FakeBackend()) as address:
        yield address


@pytest_asyncio.fixture
async def relay(api: str) -> AsyncIterator[PageRelay]:
    async with PageRelay(api, Credentials()) as relay:
        yield relay


def base(relay: PageRelay) -> str:
    parts = urlsplit(relay.url)
    return f"{parts.scheme}://{parts.netloc}"


def token(relay: PageRelay) -> dict[str, str]:
    return {"Authorization": f"Bearer {urlsplit(relay.url).fragment.removeprefix('token=')}"}


async def test_the_page_itself_needs_no_token_and_keeps_its_policy(relay: PageRelay, api: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with (
            session.get(f"http://{api}/page/") as direct,
            session.get(f"{base(relay)}/page/") as passed,
        ):
            assert passed.status == 200
            assert await passed.read() == await direct.read()
            for name in ("Content-Security-Policy", "X-Content-Type-Options", "Content-Type"):
                assert passed.headers[name] == direct.headers[name]
        async with session.get(f"{base(relay)}/", allow_redirects=False) as sent:
            assert (sent.status, sent.headers["Location"]) == (302, "/page/")


@pytest.mark.parametrize("reported", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}])
async def test_without_its_token_nothing_is_asked_of_the_agent(
    relay: PageRelay, reported: dict[str, str]
) -> None:
    me = f"{base(relay)}/v1/me"
    async with aiohttp.ClientSession() as session, session.get(me, headers=reported) as answer:
        assert answer.status == 401
        assert "elf page" in (await answer.json())["hint"]


PATHS = (
    "/page/../v1/me",
    "/./v1/me",
    "/page/%2e%2e/v1/me",
    "/page/./../v1/me",
    "/page/x/../../v1/me",
    "//v1/me",
    "/%761/me",
    "/metrics",
    "/page/..%2fv1/me",
    "/page/../metrics",
)


async def ask(base: str, method: str, target: str, reported: str = "") -> bytes:
    """The answer to a request that no client's library has made tidy."""
    netloc = urlsplit(base).netloc
    host, _, port = netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"{method} {target} HTTP/1.1\r\nHost: {netloc}\r\nConnection: close\r\n{reported}\r\n"
    writer.write(head.encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("target", PATHS)
async def test_no_way_of_writing_a_path_leads_past_the_token(
    relay: PageRelay, method: str, target: str
) -> None:
    assert b" 401 " in (await ask(base(relay), method, target)).splitlines()[0]


@pytest.mark.parametrize("target", ["/page/../v1/me", "/page/%2e%2e/v1/me"])
async def test_with_its_token_a_path_is_asked_as_it_was_written(relay: PageRelay, target: str) -> None:
    reported = f"Authorization: {token(relay)['Authorization']}\r\n"
    assert b" 404 " in (await ask(base(relay), "GET", target, reported)).splitlines()[0]


async def test_a_request_in_absolute_form_leads_nowhere_else(relay: PageRelay) -> None:
    reported = f"Authorization: {token(relay)['Authorization']}\r\n"
    for target in (f"{base(relay)}/v1/me", "http://evil.example/v1/me"):
        assert b" 400 " in (await ask(base(relay), "GET", target, reported)).splitlines()[0]


async def test_with_its_token_questions_and_bodies_go_through(relay: PageRelay) -> None:
    async with aiohttp.ClientSession(headers=token(relay)) as session:
        async with session.get(f"{base(relay)}/v1/me") as answer:
            assert answer.status == 200
            assert (await answer.json())["source"] == "loopback"
        text = {"text": "SELECT nonsense("}
        async with session.post(f"{base(relay)}/v1/check", json=text) as answer:
            assert answer.status == 400
            assert (await answer.json())["code"] == 65


@pytest.mark.parametrize(
    "reported", [{"Host": "evil.example:80"}, {"Origin": "http://evil.example"}, {"Origin": "null"}]
)
async def test_other_names_and_pages_of_other_origins_get_nothing(
    relay: PageRelay, reported: dict[str, str]
) -> None:
    me = f"{base(relay)}/v1/me"
    reported = reported | token(relay)
    async with aiohttp.ClientSession() as session, session.get(me, headers=reported) as answer:
        assert answer.status == 403


async def test_an_agent_that_is_gone_is_an_answer_of_the_relay() -> None:
    with served(FakeBackend()) as address:
        gone = address
    async with PageRelay(gone, Credentials()) as relay, aiohttp.ClientSession() as session:
        answer = await session.get(f"{base(relay)}/v1/me", headers=token(relay))
        assert answer.status == 503
        assert gone in (await answer.json())["error"]
