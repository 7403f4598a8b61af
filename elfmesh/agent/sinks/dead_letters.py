"""Records that a sink refused permanently, stored on the agent's disk as JSON with the reason.

  DIRECTORY/SINK/NAMESPACE.NAME/INCARNATION/INTERVAL.json

Beyond the budget, the oldest files are deleted and counted. See guarantees D-17.
"""

from __future__ import annotations

from pathlib import Path

from elfmesh.agent.sinks.base import LogName, SinkItem
from elfmesh.control.jobs.records import to_json
from elfmesh.errors import DiskFull, ProtocolError
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.storage import DiskStorage
from elfmesh.sums import json_with_blank_sum

BYTES_MAX = 64 << 20
"""Maximum size of all dead letters of a sink."""


class SinkDeadLetters:
    """Dead letters of one sink, limited to `bytes_max` together; the newest one is kept whatever its size."""

    def __init__(self, storage: DiskStorage, sink: str, *, bytes_max: int = BYTES_MAX) -> None:
        self._storage, self._sink, self._bytes_max = storage, sink, bytes_max
        self.dropped = 0
        found = [(self._path(name), name) for name in storage.names(f"{sink}/")]
        files = sorted((path.stat().st_mtime_ns, name, path.stat().st_size) for path, name in found)
        self._sizes = {name: size for _, name, size in files}

    def keep(self, log: LogName, item: SinkItem, reason: str) -> None:
        """Write a dead letter durably. On a full disk, the letter is dropped and counted."""
        record = item.record
        try:
            shown = to_json(record, ipc_to_table(item.rows))
        except ProtocolError:
            shown = to_json(record, ipc_to_table(b""))
        data = json_with_blank_sum(encode_json({"refused": reason, "incarnation": log.incarnation, **shown}))
        job = log.job.replace("/", ".")
        name = f"{self._sink}/{job}/{log.incarnation}/{record.index}.json"
        try:
            self._storage.write(name, data)
        except DiskFull:
            self.dropped += 1
            return
        self._sizes.pop(name, None)
        self._sizes[name] = len(data)
        while sum(self._sizes.values()) > self._bytes_max and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            self._storage.delete(oldest)
            self.dropped += 1

    def describe(self) -> dict[str, int]:
        sizes = list(self._sizes.values())
        return {"files": len(sizes), "bytes": sum(sizes), "dropped": self.dropped}

    def _path(self, name: str) -> Path:
        return self._storage.root / name
