"""How many may be at the API at once, and how long they may take: refused are those that are too many."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from elfmesh.api.app import make_app
from elfmesh.api.identity.identify import Identifier
from elfmesh.api.identity.principal import Principal, Role
from elfmesh.api.web.request_limits import SHARE_MAX, RequestLimits
from elfmesh.control.protocol.events import Reply
from tests.control.fakes import FakeBackend
from tests.hostile.listening import Listening, head, listening
from tests.patience import PATIENCE_S


@pytest.fixture
async def api() -> AsyncIterator[Listening]:
    request_limits = RequestLimits(requests_max=4, streams_max=2, connections_max=6, quiet_s=0.0)
    async with listening(make_app(FakeBackend(), request_limits=request_limits), request_limits) as found:
        yield found


async def test_silent_and_slow_senders_are_closed_and_others_are_served(api: Listening) -> None:
    strangers = [await api.connect() for _ in range(3)]
    for number, (_, writer) in enumerate(strangers):
        writer.write(
            b""
            if number == 0
            else b"GET / HT"
            if number == 1
            else b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
        )
    await asyncio.sleep(0)
    await api.until_connected(3)
    api.request_limits.sweep(api.server, 1.0)
    api.request_limits.sweep(api.server, 2.0)
    for reader, writer in strangers:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
    status, _, _ = await api.ask(head("GET", "/v1/jobs"))
    assert status == 200
    assert api.request_limits.closed == 3


async def test_of_too_many_connections_the_oldest_silent_ones_go() -> None:
    request_limits = RequestLimits(connections_max=3, quiet_s=1e9)
    async with listening(make_app(FakeBackend(), request_limits=request_limits), request_limits) as api:
        first = [await api.connect() for _ in range(3)]
        await api.until_connected(3)
        request_limits.sweep(api.server, 1.0)
        last = [await api.connect() for _ in range(2)]
        await api.until_connected(5)
        request_limits.sweep(api.server, 2.0)
        assert request_limits.closed == 2
        for _, writer in (*first, *last):
            writer.close()


async def test_requests_beyond_the_limit_are_refused_and_answers_in_progress_stay(api: Listening) -> None:
    release = asyncio.Event()

    class Slow(FakeBackend):
        async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 0) -> Reply:
            await release.wait()
            return await super().request(verb, body, timeout_s)

    request_limits = RequestLimits(requests_max=3, streams_max=1, quiet_s=0.0)
    async with listening(make_app(Slow(), request_limits=request_limits), request_limits) as crowded:
        stays = asyncio.ensure_future(crowded.ask(head("GET", "/v1/jobs/a/b/results?follow=1"), whole=False))
        await crowded.until_busy(1)
        status, headers, _ = await crowded.ask(head("GET", "/v1/jobs/a/b/results?follow=1"))
        assert (status, headers["retry-after"]) == (429, "5")
        others = [asyncio.ensure_future(crowded.ask(head("GET", "/v1/jobs"))) for _ in range(2)]
        await crowded.until_busy(3)
        assert (await crowded.ask(head("GET", "/v1/jobs")))[0] == 429
        request_limits.sweep(crowded.server, 1.0)
        request_limits.sweep(crowded.server, 1e6)
        release.set()
        assert [status for status, _, _ in await asyncio.gather(*others)] == [200, 200]
        stays.cancel()
    assert isinstance(crowded.server, web.Server)


class Polled(FakeBackend):
    """Answers those that wait when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 0) -> Reply:
        if body.get("wait"):
            await self.release.wait()
        return await super().request(verb, body, timeout_s)


OPERATOR = {"Authorization": b"Bearer secret"}

POLL = "/v1/jobs/shop/top/offsets?after=5&wait=30"


