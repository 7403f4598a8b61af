"""The HTTP listener of an agent: its sockets and its token. `elfmesh.api.app` answers requests."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from elfmesh.agent.runtime.pump import Pump
from elfmesh.agent.settings.config import API_DEFAULT, AgentConfig
from elfmesh.agent.settings.security import Security
from elfmesh.api.authority.web import Recorder
from elfmesh.api.identity.bearer import leave_note, new_token, remove_note
from elfmesh.api.web.programs import ProgramHost
from elfmesh.errors import RuntimeFailure, StorageError
from elfmesh.ingest.tap import Taps

if TYPE_CHECKING:
    from elfmesh.api.identity.identify import Identifier

log = logging.getLogger("elf.agent")
BACKLOG = 128
SHUTDOWN_S = 0.2
"""Short, because long polls need not be completed at shutdown."""


def bind_api(config: AgentConfig) -> socket.socket:
    """Bind the socket of the API to `api`; if it is not configured, to the default port or a free one."""
    host, port = config.api_address
    try:
        if config.api:
            return _bound(host, port)
        try:
            # listens at once, because two agents that start together can both bind the port, but only one
            # can listen
            return _bound(host, port, listens=True)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        log.warning("the port of the API, %d, is taken by another process: a free one is used", port)
        return _bound(host, 0)
    except OSError as error:
        raise cannot_bind("api", config.api or API_DEFAULT, error) from None


def _bound(host: str, port: int, *, listens: bool = False) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.setblocking(False)
        if listens:
            sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def cannot_bind(key: str, address: str, error: OSError) -> RuntimeFailure:
    if error.errno == errno.EADDRINUSE:
        return RuntimeFailure(
            f"{address} is in use by another process",
            where=key,
            hint=f"Stop that process, or use another address: --{key} HOST:PORT (port 0 is any free port).",
        )
    return RuntimeFailure(f"cannot listen on {address}: {os.strerror(error.errno or 0)}", where=key)


def bind_socket(path: str) -> socket.socket:
    """Listen on a Unix socket for this user and root only, replacing the socket of an earlier boot."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                if probe.connect_ex(path) == 0:
                    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            Path(path).unlink()
    except FileNotFoundError:
        pass
    except OSError as error:
        sock.close()
        raise cannot_bind("api_socket", path, error) from None
    before = os.umask(0o177)  # so that no other user can connect at any moment
    try:
        sock.bind(path)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise cannot_bind("api_socket", path, error) from None
    finally:
        os.umask(before)
    return sock


class ApiServer:
    """The API of one agent at `address` ("HOST:PORT"). `stack` closes the socket."""

    def __init__(self, config: AgentConfig, security: Security, stack: contextlib.AsyncExitStack) -> None:
        self._config, self._security, self._socket = config, security, bind_api(config)
        stack.callback(self._socket.close)
        self._local: socket.socket | None = None
        if path := config.api_socket:
            self._local = bind_socket(path)
            stack.callback(_remove_socket, path)
            stack.callback(self._local.close)
        self._identifier: Identifier | None = None
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._close = contextlib.AsyncExitStack()
        # The token is written before any client can connect, so that a client that waits for the agent
        # reads the token of this boot.
        self._token = self._new_token(stack) if security.trust is None else ""
        try:
            self._socket.listen(BACKLOG)
        except OSError as error:
            raise cannot_bind("api", config.api, error) from None

    async def start(
        self,
        pump: Pump,
        taps: Taps,
        metrics: Callable[[], Callable[[], bytes]] | None,
        programs: ProgramHost,
        audit: Recorder,
        loaded: Callable[[], Awaitable[object]],
    ) -> None:
        from aiohttp import web

        from elfmesh.api.app import make_app
        from elfmesh.api.identity.identify import Identifier
        from elfmesh.api.web.handshake_limits import HandshakeLimits
        from elfmesh.api.web.request_limits import SERVER_OPTIONS, RequestLimits

        request_limits, trust = RequestLimits(), self._security.trust
        if trust is None:
            self._identifier = Identifier(self._token)
        else:
            lifetime_s = self._config.tls.lifetime_s
            self._identifier = Identifier(
                of_certificate=lambda der: trust.judge(der).principal(), lifetime_s=lifetime_s
            )
        app = make_app(pump, taps, metrics, programs, audit, self._identifier, request_limits, loaded)
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=_api_log(),
            shutdown_timeout=SHUTDOWN_S,
            **SERVER_OPTIONS,
        )
        await runner.setup()
        self._close.push_async_callback(runner.cleanup)
        assert runner.server is not None
        self._close.push_async_callback(await request_limits.watch(runner.server))
        handshake_limits = HandshakeLimits(
            self._socket, runner.server, lambda: None if trust is None else trust.server
        )
        self._close.push_async_callback(handshake_limits.close)
        if self._local is not None:
            local = await asyncio.get_running_loop().create_unix_server(runner.server, sock=self._local)
            self._close.callback(local.close)

    def reconsider(self) -> None:
        if self._identifier is not None:
            self._identifier.reconsider()

    async def close(self) -> None:
        await self._close.aclose()

    def _new_token(self, stack: contextlib.AsyncExitStack) -> str:
        directory: Path = self._config.directory
        try:
            token, file = new_token(directory)
        except OSError as error:
            raise StorageError(
                f"cannot write the API token: {error.strerror}", where=str(directory)
            ) from None
        note = leave_note(self.address, file)
        if note is None:
            log.info("no place for a note of the API token: clients need --token-file %s", file)
        stack.callback(remove_note, note, file)
        return token


def _remove_socket(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()


def _api_log() -> logging.Logger:
    from aiohttp.http_exceptions import HttpProcessingError

    def ours(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | ConnectionError))

    logger = logging.getLogger("elf.api.server")
    logger.addFilter(ours)
    return logger
