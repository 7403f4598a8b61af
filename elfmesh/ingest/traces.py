"""OpenTelemetry spans of an interval's way through the agents, if a collector is configured (extra `otel`).

Agents do not pass trace contexts to each other. The trace of an interval, and the span of its closing, which
is the parent of all others, have ids that are hashes of job and number. Spans are per interval, never per
record. They are queued up to a limit and dropped beyond it; no interval waits for a collector.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import AsyncExitStack
from typing import Any

from elfmesh.errors import ConfigError
from elfmesh.machine import Message
from elfmesh.srt.messages import SegmentUp
from elfmesh.version import VERSION

SETTINGS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own settings; tracing is on if one of them is set."""

CLOSE = "close"
_traces: Traces | None = None


def begin(agent: str, stack: AsyncExitStack) -> None:
    """Start exporting, until the stack ends, if a collector is configured."""
    global _traces
    if not any(os.environ.get(name) for name in SETTINGS):
        return
    try:
        _traces = Traces(agent)
    except ImportError:
        raise ConfigError(
            "tracing needs OpenTelemetry", where=SETTINGS[1], hint="pip install 'elfmesh[otel]'"
        ) from None
    stack.callback(end)


def end() -> None:
    global _traces
    traces, _traces = _traces, None
    if traces is not None:
        traces.close()


def sent(message: Message) -> None:
    """Record that a message with contributions of intervals was sent."""
    if _traces is not None and isinstance(message, SegmentUp):
        for entry in message.segment.entries:
            span("send", message.tree, entry.interval, time.time_ns())


def span(what: str, job: bytes, interval: int, began_ns: int) -> None:
    """Record work for an interval from `began_ns` (wall clock) until now. Thread-safe."""
    if _traces is not None:
        _traces.span(what, job, interval, began_ns, time.time_ns())


def trees_of(job: bytes, trees: tuple[bytes, ...]) -> None:
    """Map the trees in which a job's intervals are reduced to the job.

    An agent that only reduces for others does not know a job's further trees (PARTITIONS), so the spans of
    those trees are in traces of their own.
    """
    if _traces is not None:
        _traces.jobs.update(dict.fromkeys(trees, job))


def is_on() -> bool:
    return _traces is not None


def ids_of(job: bytes, interval: int) -> tuple[int, int]:
    """Return the ids of an interval's trace and of the span of its closing."""
    digest = hashlib.sha256(b"elfmesh interval" + job + str(interval).encode()).digest()
    return int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")


class Traces:
    """Exporter of one agent. Raises ImportError without the extra."""

    def __init__(self, agent: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        about = {
            "service.name": "elfmesh",
            "service.version": VERSION,
            "service.instance.id": agent,
        }
        self._resource = Resource.create(about)
        self._processor = BatchSpanProcessor(OTLPSpanExporter())
        self.jobs: dict[bytes, bytes] = {}

    def span(self, what: str, job: bytes, interval: int, began_ns: int, ended_ns: int) -> None:
        """Queue a span for export. Cost: one operation of a queue."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, TraceFlags
        from opentelemetry.trace.status import Status, StatusCode

        job = self.jobs.get(job, job)
        trace, closing = ids_of(job, interval)
        own = closing if what == CLOSE else int.from_bytes(os.urandom(8), "big") or 1
        sampled = TraceFlags(TraceFlags.SAMPLED)
        attributes: dict[str, Any] = {"elf.job": job.hex(), "elf.interval": interval}
        self._processor.on_end(
            ReadableSpan(
                f"elf.{what}",
                context=SpanContext(trace, own, is_remote=False, trace_flags=sampled),
                parent=None
                if what == CLOSE
                else SpanContext(trace, closing, is_remote=True, trace_flags=sampled),
                resource=self._resource,
                attributes=attributes,
                status=Status(StatusCode.OK),
                start_time=min(began_ns, ended_ns),
                end_time=ended_ns,
            )
        )

    def close(self) -> None:
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK declares nothing
