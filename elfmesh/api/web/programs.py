"""The routes of the API for programs: a WebSocket for messages, and a POST for inserted records.

  GET  /v1/programs/NS/NAME            WebSocket: ?creator=C&process=HEX; frames: program_frames.py
  POST /v1/programs/NS/NAME/insert     ?stream=S&producer=P&position=N&stamp=T, lines -> {"position"}
  POST /v1/programs/NS/NAME/post       ?stream=S&producer=P&position=N, one message as JSON -> {"position"}
  GET  /v1/programs/NS/NAME/position   ?stream=S&producer=P -> {"position"}: the newest durable, or null

A malformed frame ends the connection. An insert is answered when the records are durable. Lines that begin
with the time T get the agent's time; an agent of an earlier release leaves them as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from aiohttp import WSMsgType, web

from elfmesh.api.web.responses import BODY_S, json_response
from elfmesh.control.answers import OK
from elfmesh.control.jobs.manifest import CREATOR, split_name
from elfmesh.control.protocol.program_frames import (
    FRAME_BYTES_MAX,
    FromAgent,
    FromProgram,
    Replaced,
    encode,
    from_program,
)
from elfmesh.errors import ProtocolError, UsageError
from elfmesh.ids import ID_BYTES

HEARTBEAT_S = 10.0
"""A process that does not answer a ping within half of this time is considered gone."""

INSERT_BYTES_MAX = 4 << 20
POSITION_MAX = (1 << 63) - 1
POSITION_DIGITS_MAX = len(str(POSITION_MAX))
PRODUCER_MAX = 256
STAMP_MAX = 32
BAD_FRAME = 1008


class Sessions(Protocol):
    """Interface of the component that handles messages of programs."""

    def attach(
        self, name: str, creator: str, process: bytes, deliver: Callable[[FromAgent], None]
    ) -> int: ...

    def from_program(self, session: int, frame: FromProgram) -> None: ...

    def detach(self, session: int) -> None: ...


class Target(Protocol):
    """Interface of a stream into which programs insert."""

    def position(self, producer: str) -> int | None: ...

    async def insert(self, producer: str, position: int, lines: list[bytes], stamp: str = "") -> int:
        """Store records. Returns the producer's newest position when they are durable.

        Lines that begin with the time `stamp` get the agent's time.
        """
        ...

    async def post(self, producer: str, position: int, message: bytes) -> int:
        """Store a message of a topic. Returns the producer's newest position when it is durable."""
        ...


class ProgramHost:
    """What an agent offers to programs.

    Args:
        sessions: handles messages of programs.
        inserts: returns the target for a program's name and a stream (None: its only stream); raises
            UsageError if there is none.
    """

    def __init__(self, sessions: Sessions, inserts: Callable[[str, str | None], Target]) -> None:
        self.sessions, self._inserts = sessions, inserts

    def target(self, request: web.Request) -> Target:
        return self._inserts(_name(request), request.query.get("stream"))


async def attach(request: web.Request, host: ProgramHost) -> web.StreamResponse:
    """Serve the WebSocket of one process until it disconnects."""
    try:
        process = bytes.fromhex(request.query.get("process", ""))
    except ValueError:
        process = b""
    if len(process) != ID_BYTES:
        raise UsageError(f"process is {ID_BYTES} bytes in hex, different for each boot of a process")
    name = _name(request)
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=FRAME_BYTES_MAX, compress=False)
    await socket.prepare(request)
    waiting: asyncio.Queue[FromAgent] = asyncio.Queue()
    sending = asyncio.ensure_future(_send(socket, waiting))
    creator = request.query.get("creator") or CREATOR
    session = host.sessions.attach(name, creator, process, waiting.put_nowait)
    try:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                break
            try:
                host.sessions.from_program(session, from_program(message.data))
            except ProtocolError as error:
                await socket.close(code=BAD_FRAME, message=str(error).encode()[:100])
                break
    finally:
        host.sessions.detach(session)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await sending
    return socket


async def _send(socket: web.WebSocketResponse, waiting: asyncio.Queue[FromAgent]) -> None:
    while True:
        frame = await waiting.get()
        await socket.send_bytes(encode(frame))
        if isinstance(frame, Replaced):
            await socket.close()
            return


async def insert(request: web.Request, host: ProgramHost) -> web.StreamResponse:
    """Store the records of a request durably, once."""
    target = host.target(request)
    position, body = _position(request), await _read(request)
    lines = [line for line in body.split(b"\n") if line.strip()]
    if not lines:
        raise UsageError("an insert without records")
    stamp = request.query.get("stamp", "")
    if not stamp.isascii() or len(stamp) > STAMP_MAX:
        raise UsageError(f"stamp is a time of at most {STAMP_MAX} characters")
    return json_response(OK, {"position": await target.insert(_producer(request), position, lines, stamp)})


async def post(request: web.Request, host: ProgramHost) -> web.StreamResponse:
    """Store the message of a request durably, once."""
    target = host.target(request)
    position, body = _position(request), await _read(request)
    return json_response(OK, {"position": await target.post(_producer(request), position, body)})


def _position(request: web.Request) -> int:
    text = request.query.get("position", "")
    if not text.isdecimal() or len(text) > POSITION_DIGITS_MAX or int(text) > POSITION_MAX:
        raise UsageError(f"position={text!r} is not a number from 0 on")
    return int(text)


async def _read(request: web.Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.content.iter_any():
                body += part
                if len(body) > INSERT_BYTES_MAX:
                    raise UsageError(f"an insert is at most {INSERT_BYTES_MAX} bytes; no record was stored")
    except TimeoutError:
        raise UsageError(f"the records did not come within {BODY_S:g} s; no record was stored") from None
    return bytes(body)


async def position(request: web.Request, host: ProgramHost) -> web.StreamResponse:
    return json_response(OK, {"position": host.target(request).position(_producer(request))})


def _producer(request: web.Request) -> str:
    producer = request.query.get("producer", "")
    if not 0 < len(producer) <= PRODUCER_MAX:
        raise UsageError(f"producer is a name of 1 to {PRODUCER_MAX} characters")
    return producer


def _name(request: web.Request) -> str:
    info = request.match_info
    try:
        return "/".join(split_name(f"{info['namespace']}/{info['name']}"))
    except ValueError as error:
        raise UsageError(str(error)) from None
