"""Spans of an interval over agents, at a collector that is really asked."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from elfmesh.ingest import traces
from elfmesh.ingest.traces import ids_of
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import Traffic

JOB = "CREATE JOB t.traced AS SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP."""

    spans: ClassVar[list[tuple[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        for of_agent in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {each.key: each.value.string_value for each in of_agent.resource.attributes}
            for scope in of_agent.scope_spans:
                Collector.spans += [(about["service.instance.id"], span) for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.spans = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_interval_has_one_trace_wherever_it_is_named() -> None:
    trace, closing = ids_of(b"job", 7)
    assert (trace, closing) == ids_of(b"job", 7)
    assert len({*ids_of(b"job", 7), *ids_of(b"job", 8), *ids_of(b"joc", 7)}) == 6
    assert 0 < trace < 2**128
    assert 0 < closing < 2**64


def test_without_a_collector_nothing_is_on() -> None:
    traces.span("seal", b"job", 1, 0)
    assert not traces.is_on()


def test_the_spans_of_two_agents_meet_in_the_trace_of_an_interval(
    tmp_path: Path, collector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    with Fleet(tmp_path) as fleet:
        fleet.start(2, options=",format=json,idle=300ms")
        fleet[0].apply(JOB)
        with Traffic(fleet, [0, 1], every_s=0.05):
            found = eventually(complete, what="the spans of an interval from both agents")
    names = [span.name for _, span in found]
    assert names.count("elf.close") == 1
    assert set(names) == {"elf.seal", "elf.send", "elf.merge", "elf.finalise", "elf.close"}
    (root,) = [span for _, span in found if span.name == "elf.close"]
    assert root.parent_span_id == b""
    assert all(span.parent_span_id == root.span_id for _, span in found if span is not root)
    assert len({span.span_id for _, span in found}) == len(found)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for _, span in found)
    assert len(found) < 10, "no spans per record"


def complete() -> list[tuple[str, Any]]:
    """The spans of the first interval that both agents sealed and the master closed."""
    by_trace: dict[bytes, list[tuple[str, Any]]] = defaultdict(list)
    for agent, span in list(Collector.spans):
        by_trace[span.trace_id].append((agent, span))
    for found in by_trace.values():
        sealed = {agent for agent, span in found if span.name == "elf.seal"}
        names = {span.name for _, span in found}
        if len(sealed) == 2 and {"elf.send", "elf.merge", "elf.finalise", "elf.close"} <= names:
            return found
    return []
