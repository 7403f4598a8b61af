"""Bodies that exporters of OpenTelemetry may send, in both encodings."""

from __future__ import annotations

import json
import random

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from elfmesh.ingest.inputs.otlp import JSON, PROTOBUF, log_lines
from elfmesh.limits import LINE_BYTES_MAX
from tests.fuzz.engine import Harness
from tests.fuzz.mutate import BYTES, changed, of
from tests.ingest.inputs.test_otlp import REQUEST, nested

TEXTS = [json.dumps(REQUEST).encode(), nested(1), nested(10), b'{"resourceLogs":[{}]}', b"{}"]


def otlp() -> Harness:
    """A tag names the encoding; the rest is the body."""
    packed = [json_format.Parse(text, ExportLogsServiceRequest()).SerializeToString() for text in TEXTS]
    texts, bodies = of(TEXTS, BYTES), of(packed, BYTES)

    def generate(rng: random.Random) -> bytes:
        draw = rng.random()
        if draw < 0.4:
            return b"p" + bodies(rng)
        if draw < 0.7:
            return b"j" + texts(rng)
        value = changed(rng, json.loads(rng.choice(TEXTS)))
        return b"j" + json.dumps(value, default=str).encode("utf-8", "replace")

    def run(data: bytes) -> None:
        body = log_lines(data[1:], PROTOBUF if data[:1] == b"p" else JSON, 0)
        for line in body.lines:
            assert len(line) <= LINE_BYTES_MAX
            assert b"\n" not in line
            assert json.loads(line)["ts"]

    return Harness("otlp", "bodies of OTLP logs", generate, run)
