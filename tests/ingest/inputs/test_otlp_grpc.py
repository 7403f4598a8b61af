"""OTLP over gRPC: the lines of the HTTP input, an exporter of OpenTelemetry, and what is refused."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elfmesh.errors import ConfigError, RuntimeFailure
from elfmesh.ingest.inputs import http
from elfmesh.ingest.inputs.http import BODY_BYTES_MAX
from elfmesh.ingest.inputs.otlp import PROTOBUF, log_lines
from elfmesh.ingest.inputs.otlp_grpc import METHOD, SERVICE, STATUS, LogsService
from elfmesh.ingest.inputs.writer import Counters
from elfmesh.ingest.stream_settings import StreamConfig, check_stream, parse_stream
from tests.ingest.inputs.receiving import running, spooled
from tests.ports import reserve

grpc = pytest.importorskip("grpc")
collector = pytest.importorskip("opentelemetry.proto.collector.logs.v1.logs_service_pb2")

AT_NS = 1_700_000_000_123_456_789


def request_of(*messages: str) -> bytes:
    request = collector.ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for message in messages:
        record = scope.log_records.add()
        record.time_unix_nano, record.body.string_value = AT_NS, message
    body: bytes = request.SerializeToString()
    return body


async def send(port: int, body: bytes, method: str = METHOD, **options: Any) -> bytes:
    large = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=large) as channel:
        call = channel.unary_unary(f"/{SERVICE}/{method}")
        answer: bytes = await call(body, wait_for_ready=True, **options)
        return answer


async def refused(port: int, body: bytes, **options: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await send(port, body, **options)
    return caught.value.code().name, caught.value.details()


async def test_the_lines_are_those_of_the_http_input(tmp_path: Path) -> None:
    port, body = reserve(), request_of("no stock", "späť")
    async with running(tmp_path, f"otlp-grpc://127.0.0.1:{port}") as inputs:
        assert await send(port, body) == b""
        assert spooled(tmp_path).splitlines() == log_lines(body, PROTOBUF, AT_NS).lines
        assert await send(port, body, compression=grpc.Compression.Gzip) == b""
        found = inputs.describe()["net"]
    assert (found["messages"], found["connections"], found["refused"]) == (4, 0, 0)


async def test_an_exporter_of_opentelemetry_sends_its_logs(tmp_path: Path) -> None:
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc._log_exporter")
    api = pytest.importorskip("opentelemetry._logs")
    sdk = pytest.importorskip("opentelemetry.sdk._logs")
    exports = pytest.importorskip("opentelemetry.sdk._logs.export")
    from opentelemetry.sdk.resources import Resource

    port = reserve()
    async with running(tmp_path, f"otlp-grpc://127.0.0.1:{port}") as inputs:

        def emit() -> None:
            provider = sdk.LoggerProvider(resource=Resource({"service.name": "shop"}))
            exporter = exporters.OTLPLogExporter(endpoint=f"http://127.0.0.1:{port}", insecure=True)
            provider.add_log_record_processor(exports.BatchLogRecordProcessor(exporter))
            logger = provider.get_logger("shop.cart")
            for number in range(100):
                logger.emit(
                    api.LogRecord(
                        timestamp=AT_NS, severity_number=api.SeverityNumber.ERROR, body=f"failed {number}"
                    )
                )
            provider.shutdown()

        await asyncio.to_thread(emit)
        assert inputs.describe()["net"]["messages"] == 100
        rows = [json.loads(line) for line in spooled(tmp_path).splitlines()]
    assert {row["message"] for row in rows} == {f"failed {number}" for number in range(100)}
    assert {(row["service"], row["severity"], row["scope"]) for row in rows} == {
        ("shop", "ERROR", "shop.cart")
    }


async def test_what_is_refused_leaves_no_line_and_states_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = reserve()
    async with running(tmp_path, f"otlp-grpc://127.0.0.1:{port}") as inputs:
        code, why = await refused(port, b"\xff\xff")
        assert code == "INVALID_ARGUMENT"
        assert "is not a request of OTLP logs" in why
        assert (await refused(port, request_of(), method="Other"))[0] == "UNIMPLEMENTED"
        monkeypatch.setattr(http, "REQUESTS_MAX", 0)
        assert await refused(port, request_of("a")) == ("UNAVAILABLE", "too many requests at once")
        monkeypatch.undo()
        monkeypatch.setattr("elfmesh.ingest.inputs.otlp.LINES_BYTES_MAX", 10)
        assert (await refused(port, request_of("a")))[0] == "RESOURCE_EXHAUSTED"
        assert inputs.describe()["net"]["refused"] == 3
        assert spooled(tmp_path) == b""


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_a_request_above_the_limit_is_refused_also_if_it_is_small_when_compressed(
    tmp_path: Path, compression: Any
) -> None:
    port, body = reserve(), request_of(*["x" * 1000] * (BODY_BYTES_MAX // 1000 + 1))
    assert len(gzip.compress(body)) < BODY_BYTES_MAX < len(body)
    async with running(tmp_path, f"otlp-grpc://127.0.0.1:{port}"):
        code, why = await refused(port, body, compression=compression)
        assert code == "RESOURCE_EXHAUSTED"
        assert "larger than max" in why
        assert spooled(tmp_path) == b""


async def test_a_spool_without_room_makes_the_sender_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = reserve()
    async with running(tmp_path, f"otlp-grpc://127.0.0.1:{port}") as inputs:
        writer = inputs._writers["net"]
        monkeypatch.setattr(type(writer), "waiting", True)
        writer.counters.problem = "the spool is full"
        assert await refused(port, request_of("a")) == ("UNAVAILABLE", "the spool is full")


async def test_an_address_that_is_taken_in_between_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]

    class Bound:
        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", port

        def close(self) -> None: ...

    writer: Any = SimpleNamespace(counters=Counters())
    bound: Any = Bound()
    with taken, pytest.raises(RuntimeFailure, match=f"cannot listen on 127.0.0.1:{port}"):
        await LogsService(writer).start(bound)


def test_the_statuses_are_codes_of_grpc() -> None:
    assert all(hasattr(grpc.StatusCode, name) for name in STATUS.values())


def test_the_setting_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "otlp-grpc://127.0.0.1:4317"
    assert parse_stream(f"app={address}") == ("app", {"listen": address})
    check_stream(StreamConfig(listen=address), "streams.app")
    with pytest.raises(ConfigError, match="is not a format of otlp"):
        check_stream(StreamConfig(listen=address, format="syslog"), "streams.app")
    with pytest.raises(ConfigError, match="can be reached from other hosts"):
        check_stream(StreamConfig(listen="otlp-grpc://0.0.0.0:4317"), "streams.app")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "grpc" else name)
    with pytest.raises(ConfigError, match="needs the extra 'otel-grpc'"):
        check_stream(StreamConfig(listen=address), "streams.app")
