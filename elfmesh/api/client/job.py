"""`elfmesh.Job`: the paper's programming model, for tasks that SQL cannot express.

A program is a process of the user beside an agent, attached to the agent's API. The agent runs no code of the
program. The processes of one program beside several agents are the vertices of one job; one of them is the
*master side*. The program has the name of an ELF-QL job. It may insert records into the sources of this job,
and its master side follows the results.

The module owns the verbs and callbacks of a program. All callbacks are coroutines on one event loop. Messages
of the same verb are handled one at a time; other verbs, results and timers run concurrently.

Paper: ELF 2.4, Tables 1 and 2; Figure 7.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.attachment import Attachment
from elfmesh.api.client.client_base import API, api_address
from elfmesh.api.client.job_leading import Leading
from elfmesh.api.client.job_topics import (
    PostBatch,
    TopicReader,
    check_topic,
    chosen,
    post_text,
    repeated,
    topic_name,
)
from elfmesh.api.client.job_values import (
    MESSAGE_S,
    Delivery,
    EarlyResult,
    Message,
    Result,
    checked,
    first_error,
    lines_of,
    packed,
    program_name,
    result_of,
    time_text,
)
from elfmesh.control.jobs.manifest import CREATOR
from elfmesh.control.protocol import program_frames
from elfmesh.control.protocol.replies import ResultOffsets, read_reply
from elfmesh.errors import UsageError
from elfmesh.ids import ID_BYTES
from elfmesh.units import parse_duration_us


class Job:
    """Base class of programs. Override callbacks, and `run` the program beside each agent of interest.

    Attributes:
        query: text of its ELF-QL job, which the first master side applies if it does not exist; "" for none.
        name: "namespace/name" if there is no query.
        creator: creator of the job.
        timer: period of `on_timer`, such as "300 s"; "" for never.
        topics: topics that every process follows, "namespace/name".

    Args:
        api: HOST:PORT of the agent beside the program; default: ELF_API, then 127.0.0.1:7401.

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
    topics: tuple[str, ...] = ()

    def __init__(self, api: str | None = None) -> None:
        self.api = api or os.environ.get("ELF_API") or API
        api_address(self.api)
        self.query = chosen(type(self), self.query)
        self.name = program_name(type(self).__name__, self.query, self.name)
        self._topics = tuple(dict.fromkeys(topic_name(each) for each in self.topics))
        self._known_topics: set[str] = set()
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
        """Called when the process is attached to its agent."""

    async def on_master(self) -> None:
        """Called when this process has become the master side, before any `on_result`."""

    async def on_result(self, result: Result) -> None:
        """Called on the master side for each closed interval, in order, at least once each."""

    async def on_early(self, result: EarlyResult) -> None:
        """Called on the master side for rows of open windows, if the job has EARLY; at least once each."""

    async def on_post(self, topic: str, batch: PostBatch) -> None:
        """Called in every process for the messages of a topic that the program follows."""

    async def on_timer(self) -> None:
        """Called every `timer` in all processes; see `is_master`."""

    async def on_recv(self, message: Message) -> None:
        """Called when a child in a group's tree has sent key-value pairs."""

    async def on_multicast(self, message: Message) -> None:
        """Called when the master side has published a message to all processes."""

    async def on_route(self, message: Message) -> Any:
        """Called on the master side for another program's request. Returns the answer."""

    # -- role ----------------------------------------------------------------------------------------

    @property
    def is_master(self) -> bool:
        """Whether this process is the master side, as far as its agent knows."""
        return self._leading is not None and self._leading.role.master

    @property
    def agent(self) -> str:
        """Name of the agent beside which the master side runs; "" if unknown."""
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
        """Insert records into the job's source at this agent. They are durable on return and count once.

        Args:
            records: (key, value) pairs, which become {"key", "value", "ts"}, or mappings. Those without
                `ts` get the time at which the agent queues them.
            stream: which of the agent's streams `program://NAME` to use, if there are several.
            producer: name of the producer whose positions continue across restarts of this process; None:
                this process.
            position: position of these records; positions of a producer increase by any step. Records at or
                below the producer's newest position are already stored and are not stored again. None: the
                next position of this process.

        Returns:
            The newest durable position of the producer.

        Raises:
            UsageError: there is no stream to insert into, a producer has no position, or the records are too
                many.
            Unreachable: the agent is away. The insert may be repeated with the same position.
        """
        if (producer is None) != (position is None):
            raise UsageError("a producer and its position must be given together")
        lines = lines_of(records, stamp := time_text())
        if not lines:
            return position or self._inserted
        insert = partial(self._agent_client.insert, self.name, lines, stream=stream, stamp=stamp)
        async with self._placed(producer, position) as (name, at):
            return await repeated(lambda: insert(producer=name, position=at))

    async def post(
        self, topic: str, message: Any, *, producer: str | None = None, position: int | None = None
    ) -> int:
        """Post a message to a topic at this agent. It is durable on return and counts once.

        The agent needs a stream `program://namespace/name`. The plain fields of a mapping are columns of this
        stream. Producer and position are as for `insert`.

        Raises:
            UsageError: there is no such topic or stream, or the message is too large or no JSON value.
            Unreachable: the agent is away. The post may be repeated with the same position.
        """
        if (producer is None) != (position is None):
            raise UsageError("a producer and its position must be given together")
        name = topic_name(topic)
        data = post_text(message)
        if name not in self._known_topics:
            await repeated(lambda: check_topic(self._agent_client, name, self.creator))
            self._known_topics.add(name)
        async with self._placed(producer, position) as (own, at):
            return await repeated(lambda: self._agent_client.post(name, data, producer=own, position=at))

    @contextlib.asynccontextmanager
    async def _placed(self, producer: str | None, position: int | None) -> AsyncIterator[tuple[str, int]]:
        """Yield a producer and its position; without a producer, the next position of this process."""
        if producer is not None and position is not None:
            yield producer, position
            return
        # a concurrent insert with the next position would make this position old
        async with self._inserting:
            self._inserted += 1
            yield f"~{self._process.hex()}", self._inserted

    async def position(self, producer: str, *, stream: str | None = None) -> int | None:
        """Return the newest durable position of a producer at this agent, or None if it has none."""
        client = self._agent_client
        return await repeated(lambda: client.position(self.name, stream=stream, producer=producer))

    async def flush(self, *, tentative: bool = False) -> Result | None:
        """Return the newest result of the job over all agents, or None if there is none.

        Args:
            tentative: also consider tentative results of open intervals.
        """
        offsets = await self._agent_client.offsets(self.name, creator=self.creator)
        latest = read_reply(ResultOffsets, offsets).latest
        found = self.results(self.name, start=latest, tentative=tentative, creator=self.creator)
        newest = [each async for each in found][-1:]
        return newest[0] if newest else None

    async def empty(self) -> dict[str, Any]:
        """Start a new batch on all agents at one boundary. The answer contains the first interval."""
        return await self._agent_client.empty(self.name, creator=self.creator)

    async def update(self, text: str) -> dict[str, Any]:
        """Change the query of the running job, as `elf update` does."""
        return await self._agent_client.apply(text, creator=self.creator)

    async def results(
        self, job: str, *, start: int | None = None, tentative: bool = False, creator: str = CREATOR
    ) -> AsyncIterator[Result]:
        """Yield the closed intervals of this or another job from `start` on."""
        state = "all" if tentative else "final"
        async for each in self._agent_client.results(job, start=start, state=state, creator=creator):
            yield result_of(each)

    async def subscribe(self, group: str) -> None:
        """Become a vertex of this group's tree. Messages of its children arrive in `on_recv`."""
        await self._attached.join(group)

    async def send_to(self, group: str, pairs: Any, *, timeout_s: float = MESSAGE_S) -> bool:
        """Send key-value pairs to the next vertex towards the root of a group's tree.

        Returns:
            Whether the vertex above has handled the message; False if this process is at the root, which has
            no parent.

        Raises:
            RuntimeFailure: the vertex above failed to handle the message.
            Unreachable: no agent has acknowledged the message in time; it may have been handled.
        """
        answer = await self._say("send_to", group, "", pairs, timeout_s)
        return answer.status != "root"

    # -- control plane (Table 2) -----------------------------------------------------------------------

    async def multicast(self, message: Any) -> Delivery:
        """Publish a message to all processes of this program, including this one. Master side only.

        Raises:
            NotMaster: another process is the master side.
            Unreachable: no agent acknowledged the message in time.
        """
        answer = await self._say("multicast", "", "", message, MESSAGE_S)
        return Delivery(answer.acknowledged, answer.expected)

    async def route(
        self, program: str, message: Any, *, creator: str = CREATOR, timeout_s: float = MESSAGE_S
    ) -> Any:
        """Send a request to the master side of a program by its name. Returns the result of its `on_route`.

        Raises:
            RuntimeFailure: the master side failed to handle the request.
            Unreachable: no agent has answered in time; the request may have been handled.
        """
        answer = await self._say("route", program, creator, message, timeout_s)
        return msgspec.msgpack.decode(answer.body)

    async def _say(
        self, verb: program_frames.Verb, target: str, creator: str, message: Any, timeout_s: float
    ) -> program_frames.Answer:
        body = packed(message)
        answer = await self._attached.say(verb, target, creator, body, timeout_s)
        return checked(answer, f"{verb} {target}".strip(), timeout_s)

    # -- running ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, or until `stop`.

        Raises:
            Unreachable: no agent answers.
            ElfError: raised by a callback, as may be any other exception. The sender of a message gets what
                `on_recv`, `on_multicast` and `on_route` raise.
        """
        asyncio.run(self._run_until_stopped())

    def stop(self) -> None:
        """Make `serve` return; for use in callbacks."""
        self._stopping.set()

    async def serve(self) -> None:
        """Run as `run` does, but on the running event loop and without signal handlers."""
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
            early = type(self).on_early is not Job.on_early
            follows = early or type(self).on_result is not Job.on_result
            self._leading = Leading(self, client, self._attachment, follows=follows, early=early)
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
        for topic in self._topics:
            reader = TopicReader(self, self._agent_client, self._attached, topic)
            running.append(tasks.create_task(reader.run()))
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
