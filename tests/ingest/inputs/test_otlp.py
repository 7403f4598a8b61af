"""The OTLP receiver: each log record of an exporter becomes a line, and what is refused leaves none."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import elfmesh
from elfmesh.errors import ConfigError
from elfmesh.ingest.inputs import otlp
from elfmesh.ingest.inputs.http import BodyRefused
from elfmesh.ingest.inputs.otlp import JSON, PROTOBUF, log_lines
from elfmesh.ingest.stream_settings import StreamConfig, check_stream, parse_stream
from elfmesh.limits import LINE_BYTES_MAX
from tests.ingest.inputs.receiving import running, spooled
from tests.ports import reserve

collector = pytest.importorskip("opentelemetry.proto.collector.logs.v1.logs_service_pb2")

AT_NS = 1_700_000_000_123_456_789
REQUEST = {
    "resourceLogs": [
        {
            "resource": {
                "attributes": [
                    {"key": "service.name", "value": {"stringValue": "shop"}},
                    {"key": "k8s.pod.name", "value": {"stringValue": "shop-1"}},
                ]
            },
            "scopeLogs": [
                {
                    "scope": {"name": "shop.cart"},
                    "logRecords": [
                        {
                            "timeUnixNano": str(AT_NS),
                            "severityNumber": 17,
                            "body": {"stringValue": "no\nstock"},
                            "traceId": "5B8EFFF798038103D269B633813FC60C",
                            "spanId": "EEE19B7EC3C1B174",
                            "attributes": [
                                {"key": "http.status", "value": {"intValue": "503"}},
                                {"key": "http.took", "value": {"doubleValue": 0.5}},
                                {"key": "tags", "value": {"arrayValue": {"values": [{"boolValue": True}]}}},
                            ],
                        },
                        {
                            "observedTimeUnixNano": str(AT_NS),
                            "severityText": "Notice",
                            "body": {"intValue": "7"},
                        },
                    ],
                }
            ],
        }
    ]
}
LINES: list[dict[str, Any]] = [
    {
        "ts": "2023-11-14T22:13:20.123456+00:00",
        "severity": "ERROR",
        "severity_number": 17,
        "message": "no\nstock",
        "service": "shop",
        "scope": "shop.cart",
        "trace_id": "5b8efff798038103d269b633813fc60c",
        "span_id": "eee19b7ec3c1b174",
        "attributes": {"http": {"status": 503, "took": 0.5}, "tags": [True]},
        "resource": {"service": {"name": "shop"}, "k8s": {"pod": {"name": "shop-1"}}},
    },
    {
        "ts": "2023-11-14T22:13:20.123456+00:00",
        "severity": "Notice",
        "message": "7",
        "service": "shop",
        "scope": "shop.cart",
        "resource": {"service": {"name": "shop"}, "k8s": {"pod": {"name": "shop-1"}}},
    },
]


def request_of(*bodies: Callable[[Any], None]) -> bytes:
    """Return a request in protobuf with a log record for each function, which fills it."""
    request = collector.ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for fill in bodies:
        fill(records.add())
    return bytes(request.SerializeToString())


def values(body: bytes, content_type: str = PROTOBUF) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_lines(body, content_type, AT_NS).lines]


async def post(port: int, body: bytes, content_type: str, path: str = "/v1/logs") -> tuple[int, str, bytes]:
    url = f"http://127.0.0.1:{port}{path}"
    headers = {"Content-Type": content_type}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=io.BytesIO(body), headers=headers) as answer,
    ):
        return answer.status, answer.content_type, await answer.read()


def test_records_in_json_become_lines_with_their_resource_and_scope() -> None:
    assert values(json.dumps(REQUEST).encode(), JSON) == LINES


def test_both_encodings_give_the_same_lines() -> None:
    identifiers = bytes.fromhex(str(LINES[0]["trace_id"])), bytes.fromhex(str(LINES[0]["span_id"]))
    from google.protobuf import json_format

    request = json_format.ParseDict(REQUEST, collector.ExportLogsServiceRequest())
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.trace_id, record.span_id = identifiers
    assert values(request.SerializeToString()) == LINES


def test_a_record_without_a_time_has_the_time_at_which_it_was_received() -> None:
    assert values(request_of(lambda record: None)) == [{"ts": "2023-11-14T22:13:20.123456+00:00"}]


def test_a_map_as_body_is_an_object_and_a_name_that_is_also_a_value_stays_flat() -> None:
    def fill(record: Any) -> None:
        item = record.body.kvlist_value.values.add()
        item.key, item.value.int_value = "user.id", 7
        for key in ("a", "a.b", "a.b.c"):
            attribute = record.attributes.add()
            attribute.key, attribute.value.string_value = key, key

    (line,) = values(request_of(fill))
    assert line["body"] == {"user": {"id": 7}}
    assert line["attributes"] == {"a": "a", "a.b": "a.b", "a.b.c": "a.b.c"}


async def test_an_exporter_of_opentelemetry_sends_its_logs(tmp_path: Path) -> None:
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.http._log_exporter")
    api = pytest.importorskip("opentelemetry._logs")
    sdk = pytest.importorskip("opentelemetry.sdk._logs")
    exports = pytest.importorskip("opentelemetry.sdk._logs.export")
    from opentelemetry.sdk.resources import Resource

    port = reserve()
    async with running(tmp_path, f"otlp://127.0.0.1:{port}") as inputs:

        def send() -> None:
            provider = sdk.LoggerProvider(resource=Resource({"service.name": "shop"}))
            exporter = exporters.OTLPLogExporter(endpoint=f"http://127.0.0.1:{port}/v1/logs")
            provider.add_log_record_processor(exports.BatchLogRecordProcessor(exporter))
            logger = provider.get_logger("shop.cart")
            for number in range(100):
                record = api.LogRecord(
                    timestamp=AT_NS,
                    severity_number=api.SeverityNumber.ERROR,
                    body=f"failed {number}",
                    attributes={"http.status": 500 + number % 2},
                )
                logger.emit(record)
            provider.shutdown()

        await asyncio.to_thread(send)
        assert inputs.describe()["net"]["messages"] == 100
        log = tmp_path / "otlp.ndjson"
        log.write_bytes(spooled(tmp_path))
    rows = elfmesh.run(
        "SELECT service, severity, attributes.http.status AS status, count(*) AS n, "
        "min(message) AS first FROM log "
        "GROUP BY service, severity, attributes.http.status ORDER BY status",
        log,
    )
    assert [tuple(row.values()) for window in rows for row in window.to_pylist()] == [
        ("shop", "ERROR", 500, 50, "failed 0"),
        ("shop", "ERROR", 501, 50, "failed 1"),
    ]


async def test_answers_have_the_encoding_of_the_request(tmp_path: Path) -> None:
    port, body = reserve(), json.dumps(REQUEST).encode()
    async with running(tmp_path, f"otlp://127.0.0.1:{port}") as inputs:
        assert await post(port, body, JSON) == (200, JSON, b"{}")
        assert await post(port, request_of(), PROTOBUF) == (200, PROTOBUF, b"")
        status, kind, answer = await post(port, b"{", JSON)
        assert (status, kind) == (400, JSON)
        assert "is not a request of OTLP logs" in json.loads(answer)["message"]
        assert (await post(port, b"\xff\xff", PROTOBUF))[0] == 400
        assert (await post(port, body, "text/plain"))[0] == 415
        assert (await post(port, body, JSON, "/v1/traces"))[0] == 404
        assert [json.loads(line) for line in spooled(tmp_path).splitlines()] == LINES
        assert inputs.describe()["net"]["refused"] == 3


async def test_a_record_that_is_too_long_is_named_in_the_answer_and_the_others_are_kept(
    tmp_path: Path,
) -> None:
    port = reserve()

    def long(record: Any) -> None:
        record.body.string_value = "x" * LINE_BYTES_MAX

    def short(record: Any) -> None:
        record.body.string_value = "short"

    async with running(tmp_path, f"otlp://127.0.0.1:{port}") as inputs:
        status, _, answer = await post(port, request_of(long, short), PROTOBUF)
        found = collector.ExportLogsServiceResponse.FromString(answer).partial_success
        assert (status, found.rejected_log_records) == (200, 1)
        assert "over 1048576 bytes" in found.error_message
        assert [json.loads(line)["message"] for line in spooled(tmp_path).splitlines()] == ["short"]
        assert inputs.describe()["net"]["overlong"] == 1


def test_a_resource_that_many_records_repeat_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "LINES_BYTES_MAX", 10_000)
    request = collector.ExportLogsServiceRequest()
    of_resource = request.resource_logs.add()
    attribute = of_resource.resource.attributes.add()
    attribute.key, attribute.value.string_value = "large", "x" * 1000
    scope = of_resource.scope_logs.add()
    for _ in range(20):
        scope.log_records.add()
    with pytest.raises(BodyRefused, match="over 10000 bytes"):
        log_lines(request.SerializeToString(), PROTOBUF, AT_NS)


def nested(levels: int) -> bytes:
    value = '{"arrayValue":{"values":[' * levels + '{"intValue":"1"}' + "]}}" * levels
    return ('{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":' + value + "}]}]}]}").encode()


def test_values_may_be_nested_but_not_without_limit() -> None:
    (line,) = values(nested(10), JSON)
    assert json.loads(line["message"]) == [[[[[[[[[[1]]]]]]]]]]
    with pytest.raises(BodyRefused, match="is not a request of OTLP logs"):
        log_lines(nested(5000), JSON, AT_NS)


def test_the_format_of_the_lines_is_known() -> None:
    name, settings = parse_stream("app=otlp://127.0.0.1:4318")
    assert (name, settings) == ("app", {"listen": "otlp://127.0.0.1:4318"})
    check_stream(StreamConfig(listen="otlp://127.0.0.1:4318"), "streams.app")
    with pytest.raises(ConfigError, match="is not a format of otlp"):
        check_stream(StreamConfig(listen="otlp://127.0.0.1:4318", format="syslog"), "streams.app")


def test_without_the_extra_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs the extra 'otel'"):
        check_stream(StreamConfig(listen="otlp://127.0.0.1:4318"), "streams.app")
