"""HTTP connections of the blocking client to one agent's API.

The module owns how to reach an agent (TCP, TLS or a Unix socket), how to send a request, and how to read an
answer, as one JSON object or line by line. It knows no verbs and no jobs, and needs only the standard
library.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

from elfmesh.api.client.client_base import api_address, error_from, parse_json, unreachable
from elfmesh.api.client.unix_socket import HOST, PREFIX, UnixConnection, socket_path
from elfmesh.api.identity.credentials import Credentials, default_credentials
from elfmesh.errors import Unreachable

FOLLOW_SILENCE_S = 90.0
"""An agent sends a follower at least an empty line every 15 s, so a silence of this length means that it
hangs."""

LINE_BYTES_MAX = 256 << 20
BLOCK_BYTES = 1 << 16


class ClientConnection:
    """Sends requests to one agent, each over its own connection.

    Args:
        address: "HOST:PORT" of an agent's API, or "unix:PATH".
        timeout_s: time limit for an answer, beyond the time that a request asks the agent to wait.
        credentials: how to authenticate; default: `default_credentials`.
    """

    def __init__(self, address: str | None, timeout_s: float, credentials: Credentials | None) -> None:
        self._path = socket_path(address)
        self._host, self._port = api_address(address) if self._path is None else (HOST, 0)
        self._timeout_s = timeout_s
        self._credentials = credentials or default_credentials()

    @property
    def address(self) -> str:
        """HOST:PORT, or unix:PATH."""
        if self._path is not None:
            return PREFIX + self._path
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    def stream(self, target: str, body: dict[str, Any] | None = None) -> Iterator[bytes]:
        """Yield the lines of an answer that are not empty, as they arrive.

        Raises:
            ElfError: the agent has refused the request, or a line contains an error.
            Unreachable: no agent answers, or the answer broke off.
        """
        method = "GET" if body is None else "POST"
        connection, response = self.open(method, target, body, timeout_s=FOLLOW_SILENCE_S)
        try:
            if response.status != http.client.OK:
                raise error_from(response.status, parse_json(response.read()), target)
            for line in self._lines_of(response):
                text = line.strip()
                if text.startswith(b'{"error":'):
                    raise error_from(0, parse_json(text), target)
                if text:
                    yield text
        finally:
            response.close()
            connection.close()

    def _lines_of(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        """Yield the lines of an answer.

        Does not use `readline`, which reports a broken connection as the end.

        Raises:
            Unreachable: the answer broke off.
        """
        kept = bytearray()
        try:
            if not response.chunked:
                yield from response.read().split(b"\n")
                return
            while data := response.read1(BLOCK_BYTES):
                kept += data
                *lines, rest = kept.split(b"\n") if b"\n" in data else (kept,)
                if len(rest) > LINE_BYTES_MAX:
                    raise Unreachable(f"the agent at {self.address} sent an unterminated line")
                kept = rest
                yield from map(bytes, lines)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"the agent at {self.address} closed the connection early: {reason}") from None
        yield bytes(kept)

    def ask(
        self, method: str, target: str, body: dict[str, Any] | None = None, *, wait_s: float = 0.0
    ) -> dict[str, Any]:
        """Return the JSON object that answers a request.

        `wait_s` is how long the request asks the agent to wait.

        Raises:
            ElfError: the agent has refused the request.
            Unreachable: no agent answers, or the answer broke off.
        """
        connection, response = self.open(method, target, body, timeout_s=self._timeout_s + wait_s)
        try:
            answer = parse_json(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the agent at {self.address} closed the connection early: {error}") from None
        finally:
            response.close()
            connection.close()
        if response.status != http.client.OK or not isinstance(answer, dict):
            raise error_from(response.status, answer, target)
        return answer

    def open(
        self, method: str, target: str, body: dict[str, Any] | None = None, *, timeout_s: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Return the connection and its unread response of any status. The caller closes both.

        Raises:
            Unreachable: no agent answers.
            ConfigError: the certificate or the token file cannot be used.
        """
        connection = self._connect(timeout_s)
        data = None if body is None else json.dumps(body).encode()
        headers = {} if self._path is not None else self._credentials.headers(self.address)
        headers |= {} if data is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, target, data, headers)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise unreachable(self.address, error) from None

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._path is not None:
            return UnixConnection(self._path, timeout=timeout_s)
        context = self._credentials.context()
        if context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)