async def test_a_crowd_of_long_polls_locks_out_neither_operators_nor_health() -> None:
    request_limits, backend = RequestLimits(), Polled()
    app = make_app(backend, request_limits=request_limits, identifier=Identifier("secret"))
    async with listening(app, request_limits) as api:
        waiting = [asyncio.ensure_future(api.ask(head("GET", POLL), whole=False)) for _ in range(192)]
        async with asyncio.timeout(PATIENCE_S):
            while sum(each.done() for each in waiting) < 192 - SHARE_MAX:  # noqa: ASYNC110 - nothing sets an event
                await asyncio.sleep(0.01)
        assert {each.result()[0] for each in waiting if each.done()} == {429}
        await api.until_busy(SHARE_MAX)
        assert (await api.ask(head("GET", "/v1/health")))[0] == 200
        assert (await api.ask(head("GET", "/v1/jobs", **OPERATOR)))[0] == 200
        assert (await api.ask(head("DELETE", "/v1/jobs/shop/top", **OPERATOR)))[0] == 200
        backend.release.set()
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_followers_of_one_principal_leave_room_for_others() -> None:
    request_limits, backend = RequestLimits(streams_max=4, streams_reserved=2, streams_share_max=2), Polled()
    follow = "/v1/jobs/shop/top/results?follow=1"
    async with listening(
        make_app(backend, request_limits=request_limits, identifier=Identifier("secret")), request_limits
    ) as api:
        open_now = [await api.connect() for _ in range(4)]
        for number, (reader, writer) in enumerate(open_now):
            writer.write(head("GET", follow, **({} if number < 2 else OPERATOR)))
            assert b" 200 " in await reader.readline()
            if number == 1:
                assert (await api.ask(head("GET", follow)))[0] == 429
        assert (await api.ask(head("GET", follow, **OPERATOR)))[0] == 429
        assert (await api.ask(head("GET", "/v1/jobs")))[0] == 200
        backend.release.set()
        for _, writer in open_now:
            writer.close()


async def test_what_is_reserved_is_left_by_all_others_together() -> None:
    request_limits, backend = RequestLimits(requests_max=6, reserved=2, share_max=3), Polled()
    readers = itertools.chain("aaaa", itertools.repeat("b"))
    waiting = []

    class Several(Identifier):
        def principal(self, request: web.Request) -> Principal:
            if "Authorization" in request.headers:
                return super().principal(request)
            return Principal(next(readers), frozenset({Role.READER}), source="certificate")

    app = make_app(backend, request_limits=request_limits, identifier=Several("secret"))
    async with listening(app, request_limits) as api:
        for count in (1, 2, 3):
            waiting.append(asyncio.ensure_future(api.ask(head("GET", POLL))))
            await api.until_busy(count)
        status, _, body = await api.ask(head("GET", POLL))
        assert (status, "'a' has too many" in body.decode()) == (429, True)
        waiting.append(asyncio.ensure_future(api.ask(head("GET", POLL))))
        await api.until_busy(4)
        assert (await api.ask(head("GET", POLL)))[0] == 429
        for count in (5, 6):
            waiting.append(asyncio.ensure_future(api.ask(head("GET", POLL, **OPERATOR))))
            await api.until_busy(count)
        assert (await api.ask(head("GET", POLL, **OPERATOR)))[0] == 429
        assert (await api.ask(head("GET", "/v1/health")))[0] == 200
        backend.release.set()
        assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200] * 6
        assert (await api.ask(head("GET", "/v1/jobs", **OPERATOR)))[0] == 200


async def test_a_caller_that_hangs_up_leaves_its_place_to_others_and_its_change_is_finished() -> None:
    class Waiting(Polled):
        """Only a list of jobs is answered at once."""

        async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 0) -> Reply:
            return await super().request(verb, body | {"wait": verb != "list"}, timeout_s)

    request_limits, backend = RequestLimits(requests_max=3, reserved=0, share_max=3), Waiting()
    async with listening(make_app(backend, request_limits=request_limits), request_limits) as api:
        callers = [await api.connect() for _ in range(3)]
        for number, (_, writer) in enumerate(callers):
            writer.write(head("GET", POLL) if number else head("DELETE", "/v1/jobs/shop/top"))
        await api.until_busy(3)
        assert (await api.ask(head("GET", "/v1/jobs")))[0] == 429
        for _, writer in callers:
            writer.close()
        await api.until_busy(1, at_most=True)
        assert (await api.ask(head("GET", "/v1/jobs")))[0] == 200
        assert [verb for verb, _ in backend.asked] == ["list"]
        backend.release.set()
        await api.until_busy(0, at_most=True)
        assert [verb for verb, _ in backend.asked] == ["list", "delete"]
