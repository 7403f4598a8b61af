"""Callers with roles, and an API that records what they do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from elfmesh.api.authority.web import authorised
from elfmesh.api.identity.identify import PRINCIPAL
from elfmesh.api.identity.principal import Principal, Role
from elfmesh.api.web.programs import ProgramHost
from elfmesh.api.web.tap import TapRequest
from elfmesh.errors import StorageError
from tests.control.fakes import FakeBackend

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"

JOB = "CREATE JOB shop.top EVERY '30 s' AS SELECT path, count(*) AS n FROM access GROUP BY path"

READER = Principal("rita", frozenset({Role.READER}), source="certificate")

SHOP = Principal("sam", frozenset({Role.SUBMITTER}), frozenset({"shop"}), source="certificate")

OTHER = Principal("otto", frozenset({Role.SUBMITTER}), frozenset({"other"}), source="certificate")

OPERATOR = Principal("olga", frozenset({Role.OPERATOR}), source="token")

AGENT = Principal("web1", frozenset({Role.AGENT}), source="certificate")


class Lines:
    async def lines(self, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]:
        yield {"stream": "access"}


class Recording:
    def __init__(self) -> None:
        self.actions: list[tuple[str, str, bool, str, str]] = []
        self.full = False

    async def record(
        self, caller: Principal, action: str, *, allowed: bool, job: str = "", digest: str = "", why: str = ""
    ) -> None:
        if self.full:
            raise StorageError("the audit log cannot be written")
        self.actions.append((caller.name, action, allowed, job, digest))


class Api:
    """The whole API, asked by `caller`."""

    def __init__(self) -> None:
        self.backend, self.audit, self.caller = FakeBackend(), Recording(), OPERATOR
        programs = ProgramHost(cast("Any", None), cast("Any", None))  # no caller gets there
        self.app = make_app(self.backend, Lines(), lambda: bytes, programs, self.audit)

        @web.middleware
        async def identified(request: web.Request, handler: Any) -> web.StreamResponse:
            request[PRINCIPAL] = self.caller
            response: web.StreamResponse = await handler(request)
            return response

        self.app.middlewares.insert(self.app.middlewares.index(authorised), identified)

    async def ask(self, caller: Principal, method: str, path: str, **body: Any) -> tuple[int, Any]:
        self.caller = caller
        given = {"json": body} if body else {}
        async with TestClient(TestServer(self.app, host="127.0.0.1")) as client:
            answer = await client.request(method, path, **given)  # type: ignore[arg-type]  # a body or none
            return answer.status, await answer.json() if answer.content_type.endswith("/json") else None
