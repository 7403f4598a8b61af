"""The part of `/metrics` for sinks: newest results, and the state of all sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from elfmesh.agent.sinks.base import Sink
from elfmesh.agent.sinks.prometheus import LastResults
from elfmesh.control.jobs.records import ResultRecord

COUNTS = {
    "written": ("counter", "Records that the sink stored."),
    "refused": ("counter", "Records that the sink will never accept."),
    "fenced": ("counter", "Records of masters that had been replaced."),
    "lost": ("counter", "Maximum number of intervals that the results log dropped before they were written."),
    "failures": ("counter", "Failed attempts to write."),
    "lag": ("gauge", "Maximum number of intervals between the newest one and the sink."),
}
RESULT: dict[str, tuple[str, Callable[[ResultRecord], float]]] = {
    "number": ("Number of the interval that is shown.", lambda record: record.index),
    "end_seconds": ("End of the interval that is shown.", lambda record: (record.end_us or 0) / 1e6),
    "completeness": ("Share of the expected agents in it.", lambda record: record.completeness),
    "fidelity": ("Share of the expected input in it.", lambda record: record.fidelity),
}


class Exposition:
    """Collector of the sinks of type prometheus, and of the state of all sinks."""

    def __init__(self, sinks: Iterable[Sink], describe: Callable[[], Mapping[str, Any]]) -> None:
        from prometheus_client import CollectorRegistry

        self._sinks = [sink for sink in sinks if isinstance(sink, LastResults)]
        self._describe = describe
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import Metric

        found: dict[str, Metric] = {}

        def add(name: str, kind: str, text: str, labels: dict[str, str], value: float) -> None:
            if name not in found:
                found[name] = Metric(name, text, kind)
            suffix = "_total" if kind == "counter" else ""
            found[name].add_sample(name + suffix, labels, value)

        for sink in self._sinks:
            for each in sink.shown:
                own = {"elf_sink": sink.name, "elf_job": each.log.job}
                for name, (text, value) in RESULT.items():
                    add(f"elf_interval_{name}", "gauge", text, own, value(each.record))
                for sample in each.samples:
                    text = "A column of the newest result."
                    add(f"elf_result_{sample.name}", "gauge", text, own | sample.labels, sample.value)
        for name, sink_reported in self._describe().items():
            for job, progress in sink_reported["jobs"].items():
                for key, (kind, text) in COUNTS.items():
                    if progress[key] is not None:
                        own = {"elf_sink": name, "elf_job": job}
                        add(f"elf_sink_{key}", kind, text, own, progress[key])
            for job, firing in sink_reported.get("firing", {}).items():
                own = {"elf_sink": name, "elf_job": job}
                add("elf_alerts_firing", "gauge", "Alerts of the job that fire.", own, firing)
        return found.values()

    def describe(self) -> list[Any]:
        return []
