"""The connection of a program to the agent beside it, which is restored after failures without loss.

The module owns the WebSocket and the numbers of messages. After a broken connection it sends unanswered
messages again under their old numbers. A message that arrives twice is handled once in the lifetime of this
process; the second copy gets the answer of the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import get_args
from urllib.parse import quote, urlencode

import aiohttp

from elfmesh.api.client.client_base import api_name, error_from, unreachable
from elfmesh.api.identity.credentials import default_credentials
from elfmesh.control.protocol import program_frames
from elfmesh.errors import ConfigError, RuntimeFailure, Unreachable

log = logging.getLogger("elf.program")
RETRY_S = 0.25
HANDLED_MAX = 4096
"""Number of handled messages whose outcome is kept for late copies, because agents repeat messages for
minutes."""

GRACE_S = 5.0
"""How much longer than the time limit of a message the program waits for its answer."""

Handler = Callable[[program_frames.Deliver], Awaitable[bytes]]


class Attachment:
    """Attachment of one process of a program to an agent.

    Args:
        address: HOST:PORT of the agent's API.
        program: "namespace/name".
        creator: creator of the program's job.
        process: 20 random bytes.
        handle: handles a message and returns its answer; the sender gets exceptions as errors.
        role: called with the agent's statement about which process is the master side.
    """

    def __init__(
        self,
        address: str,
        *,
        program: str,
        creator: str,
        process: bytes,
        handle: Handler,
        role: Callable[[program_frames.Role], None],
    ) -> None:
        query = urlencode({"creator": creator, "process": process.hex()})
        self._address, self._handle, self._role = api_name(address), handle, role
        self._credentials = default_credentials()
        self._context = self._credentials.context()
        scheme = "http" if self._context is None else "https"
        self._url = f"{scheme}://{self._address}/v1/programs/{quote(program, safe='/')}?{query}"
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._count = 0
        self._open: dict[int, tuple[program_frames.Say, asyncio.Future[program_frames.Answer]]] = {}
        self._groups: dict[str, None] = {}
        self._begun: set[tuple[bytes, int]] = set()
        self._handled: OrderedDict[tuple[bytes, int], program_frames.Handled] = OrderedDict()
        self._messages: dict[str, asyncio.Queue[program_frames.Deliver]] = {
            verb: asyncio.Queue() for verb in get_args(program_frames.Verb)
        }
        self._place: program_frames.ResultPosition | None = None
        self._posts: dict[str, program_frames.PostsHandled] = {}
        self._followed: dict[str, asyncio.Future[str]] = {}

    async def run(self, attached: Callable[[], None]) -> None:
        """Stay attached until cancelled. `attached` is called after the first attachment.

        Raises:
            ConfigError: the named token file cannot be used at the first attempt.
            Unreachable: no agent answered the first attempt.
            RuntimeFailure: another process of this program has attached to the agent, or the agent refuses
                this one.
        """
        handling = [asyncio.create_task(self._handle_all(queue)) for queue in self._messages.values()]
        try:
            async with aiohttp.ClientSession() as session:
                first = True
                while True:
                    try:
                        headers = self._credentials.headers(self._address)
                        async with session.ws_connect(
                            self._url,
                            max_msg_size=2 * program_frames.FRAME_BYTES_MAX,
                            heartbeat=10.0,
                            compress=0,
                            headers=headers,
                            ssl=self._context or True,
                        ) as socket:
                            if first:
                                attached()
                            first = False
                            await self._converse(socket)
                    except aiohttp.WSServerHandshakeError as error:
                        refused = error.status == http.client.UNAUTHORIZED
                        if not refused or not self._has_another_token(headers, first=first):
                            raise error_from(error.status, None, f"attaching to {self._address}") from None
                    except ConfigError as error:
                        if first:
                            raise
                        # its token file is missing
                        log.warning("the agent at %s is away: %s", self._address, error)
                    except (aiohttp.ClientError, ConnectionError) as error:
                        if first:
                            raise unreachable(self._address, error) from None
                        log.warning("the agent at %s is away: %s", self._address, error)
                    self._socket = None
                    await asyncio.sleep(RETRY_S)
        finally:
            for task in handling:
                task.cancel()
            await asyncio.gather(*handling, return_exceptions=True)

    def _has_another_token(self, refused: dict[str, str], *, first: bool) -> bool:
        """Whether another attempt may succeed, because a restarted agent has a new token.

        Raises:
            ConfigError: the token file no longer exists, at the first attempt.
        """
        try:
            return refused != self._credentials.headers(self._address)
        except ConfigError as error:  # the agent is restarting or is writing the file
            if first:
                raise
            log.warning("the agent at %s is away: %s", self._address, error)
            return True

    async def say(
        self, verb: program_frames.Verb, target: str, creator: str, body: bytes, timeout_s: float
    ) -> program_frames.Answer:
        """Send a message, and return its answer.

        Raises:
            Unreachable: no agent has acknowledged the message in time. It may have been handled nevertheless.
        """
        self._count += 1
        frame = program_frames.Say(self._count, verb, target, body, creator, timeout_s)
        future: asyncio.Future[program_frames.Answer] = asyncio.get_running_loop().create_future()
        self._open[frame.number] = frame, future
        try:
            await self._send(frame)
            async with asyncio.timeout(timeout_s + GRACE_S):
                return await future
        except TimeoutError:
            raise Unreachable(f"the agent at {self._address} did not answer a message") from None
        finally:
            del self._open[frame.number]

    async def join(self, group: str) -> None:
        """Become a vertex of a group's tree, also after reconnections."""
        self._groups[group] = None
        await self._send(program_frames.Join(group))

    async def follow(self, topic: str) -> str:
        """Return the position of this vertex in a topic that its agent has stored; "" if there is none."""
        future = self._followed.setdefault(topic, asyncio.get_running_loop().create_future())
        await self._send(program_frames.Follow(topic))
        return await future

    async def posts_handled(self, topic: str, text: str) -> None:
        """Report to the agent up to which posts of a topic this vertex has come."""
        self._posts[topic] = program_frames.PostsHandled(topic, text)
        await self._send(self._posts[topic])

    async def reached(self, place: program_frames.ResultPosition) -> None:
        """Report to the agent up to which result the master side has come."""
        self._place = place
        await self._send(program_frames.Reached(place))

    async def _converse(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        for group in list(self._groups):  # each may grow while a frame is sent
            await socket.send_bytes(program_frames.encode(program_frames.Join(group)))
        if self._place is not None:
            await socket.send_bytes(program_frames.encode(program_frames.Reached(self._place)))
        for posts in list(self._posts.values()):
            await socket.send_bytes(program_frames.encode(posts))
        for topic, future in list(self._followed.items()):
            if not future.done():
                await socket.send_bytes(program_frames.encode(program_frames.Follow(topic)))
        for frame, _ in list(self._open.values()):
            await socket.send_bytes(program_frames.encode(frame))
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            match program_frames.from_agent(message.data):
                case program_frames.Role() as role:
                    self._role(role)
                case program_frames.Answer() as answer:
                    waiting = self._open.get(answer.number)
                    if waiting is not None and not waiting[1].done():
                        waiting[1].set_result(answer)
                case program_frames.Deliver() as delivered:
                    await self._take(delivered)
                case program_frames.TopicPosition(topic, text):
                    if topic in self._followed and not self._followed[topic].done():
                        self._followed[topic].set_result(text)
                case program_frames.Replaced():
                    raise RuntimeFailure("another process of this program has attached to the agent")
        if socket.close_code == aiohttp.WSCloseCode.POLICY_VIOLATION:
            hint = "A program that follows topics needs an agent of this release."
            raise RuntimeFailure("the agent does not know a frame of this program", hint=hint)

    async def _take(self, frame: program_frames.Deliver) -> None:
        name = (frame.process, frame.number)
        done = self._handled.get(name)
        if done is not None:
            await self._send(done)
        elif name not in self._begun:
            self._begun.add(name)
            self._messages[frame.verb].put_nowait(frame)

    async def _handle_all(self, queue: asyncio.Queue[program_frames.Deliver]) -> None:
        while True:
            frame = await queue.get()
            name = (frame.process, frame.number)
            try:
                done = program_frames.Handled(*name, await self._handle(frame))
            except Exception as error:
                log.exception("a message of %s could not be handled", frame.sender)
                text = f"{type(error).__name__}: {error}"[: program_frames.TEXT_MAX // 4]
                done = program_frames.Handled(*name, error=text)
            self._handled[name] = done
            self._begun.discard(name)
            while len(self._handled) > HANDLED_MAX:
                self._handled.popitem(last=False)
            await self._send(done)

    async def _send(self, frame: program_frames.FromProgram) -> None:
        if self._socket is not None and not self._socket.closed:
            with contextlib.suppress(ConnectionError):
                await self._socket.send_bytes(program_frames.encode(frame))
