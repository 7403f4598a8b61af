"""The client of an agent's HTTP API for asyncio programs.

`client.py` owns the paths, and `client_base.py` owns addresses and errors.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp

from elfmesh.api.client.client import REVISION, TIMEOUT_S, Client
from elfmesh.api.client.client_base import api_name, error_from, job_path, parse_json, request_of, unreachable
from elfmesh.api.client.result_interval import ResultInterval
from elfmesh.api.client.unix_socket import HOST, PREFIX, socket_path
from elfmesh.api.identity.credentials import Credentials, default_credentials
from elfmesh.api.line_parts import OPEN_STATES, whole
from elfmesh.errors import ConfigError, Unreachable

if TYPE_CHECKING:
    from elfmesh.api.client.live import LiveAnswer


def _of_job(verb: str, text: str) -> Callable[[AsyncClient, str], Awaitable[dict[str, Any]]]:
    async def ask(self: AsyncClient, job: str) -> dict[str, Any]:
        return await self.ask(verb, job)

    ask.__name__, ask.__doc__ = verb, text
    return ask


class AsyncClient:
    """Client of one agent for asyncio programs, with most methods of `Client`; an async context manager.

    Args:
        address: "HOST:PORT" of an agent's API, or "unix:PATH".
        timeout_s: time limit for an answer.
        credentials: how to authenticate; default: as `connect`.

    Example:
        >>> async def names() -> list[str]:
        ...     async with elfmesh.AsyncClient("127.0.0.1:7401") as client:
        ...         return [agent["name"] for agent in await client.get("agents")]
        >>> asyncio.run(names())
        ['web1']
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        credentials: Credentials | None = None,
    ) -> None:
        self._path = socket_path(address)
        self._address = api_name(address) if self._path is None else PREFIX + self._path
        self._credentials = credentials or default_credentials()
        self._context = self._credentials.context() if self._path is None else None
        host = self._address if self._path is None else HOST
        self._base = f"{'http' if self._context is None else 'https'}://{host}"
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._answered = False

    async def __aenter__(self) -> AsyncClient:
        connector = None if self._path is None else aiohttp.UnixConnector(self._path)
        self._session = aiohttp.ClientSession(connector=connector)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, verb: str, job: str = "", **fields: Any) -> dict[str, Any]:
        """See `Client.ask`."""
        return await self._ask(*request_of(verb, job, **fields))

    async def apply(self, text: str, *, creator: str | None = None, dry_run: bool = False) -> dict[str, Any]:
        """Submit a job; see `Client.apply`."""
        body: dict[str, Any] = {"text": text, "dry_run": dry_run}
        if creator:
            body["creator"] = creator
        return await self._ask("POST", "/v1/jobs", body)

    async def get(self, kind: str) -> list[dict[str, Any]]:
        """Return all "jobs", "agents", "streams" or "trees"."""
        found: list[dict[str, Any]] = (await self.ask("list" if kind == "jobs" else kind))[kind]
        return found

    async def cost(self, text: str, clause: str = "") -> dict[str, Any]:
        """Return what each agent would read for a query or a job; see `Client.cost`."""
        body = {"text": text} | ({"range": clause} if clause else {})
        return await self._ask("POST", "/v1/cost", body)

    describe = _of_job("describe", "Return the details of a job.")
    delete = _of_job("delete", "Delete a job and its results.")
    pause = _of_job("pause", "Pause a job; agents stop reading for it.")
    resume = _of_job("resume", "Resume a job; agents continue reading where they stopped.")

    async def results(
        self,
        job: str,
        *,
        follow: bool = False,
        start: int | None = None,
        state: str = "final",
        creator: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the records of a job, oldest first; with `follow`, without end.

        `state` is "final", "all" or "early", as in `Client.results`.
        """
        revision = 0
        while True:
            wait_s = 20.0 if follow else 0.0
            page, revision = await self.page(
                job, start=start, wait_s=wait_s, state=state, revision=revision, creator=creator
            )
            for interval in page:
                if interval["state"] not in OPEN_STATES:
                    start = interval["interval"]["index"] + 1
                yield interval
            if not follow and (not page or page[-1]["state"] in OPEN_STATES):
                return

    async def intervals(self, job: str, **options: Any) -> AsyncIterator[ResultInterval]:
        """Yield the records of `results` as objects with typed fields. The options are those of `results`."""
        async for record in self.results(job, **options):
            yield ResultInterval.of(record)

    async def page(
        self,
        job: str,
        *,
        start: int | None,
        wait_s: float = 0.0,
        state: str = "final",
        revision: int = 0,
        creator: str | None = None,
    ) -> tuple[list[dict[str, Any]], int]:
        """Return up to a hundred records from `start` on.

        Also returns the revision from which tentative records continue. If `start` is given, waits up to
        `wait_s` for a record. Raises as `Client.results`.
        """
        query: dict[str, Any] = {"limit": 100, "wait": wait_s, "state": state, "revision": revision}
        query |= ({} if start is None else {"from": start}) | ({"creator": creator} if creator else {})
        target = f"{job_path(job)}/results?{urlencode(query)}"
        status, text, headers = await self._request("GET", target, None, wait_s)
        if status != http.client.OK:
            raise error_from(status, parse_json(text), job)
        lines = map(json.loads, filter(None, text.splitlines()))
        return list(whole(lines)), int(headers.get(REVISION, 0))

    async def exists(self, job: str, *, creator: str) -> bool:
        """Whether a job with this name and creator exists."""
        target = f"{job_path(job)}?{urlencode({'creator': creator})}"
        status, text, _ = await self._request("GET", target, None, 0.0)
        if status not in (http.client.OK, http.client.NOT_FOUND):
            raise error_from(status, parse_json(text), job)
        return status == http.client.OK

    async def offsets(self, job: str, *, creator: str) -> dict[str, Any]:
        """See `Client.offsets`."""
        return await self.ask("offsets", job, creator=creator)

    async def empty(self, job: str, *, creator: str) -> dict[str, Any]:
        """See `Client.empty`."""
        return await self.ask("empty", job, creator=creator)

    async def insert(
        self,
        program: str,
        lines: list[bytes],
        *,
        stream: str | None,
        producer: str,
        position: int,
        stamp: str = "",
    ) -> int:
        """Insert records into a stream of a program at this agent; see `elfmesh.Job.insert`.

        Lines that begin with `{"ts":"STAMP"` get the agent's time.
        """
        query: dict[str, Any] = {"producer": producer, "position": position, "stamp": stamp}
        query |= {"stream": stream} if stream else {}
        target = f"/v1/programs/{program}/insert?{urlencode(query)}"
        status, text, _ = await self._request("POST", target, b"\n".join(lines), 0.0)
        answer = parse_json(text)
        if status != http.client.OK or not isinstance(answer, dict):
            raise error_from(status, answer, target)
        return int(answer["position"])

    async def post(self, topic: str, message: bytes, *, producer: str, position: int) -> int:
        """Post a message, encoded as JSON, to a topic at this agent; see `elfmesh.Job.post`."""
        query = urlencode({"producer": producer, "position": position})
        target = f"/v1/programs/{topic}/post?{query}"
        status, text, _ = await self._request("POST", target, message, 0.0)
        answer = parse_json(text)
        if status != http.client.OK or not isinstance(answer, dict):
            raise error_from(status, answer, f"posting to {topic}")
        return int(answer["position"])

    async def position(self, program: str, *, stream: str | None, producer: str) -> int | None:
        """Return the newest durable position of a producer; see `elfmesh.Job.position`."""
        query = {"producer": producer} | ({"stream": stream} if stream else {})
        found = (await self._ask("GET", f"/v1/programs/{program}/position?{urlencode(query)}"))["position"]
        return None if found is None else int(found)

    async def query(self, text: str, **options: Any) -> LiveAnswer:
        """Evaluate a query in a thread; see `Client.query`."""
        client = Client(self._address, timeout_s=self._timeout_s, credentials=self._credentials)
        return await asyncio.to_thread(client.query, text, **options)

    async def _ask(self, method: str, target: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, text, _ = await self._request(method, target, body, 0.0)
        answer = parse_json(text)
        if status != http.client.OK or not isinstance(answer, dict):
            raise error_from(status, answer, target)
        return answer

    async def _request(
        self, method: str, target: str, body: dict[str, Any] | bytes | None, wait_s: float
    ) -> tuple[int, bytes, Mapping[str, str]]:
        if self._session is None:
            raise RuntimeError("use `async with AsyncClient(...) as client`")
        headers = self._headers()
        while True:
            answer = await self._once(self._session, headers, method, target, body, wait_s)
            # a restarted agent has a new token, which it may have written after it was read here
            if answer[0] != http.client.UNAUTHORIZED or headers == (headers := self._headers()):
                return answer

    def _headers(self) -> dict[str, str]:
        """Return the authentication headers.

        Raises ConfigError if there is no token, and Unreachable if there was one for an earlier answer.
        """
        try:
            return {} if self._path is not None else self._credentials.headers(self._address)
        except ConfigError as error:
            if not self._answered:
                raise
            raise Unreachable(f"the agent at {self._address} is away: {error}") from None

    async def _once(
        self,
        session: aiohttp.ClientSession,
        headers: dict[str, str],
        method: str,
        target: str,
        body: dict[str, Any] | bytes | None,
        wait_s: float,
    ) -> tuple[int, bytes, Mapping[str, str]]:
        timeout = aiohttp.ClientTimeout(total=self._timeout_s + wait_s)
        try:
            async with session.request(
                method,
                self._base + target,
                json=body if isinstance(body, dict) else None,
                data=io.BytesIO(body) if isinstance(body, bytes) else None,
                headers=headers,
                ssl=self._context or True,
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                self._answered = True
                return response.status, await response.read(), response.headers
        except (aiohttp.ClientError, TimeoutError) as error:
            raise unreachable(self._address, error) from None
