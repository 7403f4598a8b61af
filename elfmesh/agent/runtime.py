"""A real agent: directory, sockets, threads; started, watched, stopped.

Owns the order of starting and stopping and nothing in between. What can be wrong is found before the ready
line; whatever happens, sockets, threads and the directory's lock are given back.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import glob
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from elfmesh.agent.assembly import LocalAgent, Parts
from elfmesh.agent.compute import PartialCompute
from elfmesh.agent.config import AgentConfig, StreamConfig
from elfmesh.agent.core import codec
from elfmesh.agent.host import ThreadExecutor, load_identity, wall_clock_us
from elfmesh.agent.memory import Seldom
from elfmesh.agent.native import fallback_reasons
from elfmesh.agent.parsers import StreamFormat
from elfmesh.agent.recheck import Recheck
from elfmesh.agent.sources import StreamReader
from elfmesh.agent.spill import SpillStore
from elfmesh.agent.storage import DiskStorage
from elfmesh.agent.transport import TcpTransport
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.resultslog import ResultsLogs
from elfmesh.errors import ConfigError, ElfError, RuntimeFailure, Unreachable
from elfmesh.machine import Contact

log = logging.getLogger("elf.agent")
Ready = Callable[[str, str, bytes], None]
SWITCH_S = 0.001
"""How long a thread that evaluates may keep the interpreter while the loop waits for it (Python's default is
five times as long, and the loop may have to wait several times in a row)."""

ATTACH_POLL_S = 0.01
ATTACH_POLLS_MAX = 200
"""Waits for a place in the trees of this agent's groups before it says ready all the same."""


def run(config: AgentConfig, *, ready: Ready) -> int:
    """Run an agent until SIGTERM or SIGINT.

    Args:
        config: checked configuration.
        ready: told API address, overlay address and id once the agent has joined and serves.

    Returns:
        0 after an orderly stop.

    Raises:
        ElfError: it could not start, join or go on.
    """
    formats = {name: _format(name, stream) for name, stream in config.streams.items()}
    if config.limits.cpu_percent is not None:
        log.warning("limits.cpu_percent is not enforced by this version")
    for name, stream in config.streams.items():
        if not glob.glob(stream.path, recursive=True):  # noqa: PTH207 - Path.glob takes no absolute pattern
            log.warning("stream %s: no file is there yet at %s", name, stream.path)
    for reason in fallback_reasons():
        log.warning("%s", reason)
    storage = DiskStorage(config.directory)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_main(config, formats, storage, ready))
    finally:
        storage.close()
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _format(name: str, stream: StreamConfig) -> StreamFormat:
    try:
        return StreamFormat(stream.format, host=socket.gethostname(), timestamp=stream.ts or None)
    except ConfigError as error:
        raise ConfigError(error.message, where=f"streams.{name}.format", hint=error.hint) from None


async def _main(
    config: AgentConfig, formats: dict[str, StreamFormat], storage: DiskStorage, ready: Ready
) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    sys.setswitchinterval(SWITCH_S)
    async with AsyncExitStack() as stack:
        memory = _memory(config, stack)
        executor = ThreadExecutor()
        stack.callback(executor.close)
        transport = TcpTransport(*config.listen_address, codec(), cluster=config.cluster)
        try:
            bound = await transport.listen()
        except OSError as error:
            raise _cannot_bind("listen", config.listen, error) from None
        stack.push_async_callback(transport.close)
        api_socket = _bind_api(config)
        stack.callback(api_socket.close)
        host, port = config.advertise_address or bound
        identity = load_identity(storage)
        me = Contact(identity.id, host, port, identity.incarnation, config.labels.get("rack", ""))
        agent = LocalAgent(
            Parts(
                me=me,
                name=config.name or f"{socket.gethostname()}-{me.id.hex()[:6]}",
                labels=config.labels,
                streams=config.streams,
                rng=identity.rng,
                transport=transport,
                storage=storage,
                executor=executor,
                compute=PartialCompute(),
                results=ResultsLogs(config.directory / "results"),
                open_reader=lambda name, stream: StreamReader(stream.path, formats[name]),
                wall_us=wall_clock_us,
                held_bytes_max=config.limits.memory_bytes // 4,
                memory=memory,
                tidy=Seldom(),
                recheck=Recheck(config.streams, _format, spill_dir=config.directory / "verify"),
                self_check=config.limits.self_check,
            )
        )
        stack.push_async_callback(agent.pump.stop)
        agent.start(config.join_addresses)
        if not await _joined(agent, config, stopping):
            return
        stack.push_async_callback(await _serve(agent, api_socket))
        # What was imported stays: every full collection would go through all of it again.
        gc.collect()
        gc.freeze()
        ready(_address(api_socket), f"[{host}]:{port}" if ":" in host else f"{host}:{port}", me.id)
        await _first(stopping.wait(), agent.pump.left.wait(), agent.pump.failed)
        if agent.pump.failed.done():
            raise _fatal(agent.pump.failed.result())
        log.info("stopping")


