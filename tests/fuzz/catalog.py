"""Every harness by name; what it needs is imported when it is built."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.engine import Harness

_WHERE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "frames": ("wire_targets", "frames", ()),
    "handshake": ("wire_targets", "handshake", ()),
    **{f"messages-{room}": ("wire_targets", "messages", (room,)) for room in ("overlay", "srt", "control")},
    "cores": ("core_targets", "cores", ()),
    "votes": ("vote_targets", "votes", ()),
    "parts": ("part_targets", "parts", ()),
    "early-states": ("delivery_targets", "early_states", ()),
    "posts": ("delivery_targets", "posts", ()),
    "partials": ("state_targets", "partials", ()),
    "checkpoints": ("state_targets", "checkpoints", ()),
    "frame-logs": ("disk_targets", "frame_logs", ()),
    "results-logs": ("disk_targets", "results_logs", ()),
    "identities": ("disk_targets", "identities", ()),
    "time-indexes": ("index_targets", "time_indexes", ()),
    "elf-ql": ("text_targets", "queries", ()),
    "configurations": ("text_targets", "configurations", ()),
    "settings": ("text_targets", "settings", ()),
    "annotations": ("annotation_targets", "files", ()),
    "programs": ("annotation_targets", "programs", ()),
    "topologies": ("replication_targets", "topologies", ()),
    "chains": ("replication_targets", "chains", ()),
    **{
        f"lines-{name}": ("line_targets", "lines", (name,))
        for name in (
            *("json", "combined", "common", "logfmt", "csv", "csv-header", "regex", "auto"),
            *("syslog", "nginx-error", "apache-error", "timed", "grok", "cri", "docker"),
            *("cef", "leef", "kv", "w3c", "journal"),
        )
    },
    "otlp": ("otlp_targets", "otlp", ()),
    "http": ("http_targets", "http", ()),
}
NAMES = tuple(_WHERE)


def build(name: str) -> Harness:
    """The harness of a name. Cost: its imports and examples; `cores` simulates a fleet for some seconds."""
    module, function, arguments = _WHERE[name]
    harness: Harness = getattr(import_module(f"tests.fuzz.{module}"), function)(*arguments)
    assert harness.name == name
    return harness
