"""`/metrics`: the metrics of an agent in the text format of Prometheus.

The values come from the agent's description (`/v1/agent`) and from `timings`; prometheus_client writes them.
Labels are names of streams, jobs, buckets and counters, never text of a log. The `JOBS_MAX` most expensive
jobs have labels of their own; all others are one sum.
"""

from __future__ import annotations

import asyncio
import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from elfmesh.control.jobs.load import days_left, is_insecure
from elfmesh.errors import NotInstalled
from elfmesh.ingest.memory import rss_bytes
from elfmesh.ingest.timings import BOUNDS_S, NAMES, TIMINGS, observe

JOBS_MAX = 500
OTHERS = "(others)"
LOOK_S = 1.0

GAUGE, COUNTER = "gauge", "counter"
METRICS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "elf_agent_info": (GAUGE, "1, with the agent's name and version.", ("agent", "version")),
    "elf_agent_insecure_network": (
        GAUGE,
        "1 if --dangerously-insecure-network admits peers without certificates.",
        (),
    ),
    "elf_agent_cpu_seconds": (COUNTER, "Processor time of the process.", ()),
    "elf_agent_cpu_limit_cores": (GAUGE, "limits.cpu_percent in cores; 0: no limit.", ()),
    "elf_agent_cpu_waited_seconds": (
        COUNTER,
        "Time that reading waited for processor time within its limit.",
        (),
    ),
    "elf_agent_jobs_slowed": (GAUGE, "Jobs that the scheduler has slowed down.", ()),
    "elf_agent_resident_bytes": (GAUGE, "Resident memory of the process.", ()),
    "elf_agent_open_descriptors": (GAUGE, "Open file descriptors.", ()),
    "elf_agent_descriptors_limit": (GAUGE, "Limit of open file descriptors.", ()),
    "elf_agent_threads": (GAUGE, "Threads of the process.", ()),
    "elf_agent_open_intervals_bytes": (GAUGE, "Memory of open intervals.", ()),
    "elf_agent_open_intervals_limit_bytes": (GAUGE, "Limit of the memory of open intervals.", ()),
    "elf_agent_spilled_bytes": (GAUGE, "Bytes of open intervals on disk.", ()),
    "elf_agent_frame_log_bytes": (GAUGE, "Bytes of sealed and not closed contributions on disk.", ()),
    "elf_agent_frame_log_limit_bytes": (GAUGE, "Limit of the frame log in bytes; 0: no limit.", ()),
    "elf_agent_queue_length": (GAUGE, "Number of waiting items.", ("queue",)),
    "elf_agent_waits_for_disk": (COUNTER, "Writes and messages that a full disk delayed.", ("what",)),
    "elf_agent_clock_skew_seconds": (
        GAUGE,
        "How far the clock is ahead of the median of its peers' clocks.",
        (),
    ),
    "elf_agent_certificate_days": (GAUGE, "Days until the certificate of the agent expires.", ()),
    "elf_agent_transport": (COUNTER, "Counters of connections: messages, losses, refusals.", ("what",)),
    "elf_agent_connections": (GAUGE, "Open connections to other agents.", ()),
    "elf_agent_overlay": (GAUGE, "Counters and sizes of the overlay.", ("what",)),
    "elf_agent_trees": (GAUGE, "Counters and sizes of the reducer trees.", ("what",)),
    "elf_agent_control": (GAUGE, "Counters and sizes of the control plane.", ("what",)),
    "elf_agent_jobs_without_majority": (
        GAUGE,
        "Jobs that this agent leads or should lead, and most of whose voters do not answer.",
        (),
    ),
    "elf_agent_lost_votes_jobs": (GAUGE, "Jobs that need a vote which this agent has lost.", ()),
    "elf_agent_stream_lines": (COUNTER, "Lines read of a stream.", ("stream",)),
    "elf_agent_stream_bytes": (COUNTER, "Bytes read of a stream.", ("stream",)),
    "elf_agent_stream_polls": (COUNTER, "Number of polls of a stream.", ("stream",)),
    "elf_agent_stream_problems": (GAUGE, "Files of a stream that cannot be read.", ("stream",)),
    "elf_job_cpu_seconds": (COUNTER, "Processor time of a job on this agent.", ("job",)),
    "elf_job_lines": (COUNTER, "Lines passed to a job.", ("job",)),
    "elf_job_records": (COUNTER, "Records by bucket.", ("job", "bucket")),
    "elf_job_open_bytes": (GAUGE, "Memory of the job's open intervals.", ("job",)),
    "elf_job_memory_share_bytes": (
        GAUGE,
        "Limit of the job's memory while other jobs need memory; 0: no limit.",
        ("job",),
    ),
    "elf_job_memory_yields": (COUNTER, "How often the job gave up memory before other jobs.", ("job",)),
    "elf_job_held_bytes": (GAUGE, "Bytes of the job's sealed and not closed contributions.", ("job",)),
    "elf_job_ingest_lag_seconds": (GAUGE, "How far the job's watermark is behind the clock.", ("job",)),
    "elf_job_cpu_limit_cores": (GAUGE, "Limit of the scheduler in cores; 0: no limit.", ("job",)),
    "elf_job_tentative_overlap": (
        GAUGE,
        "Share of the final rows that tentative records had; the job's master reports it.",
        ("job",),
    ),
    "elf_job_kept_if_lost": (
        GAUGE,
        "Least share of what was read that standbys keep if a failure domain is lost; the master reports it.",
        ("job",),
    ),
    "elf_standby_held_bytes": (GAUGE, "Open windows that the agent holds in memory for other agents.", ()),
    "elf_standby_limit_bytes": (GAUGE, "limits.standby in bytes.", ()),
    "elf_standby_refused": (COUNTER, "Open windows that the agent has refused to hold.", ()),
    "elf_standby_lag_seconds": (
        GAUGE,
        "Age of the oldest record that the standby of the agent's open windows may lack.",
        ("job", "standby"),
    ),
    "elf_standby_shipped_bytes": (
        COUNTER,
        "Bytes shipped to the standbys of a job's open windows.",
        ("job",),
    ),
    "elf_job_waits": (
        GAUGE,
        "1 while the job does not read: it is paused, or too much is not closed.",
        ("job",),
    ),
}
"""Kind, help text and labels of each metric. Histograms are `elf_agent_<name>_seconds` of `timings.NAMES`."""