def _memory(config: AgentConfig, stack: AsyncExitStack) -> MemoryBudget:
    """What all open intervals may take: in memory, then on disk."""
    limits = config.limits
    store = None
    if limits.spill_bytes:
        store = SpillStore(config.directory / "spill", limit_bytes=limits.spill_bytes)
        stack.callback(store.close)
    return MemoryBudget(limits.panes_bytes, store, new_lock=threading.Lock)


async def _joined(agent: LocalAgent, config: AgentConfig, stopping: asyncio.Event) -> bool:
    """Wait until the agent is in the overlay; False if it was told to stop first."""
    try:
        async with asyncio.timeout(config.join_timeout_s):
            await _first(agent.pump.joined.wait(), stopping.wait(), agent.pump.failed)
    except TimeoutError:
        raise Unreachable(
            f"no agent answers at {', '.join(config.join)}",
            hint=f"Tried for {config.join_timeout}. Start that agent first, or check --join.",
        ) from None
    if agent.pump.failed.done():
        raise _fatal(agent.pump.failed.result())
    for _ in range(ATTACH_POLLS_MAX):
        if agent.attached or stopping.is_set():
            break
        await asyncio.sleep(ATTACH_POLL_S)
    return agent.pump.joined.is_set()


async def _serve(agent: LocalAgent, sock: socket.socket) -> Callable[[], Awaitable[None]]:
    """Start the HTTP API; the way to end it, which waits for nobody's long poll."""
    from aiohttp import web

    from elfmesh.control.api import make_app

    runner = web.AppRunner(make_app(agent.pump), access_log=None, logger=_api_log(), shutdown_timeout=0.2)
    await runner.setup()
    await web.SockSite(runner, sock).start()
    return runner.cleanup


def _api_log() -> logging.Logger:
    """Where aiohttp complains; not about what is no request, or a client that left: that is not our fault."""
    from aiohttp.http_exceptions import HttpProcessingError

    def ours(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | ConnectionError))

    logger = logging.getLogger("elf.api.server")
    logger.addFilter(ours)
    return logger


async def _first(*waits: Awaitable[object]) -> None:
    """Return when the first of them is done; the others are no longer waited for."""
    futures = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, wait in zip(futures, waits, strict=True):
            if future is not wait:
                future.cancel()


def _bind_api(config: AgentConfig) -> socket.socket:
    host, port = config.api_address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _cannot_bind("api", config.api, error) from None
    return sock


def _cannot_bind(key: str, address: str, error: OSError) -> RuntimeFailure:
    if error.errno == errno.EADDRINUSE:
        return RuntimeFailure(
            f"{address} is in use by another process",
            where=key,
            hint=f"Stop that one, or choose another address with --{key} HOST:PORT (port 0: any free one).",
        )
    return RuntimeFailure(f"cannot listen on {address}: {os.strerror(error.errno or 0)}", where=key)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _fatal(error: BaseException) -> ElfError:
    if isinstance(error, ElfError):
        return error
    failure = RuntimeFailure(f"{type(error).__name__}: {error}", hint="This is a bug in elfmesh.")
    failure.__cause__ = error
    return failure
