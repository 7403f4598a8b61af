"""OTLP input: logs of OpenTelemetry over HTTP, in protobuf or JSON. A log record becomes a line of JSON.

`otlp_grpc` is the input over gRPC, with the same lines.

    exporters: { otlphttp: { logs_endpoint: "http://127.0.0.1:4318/v1/logs" } }

A line has `ts`, `severity`, `severity_number`, `message`, `service`, `host`, `scope`, `event`, `trace_id`,
`span_id`, and the objects `attributes` and `resource`. A body that is a map is the object `body`, and another
one that is no string is JSON in `message`. A dot in the name of an attribute becomes a level of
the object, so that `attributes.http.route` is a column. Empty values have no key.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from elfmesh.ingest.inputs.http import BODY_BYTES_MAX, BodyLines, BodyRefused
from elfmesh.limits import LINE_BYTES_MAX

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
        ExportLogsServiceRequest,
        ExportLogsServiceResponse,
    )
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

PROTOBUF, JSON = "application/x-protobuf", "application/json"
LINES_BYTES_MAX = 4 * BODY_BYTES_MAX
"""Limit of the lines of a body. The attributes of a resource are in each line, so they can be much larger."""

KEY_LEVELS_MAX = 16
"""Maximum number of levels that the dots of a name make; what is behind them stays one name."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


class Otlp:
    """Reading of the bodies that exporters of OpenTelemetry send to `/v1/logs`."""

    route = "/v1/logs"

    async def lines(self, body: bytes, content_type: str) -> BodyLines:
        # In a thread, because a body of the maximum size takes seconds.
        return await asyncio.to_thread(log_lines, body, content_type, time.time_ns())

    def accepted(self, body: BodyLines, content_type: str) -> web.Response:
        return _answer(response_of(body), content_type, 200, {})

    def refused(self, refusal: BodyRefused, content_type: str, headers: Mapping[str, str]) -> web.Response:
        from google.rpc.status_pb2 import Status

        return _answer(Status(message=refusal.why), content_type, refusal.status, headers)


def response_of(body: BodyLines) -> ExportLogsServiceResponse:
    """Return the answer to a request whose lines are durable."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    answer = ExportLogsServiceResponse()
    if body.rejected:
        answer.partial_success.rejected_log_records = body.rejected
        answer.partial_success.error_message = body.why
    return answer


def log_lines(body: bytes, content_type: str, received_ns: int) -> BodyLines:
    """Return a line for each log record of a request.

    Args:
        body: an ExportLogsServiceRequest.
        content_type: its encoding.
        received_ns: the time, as ns since 1970, of records that state neither when they happened nor when
            they were observed.

    Raises:
        BodyRefused: The body has another encoding, is damaged, or has more than `LINES_BYTES_MAX` of lines.
    """
    try:
        return _encoded(_records(_request(body, content_type), content_type == JSON, received_ns))
    except RecursionError:
        raise BodyRefused(400, "the values of a log record are nested too deeply") from None


def _encoded(records: Iterable[Mapping[str, Any]]) -> BodyLines:
    lines: list[bytes] = []
    size = rejected = 0
    for fields in records:
        line = msgspec.json.encode(fields)
        if len(line) > LINE_BYTES_MAX:
            rejected += 1
            continue
        size += len(line) + 1
        if size > LINES_BYTES_MAX:
            raise BodyRefused(413, f"the lines of the log records are over {LINES_BYTES_MAX} bytes")
        lines.append(line)
    return BodyLines(lines, rejected, f"a log record is over {LINE_BYTES_MAX} bytes" if rejected else "")


def _request(body: bytes, content_type: str) -> ExportLogsServiceRequest:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    request = ExportLogsServiceRequest()
    try:
        if content_type == PROTOBUF:
            request.ParseFromString(body)
        elif content_type == JSON:
            json_format.Parse(body, request, ignore_unknown_fields=True)
        else:
            raise BodyRefused(415, f"the type {content_type!r} is not supported; use {PROTOBUF} or {JSON}")
    except (DecodeError, json_format.Error, ValueError) as error:
        raise BodyRefused(400, f"the body is not a request of OTLP logs: {str(error)[:200]}") from None
    return request


def _records(request: ExportLogsServiceRequest, is_json: bool, received_ns: int) -> Iterator[dict[str, Any]]:
    for of_resource in request.resource_logs:
        resource = _object(of_resource.resource.attributes)
        names = {each.key: each.value.string_value for each in of_resource.resource.attributes}
        shared = {"service": names.get("service.name"), "host": names.get("host.name"), "resource": resource}
        for of_scope in of_resource.scope_logs:
            scope = {"scope": of_scope.scope.name}
            for record in of_scope.log_records:
                found = {**_fields(record, is_json, received_ns), **shared, **scope}
                yield {key: value for key, value in found.items() if value not in (None, "", {})}


def _fields(record: LogRecord, is_json: bool, received_ns: int) -> dict[str, Any]:
    at_ns = record.time_unix_nano or record.observed_time_unix_nano or received_ns
    number = record.severity_number
    body = _value(record.body)
    is_map = isinstance(body, dict)
    is_text = body is None or isinstance(body, str)
    return {
        "ts": (_EPOCH + timedelta(microseconds=at_ns // 1000)).isoformat(timespec="microseconds"),
        "severity": record.severity_text or (_NAMES[(number - 1) // 4] if 0 < number <= 24 else None),
        "severity_number": number or None,
        "message": body if is_text else None if is_map else msgspec.json.encode(body).decode(),
        "body": body if is_map else None,
        "event": record.event_name,
        "trace_id": _id(record.trace_id, is_json),
        "span_id": _id(record.span_id, is_json),
        "attributes": _object(record.attributes),
    }


def _id(data: bytes, is_json: bool) -> str:
    # OTLP writes identifiers in JSON as hexadecimal digits, where protobuf's JSON has Base64. The parser of
    # protobuf read the digits as Base64, so that encoding gives the digits again.
    return base64.b64encode(data).decode().lower() if is_json else data.hex()


def _object(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as nested objects.

    A name that is a value and the beginning of other names (`a` and `a.b`) makes the others stay flat.
    """
    found: dict[str, Any] = {}
    values = {each.key: _value(each.value) for each in attributes}
    for key in sorted(values):
        path = key.split(".", KEY_LEVELS_MAX)
        at = found
        for level, name in enumerate(path[:-1]):
            inner = at.setdefault(name, {})
            if not isinstance(inner, dict):
                at[".".join(path[level:])] = values[key]
                break
            at = inner
        else:
            at[path[-1]] = values[key]
    return found


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _object(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return getattr(value, kind)


def _answer(message: Any, content_type: str, status: int, headers: Mapping[str, str]) -> web.Response:
    from google.protobuf import json_format

    if content_type == JSON:
        text = json_format.MessageToJson(message, indent=None)
        return web.Response(text=text, status=status, headers=headers, content_type=JSON)
    return web.Response(
        body=message.SerializeToString(), status=status, headers=headers, content_type=PROTOBUF
    )