Samples = list[tuple[str, dict[str, str], float]]


class AgentPage:
    """Writes `/metrics`. `results` writes the metrics of sinks of type prometheus; None: no such sinks."""

    def __init__(
        self,
        describe: Callable[[], Mapping[str, Any]],
        queues: Callable[[], Mapping[str, int]],
        results: Callable[[], bytes] | None = None,
    ) -> None:
        self._describe, self._queues, self._results = describe, queues, results
        self._timer: asyncio.TimerHandle | None = None

    def watch_loop(self) -> None:
        """Measure the lag of the event loop once a second until `close`."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(due := loop.time() + LOOK_S, self._looked, due)

    def _looked(self, due: float) -> None:
        observe("loop_lag", asyncio.get_running_loop().time() - due)
        self.watch_loop()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def __call__(self) -> Callable[[], bytes]:
        """Collect the current values in the event loop. The returned function writes them in a thread."""
        return partial(self._text, samples_of(self._describe(), self._queues(), time.time()))

    def _text(self, samples: Samples) -> bytes:
        try:
            text = write(samples)
        except ImportError:
            hint = "Install it for the agent and start it again: pip install 'elfmesh[prometheus]'."
            raise NotInstalled("metrics need prometheus-client", hint=hint) from None
        return text + (self._results() if self._results is not None else b"")


def samples_of(reported: Mapping[str, Any], queues: Mapping[str, int], now_s: float) -> Samples:
    """Convert the description of an agent to samples of `METRICS`. Cost: one step per sample."""
    found: Samples = []

    def add(name: str, value: float | None, **labels: str) -> None:
        if value is not None:
            found.append((name, labels, float(value)))

    processor, memory, frames = reported["processor"], reported["memory"], reported["frame_log"]
    add("elf_agent_info", 1, agent=str(reported["name"]), version=str(reported["version"]))
    add("elf_agent_insecure_network", is_insecure(reported))
    add("elf_agent_cpu_seconds", processor.get("cpu_seconds", time.process_time()))
    add("elf_agent_cpu_limit_cores", processor.get("limit_cores") or 0)
    add("elf_agent_cpu_waited_seconds", processor.get("waited_seconds", 0))
    add("elf_agent_jobs_slowed", len(processor.get("slowed", ())))
    _add_process(add)
    add("elf_agent_open_intervals_bytes", memory.get("open_intervals_bytes"))
    add("elf_agent_open_intervals_limit_bytes", memory.get("limit_bytes"))
    add("elf_agent_spilled_bytes", memory.get("spilled_bytes"))
    add("elf_agent_frame_log_bytes", frames["bytes"])
    add("elf_agent_frame_log_limit_bytes", frames["limit_bytes"] or 0)
    add("elf_agent_clock_skew_seconds", reported["skew_seconds"])
    add("elf_agent_certificate_days", days_left(reported["security"], now_s))
    votes = reported["votes"]
    add("elf_agent_jobs_without_majority", len(votes["without_majority"]))
    add("elf_agent_lost_votes_jobs", len(votes["lost"]["jobs"]) if votes["lost"] else 0)
    for what, value in reported["waits_for_disk"].items():
        add("elf_agent_waits_for_disk", value, what=what)
    for queue, length in queues.items():
        add("elf_agent_queue_length", length, queue=queue)
    for what, value in reported["transport"].items():
        if what == "connections":
            add("elf_agent_connections", value)
        else:
            add("elf_agent_transport", value, what=what)
    for room in ("overlay", "tree", "control"):
        for what, value in reported[f"{room}_stats"].items():
            if isinstance(value, int | float):
                add(f"elf_agent_{'trees' if room == 'tree' else room}", value, what=what)
    for stream, each in reported["sources"].items():
        add("elf_agent_stream_lines", each["lines"], stream=stream)
        add("elf_agent_stream_bytes", each["bytes"], stream=stream)
        add("elf_agent_stream_polls", each["polls"], stream=stream)
        add("elf_agent_stream_problems", len(each["problems"]), stream=stream)
    for job, overlap in sorted(reported.get("tentative", {}).items())[:JOBS_MAX]:
        add("elf_job_tentative_overlap", overlap, job=job)
    for job, kept in sorted(reported.get("kept_if_lost", {}).items())[:JOBS_MAX]:
        add("elf_job_kept_if_lost", kept, job=job)
    _add_standbys(
        add, reported.get("standbys", {"held_bytes": 0, "limit_bytes": 0, "refused": 0, "jobs": {}})
    )
    for job, each in _shown_jobs(reported["job_costs"]):
        _add_job(add, job, each, now_s)
    return found


def _add_standbys(add: Callable[..., None], standbys: Mapping[str, Any]) -> None:
    add("elf_standby_held_bytes", standbys["held_bytes"])
    add("elf_standby_limit_bytes", standbys["limit_bytes"])
    add("elf_standby_refused", standbys["refused"])
    for job, each in sorted(standbys["jobs"].items())[:JOBS_MAX]:
        add("elf_standby_shipped_bytes", each["shipped_bytes"], job=job)
        if each["standby"] is not None:
            add("elf_standby_lag_seconds", each["lag_seconds"], job=job, standby=each["standby"])


def _add_process(add: Callable[..., None]) -> None:
    if Path("/proc/self/fd").exists():
        add("elf_agent_resident_bytes", rss_bytes(os.getpid()))
        add("elf_agent_open_descriptors", sum(1 for _ in Path("/proc/self/fd").iterdir()))
    add("elf_agent_descriptors_limit", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    add("elf_agent_threads", threading.active_count())


def _add_job(add: Callable[..., None], job: str, each: Mapping[str, Any], now_s: float) -> None:
    add("elf_job_cpu_seconds", each["cpu_seconds"], job=job)
    add("elf_job_lines", each["lines"], job=job)
    for bucket, number in each["counts"].items():
        add("elf_job_records", number, job=job, bucket=bucket)
    add("elf_job_open_bytes", each["open_bytes"], job=job)
    add("elf_job_memory_share_bytes", each.get("memory_share_bytes") or 0, job=job)
    add("elf_job_memory_yields", each.get("memory_yielded") or 0, job=job)
    add("elf_job_held_bytes", each["held_bytes"], job=job)
    if each.get("watermark_seconds") is not None:
        add("elf_job_ingest_lag_seconds", max(0.0, now_s - each["watermark_seconds"]), job=job)
    add("elf_job_cpu_limit_cores", each.get("cores_max") or 0, job=job)
    add("elf_job_waits", bool(each.get("held")), job=job)


def _shown_jobs(jobs: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    ordered = sorted(jobs.items(), key=lambda item: (-item[1]["cpu_seconds"], item[0]))
    yield from ordered[:JOBS_MAX]
    rest = [each for _, each in ordered[JOBS_MAX:]]
    if rest:
        sums: dict[str, Any] = {
            key: sum(each[key] for each in rest)
            for key in ("cpu_seconds", "lines", "open_bytes", "held_bytes")
        }
        names = dict.fromkeys(bucket for each in rest for bucket in each["counts"])
        buckets = {bucket: sum(each["counts"].get(bucket, 0) for each in rest) for bucket in names}
        yield OTHERS, {**sums, "counts": buckets}


def write(samples: Samples) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import HistogramMetricFamily, Metric

    class Once:
        """Collector of values that are already known."""

        def collect(self) -> Iterable[Any]:
            families: dict[str, Metric] = {}
            for name, labels, value in samples:
                kind, text, _ = METRICS[name]
                family = families.setdefault(name, Metric(name, text, kind))
                family.add_sample(f"{name}_total" if kind == COUNTER else name, labels, value)
            yield from families.values()
            for name, text in NAMES.items():
                held, total, buckets = TIMINGS[name], 0, []
                for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), held.counts, strict=True):
                    total += count
                    buckets.append((bound, total))
                histogram = HistogramMetricFamily(f"elf_agent_{name}_seconds", text)
                histogram.add_metric([], buckets, held.sum_s)
                yield histogram

        def describe(self) -> list[Any]:
            return []

    registry = CollectorRegistry()
    registry.register(Once())
    return generate_latest(registry)
