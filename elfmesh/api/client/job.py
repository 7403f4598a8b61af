"""`elfmesh.Job`: the paper's programming model, for what SQL cannot say.

A program is a process of the user's, beside an agent and attached to its API: the agent runs no code of it.
The same program beside several agents is one job's vertices; one of them is its *master side*. The program
has the name of an ELF-QL job, whose sources it may insert into and whose results its master side follows.

Owns what a program's author sees: verbs, callbacks and when they are called. Callbacks are coroutines on one
loop. Of each verb one message is handled at a time; other verbs, results and timers go on beside it.

Paper: ELF 2.4, Tables 1 and 2; Figure 7.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.attachment import Attachment
from elfmesh.api.client.client_base import API, api_address
from elfmesh.api.client.job_leading import AGAIN_S, Leading
from elfmesh.api.client.job_values import (
    Delivery,
    Message,
    NotMaster,
    Result,
    first_error,
    lines_of,
    packed,
    result_of,
)
from elfmesh.control.jobs.manifest import CREATOR, split_name
from elfmesh.control.protocol import program_frames
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.ids import ID_BYTES
from elfmesh.units import parse_duration_us

MESSAGE_S = 30.0
"""How long a message is repeated before its sender learns that no agent has acknowledged it."""


class Job:
    """A program; subclass it, override callbacks, and `run` it beside each agent that is to be a vertex.

    Attributes:
        query: text of its ELF-QL job, which the first master side applies if it is not there; "" without.
        name: "namespace/name" if there is no query.
        creator: of the job.
        timer: how often `on_timer` is called, such as "300 s"; "" never.

    Args:
        api: HOST:PORT of the agent beside it; default: ELF_API, then 127.0.0.1:7401.

    Example:
        >>> class Words(elfmesh.Job):
        ...     query = "CREATE JOB demo.words AS SELECT key, SUM(value) AS n FROM words " + (
        ...         "GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), key"
        ...     )
        ...     async def on_start(self):
        ...         await self.insert([("fox", 1), ("fox", 1)])
        ...     async def on_result(self, result):
        ...         print(result.rows)
        ...         self.stop()
        >>> Words("127.0.0.1:7401").run()
        [{'key': 'fox', 'n': 2}]
    """

    query: str = ""
    name: str = ""
    creator: str = CREATOR
    timer: str = ""

    def __init__(self, api: str | None = None) -> None:
        self.api = api or os.environ.get("ELF_API") or API
        api_address(self.api)
        self.name = _name_of(self)
        self._period_s = parse_duration_us(self.timer) / 1e6 if self.timer else 0.0
        self._process = secrets.token_bytes(ID_BYTES)
        self._inserted = 0
        self._inserting = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._client: AsyncClient | None = None
        self._attachment: Attachment | None = None
        self._leading: Leading | None = None

    # -- callbacks: override what you need -------------------------------------------------------------

    async def on_start(self) -> None:
        """The process is attached to its agent."""

    async def on_master(self) -> None:
        """This process has become the master side; before any `on_result`."""

    async def on_result(self, result: Result) -> None:
        """Master side: an interval of the job is closed. In order, each at least once."""

    async def on_timer(self) -> None:
        """Every `timer`, on all sides; see `is_master`."""

    async def on_recv(self, message: Message) -> None:
        """A child in a group's tree has sent key-value pairs up."""

    async def on_multicast(self, message: Message) -> None:
        """The master side has published something to all."""

    async def on_route(self, message: Message) -> Any:
        """Master side: another program asks; what is returned is its answer."""

    # -- who is who ------------------------------------------------------------------------------------

    @property
    def is_master(self) -> bool:
        """Whether this process is the master side, as far as its agent knows."""
        return self._leading is not None and self._leading.role.master

    @property
    def agent(self) -> str:
        """Name of the agent beside which the master side is; "" while unknown."""
        return self._leading.role.agent if self._leading is not None else ""

    # -- data plane (Table 1) --------------------------------------------------------------------------

    async def insert(
        self,
        records: Iterable[tuple[str, Any] | Mapping[str, Any]],
        *,
        stream: str | None = None,
        producer: str | None = None,
        position: int | None = None,
    ) -> int:
        """Put records into the job's source at this agent; durable on return, each counted once.

        Args:
            records: (key, value) pairs, which become {"key", "value", "ts"}, or mappings, which get a `ts`
                of now if they have none.
            stream: which of the agent's streams `program://NAME`, if it has several.
            producer: whose position it is, across restarts of this process; None: this process.
            position: of these records; grows by any step. An insert at or below the producer's newest is
                here already, and is not taken again. None: the next one of this process.

        Returns:
            The producer's newest durable position.

        Raises:
            UsageError: nothing to insert into, a producer without a position, or more than fits at once.
            Unreachable: the agent is away; the insert may be repeated with the same position.
        """
        if (producer is None) != (position is None):
            raise UsageError("a producer and its position must be given together")
        lines = lines_of(records)
        if not lines:
            return position or self._inserted
        until = asyncio.get_running_loop().time() + MESSAGE_S
        if producer is not None and position is not None:
            return await self._insert_until(until, lines, stream, producer, position)
        async with self._inserting:  # the next one's position would make this one's old
            self._inserted += 1
            own = f"~{self._process.hex()}"
            return await self._insert_until(until, lines, stream, own, self._inserted)

    async def _insert_until(
        self, until: float, lines: list[bytes], stream: str | None, producer: str, position: int
    ) -> int:
        while True:
            try:
                return await self._agent_client.insert(
                    self.name, lines, stream=stream, producer=producer, position=position
                )
            except Unreachable:
                if asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(AGAIN_S)

    async def position(self, producer: str, *, stream: str | None = None) -> int | None:
        """The newest durable position of a producer at this agent: from where it goes on; None: none yet."""
        return await self._agent_client.position(self.name, stream=stream, producer=producer)

    async def flush(self, *, tentative: bool = False) -> Result | None:
        """The newest result of the job, over all agents; None before the first.

        Args:
            tentative: also what an open interval looks like so far.
        """
        latest = (await self._agent_client.offsets(self.name, creator=self.creator))["latest"]
        newest = None
        found = self.results(self.name, start=latest, tentative=tentative, creator=self.creator)
        async for each in found:
            newest = each
        return newest

    async def empty(self) -> dict[str, Any]:
        """Begin a new batch on all agents at one boundary; says from which interval on."""
        return await self._agent_client.empty(self.name, creator=self.creator)

    async def update(self, text: str) -> dict[str, Any]:
        """Change the job while it runs (`elf update`): other filters, other aggregates."""
        return await self._agent_client.apply(text, creator=self.creator)

    async def results(
        self, job: str, *, start: int | None = None, tentative: bool = False, creator: str = CREATOR
    ) -> AsyncIterator[Result]:
        """The closed intervals of a job, this one's or another's, from `start` on."""
        state = "all" if tentative else "final"
        async for each in self._agent_client.results(job, start=start, state=state, creator=creator):
            yield result_of(each)

    async def subscribe(self, group: str) -> None:
        """Be a vertex of this group's tree: its children's `send_to` come to `on_recv`."""
        await self._attached.join(group)

    async def send_to(self, group: str, pairs: Any, *, timeout_s: float = MESSAGE_S) -> bool:
        """Send key-value pairs to the next vertex towards the root of a group's tree.

        Returns:
            Whether the vertex above has handled it; False: this process is the root's, which has no parent.

        Raises:
            RuntimeFailure: the vertex above could not handle it.
            Unreachable: no agent has acknowledged it in time; it may have been handled.
        """
        answer = await self._say("send_to", group, "", pairs, timeout_s)
        return answer.status != "root"

    # -- control plane (Table 2) -----------------------------------------------------------------------

    async def multicast(self, message: Any) -> Delivery:
        """Master side: publish to all processes of this program, this one included.

        Raises:
            NotMaster: another process is.
            Unreachable: it reached no agent in time, as far as is known.
        """
        answer = await self._say("multicast", "", "", message, MESSAGE_S)
        return Delivery(answer.acknowledged, answer.expected)

    async def route(
        self, program: str, message: Any, *, creator: str = CREATOR, timeout_s: float = MESSAGE_S
    ) -> Any:
        """Ask the master side of a program, by its name; what its `on_route` returns.

        Raises:
            RuntimeFailure: it could not handle it.
            Unreachable: no agent has answered in time; it may have been handled.
        """
        answer = await self._say("route", program, creator, message, timeout_s)
        return msgspec.msgpack.decode(answer.body)

    async def _say(
        self, verb: program_frames.Verb, target: str, creator: str, message: Any, timeout_s: float
    ) -> program_frames.Answer:
        body = packed(message)
        answer = await self._attached.say(verb, target, creator, body, timeout_s)
        what = f"{verb} {target}".strip()
        match answer.status:
            case "ok" | "root":
                return answer
            case "failed":
                raise RuntimeFailure(answer.error, where=what)
            case "fenced":
                raise NotMaster("another process is the master side", where=what)
            case "busy":
                raise Unreachable("too many messages are under way", where=what)
            case "silent":
                raise Unreachable(f"no agent acknowledged it within {timeout_s:g} s", where=what)

    # -- running ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, or until `stop`.

        Raises:
            Unreachable: no agent answers.
            ElfError: what a callback has not caught, and so any other exception; but what `on_recv`,
                `on_multicast` and `on_route` raise is told to the sender.
        """
        asyncio.run(self._run_until_stopped())

    def stop(self) -> None:
        """Let `serve` return; for callbacks."""
        self._stopping.set()

    async def serve(self) -> None:
        """As `run`, on a loop that is running, without signals."""
        async with AsyncClient(self.api) as client:
            self._client = client
            self._attachment = Attachment(
                self.api,
                program=self.name,
                creator=self.creator,
                process=self._process,
                handle=self._handle,
                role=self._appoint,
            )
            follows = type(self).on_result is not Job.on_result
            self._leading = Leading(self, client, self._attachment, follows=follows)
            try:
                async with asyncio.TaskGroup() as tasks:
                    begun = asyncio.Event()
                    running = [tasks.create_task(self._attachment.run(begun.set))]
                    running.append(tasks.create_task(self._work(begun, tasks, running)))
                    await self._stopping.wait()
                    for task in running:
                        task.cancel()
            except BaseExceptionGroup as group:
                raise first_error(group) from None

    async def _run_until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        await self.serve()

    async def _work(
        self, begun: asyncio.Event, tasks: asyncio.TaskGroup, running: list[asyncio.Task[None]]
    ) -> None:
        await begun.wait()
        running.append(tasks.create_task(self._led.run()))
        await self.on_start()
        if self._period_s:
            running.append(tasks.create_task(self._tick()))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await self.on_timer()

    def _appoint(self, role: program_frames.Role) -> None:
        self._led.appoint(role)

    async def _handle(self, frame: program_frames.Deliver) -> bytes:
        body = msgspec.msgpack.decode(frame.body)
        if frame.verb == "route":
            return packed(await self.on_route(Message(body, frame.sender)))
        if frame.verb == "send_to":
            await self.on_recv(Message(body, frame.sender, frame.group))
        else:
            await self.on_multicast(Message(body, frame.sender, order=(frame.term, frame.number)))
        return b""

    @property
    def _agent_client(self) -> AsyncClient:
        if self._client is None:
            raise UsageError("the program is not running yet")
        return self._client

    @property
    def _led(self) -> Leading:
        if self._leading is None:
            raise UsageError("the program is not running yet")
        return self._leading

    @property
    def _attached(self) -> Attachment:
        if self._attachment is None:
            raise UsageError("the program is not running yet")
        return self._attachment


def _name_of(job: Job) -> str:
    """The name of a program: its query's, or its own.

    Raises:
        UsageError: it has none, or the query has another.
    """
    names = []
    if job.query:
        from elfmesh.control.jobs.plan import read_job  # the parser: only where there is something to parse

        found, _ = read_job(job.query, source=type(job).__name__)
        names.append(f"{found.namespace}/{found.name}")
    if job.name:
        try:
            names.append("/".join(split_name(job.name)))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if not names:
        raise UsageError(f"{type(job).__name__} has neither a query nor a name", hint='name = "shop/mine"')
    if names[0] != names[-1]:
        raise UsageError(f"{type(job).__name__} is named {names[-1]}, and its query is {names[0]}")
    return names[0]
