"""OTLP input over gRPC: the service `LogsService` of OpenTelemetry; `otlp` makes lines of its requests.

    exporters: { otlp: { endpoint: "127.0.0.1:4317", tls: { insecure: true } } }

A request is stored completely or not at all, with the limits of the HTTP input. A sender may repeat it after
UNAVAILABLE: too many requests, or the spool has no room. INVALID_ARGUMENT and RESOURCE_EXHAUSTED do not pass
with a repetition.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.inputs.http import BODY_BYTES_MAX, BodyRefused, RequestSlots, keep
from elfmesh.ingest.inputs.otlp import PROTOBUF, log_lines, response_of
from elfmesh.ingest.inputs.writer import SpoolWriter

if TYPE_CHECKING:
    import grpc

SERVICE, METHOD = "opentelemetry.proto.collector.logs.v1.LogsService", "Export"
STOP_S = 0.2
STATUS = {400: "INVALID_ARGUMENT", 413: "RESOURCE_EXHAUSTED", 429: "UNAVAILABLE", 503: "UNAVAILABLE"}
"""The code of gRPC for the status of a refusal."""


class LogsService:
    """Server of one stream."""

    def __init__(self, writer: SpoolWriter) -> None:
        self._writer, self._slots = writer, RequestSlots(writer.counters)
        self._server: grpc.aio.Server | None = None

    async def start(self, sock: socket.socket) -> None:
        """Serve at the address of a bound socket, which this method closes, because gRPC opens its own.

        Raises:
            RuntimeFailure: another process has taken the address in between.
        """
        import grpc
        from grpc import aio

        host, port = sock.getsockname()[:2]
        sock.close()
        handler = grpc.unary_unary_rpc_method_handler(self._export)
        options = [("grpc.max_receive_message_length", BODY_BYTES_MAX), ("grpc.so_reuseport", 0)]
        self._server = aio.server(options=options)
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})]
        )
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self._server.add_insecure_port(address)
        except RuntimeError:
            raise RuntimeFailure(f"cannot listen on {address}", hint="Choose another address.") from None
        await self._server.start()

    def look(self) -> None: ...

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop(STOP_S)

    async def _export(self, body: bytes, context: Any) -> bytes:
        import grpc

        try:
            with self._slots.one():
                # In a thread, because a body of the maximum size takes seconds.
                found = await asyncio.to_thread(log_lines, body, PROTOBUF, time.time_ns())
                await keep(self._writer, found)
        except BodyRefused as refusal:
            self._writer.counters.refused += 1
            await context.abort(grpc.StatusCode[STATUS[refusal.status]], refusal.why)
        answer: bytes = response_of(found).SerializeToString()
        return answer
