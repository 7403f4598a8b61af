"""Converts dead letters to JSON for `elf dead-letters`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from elfmesh.agent.runtime.engine import LateCompute
from elfmesh.control.jobs.records import counts_dict
from elfmesh.control.protocol.events import Finalise
from elfmesh.errors import DataError, ElfError
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import iso_us, rows_to_json
from elfmesh.storage.deadletters import StoredDeadLetter, read_dead_letter, window_us
from elfmesh.wire import UNREADABLE


def to_json(dead_letter: StoredDeadLetter) -> dict[str, Any]:
    """Return a dead letter as JSON; its rows are those of this agent's records alone."""
    manifest = dead_letter.manifest
    parts = tuple((payload,) if payload else () for payload in dead_letter.payloads)
    rows: list[dict[str, Any]] = []
    if any(parts):
        asked = Finalise(manifest.job_id, 0, manifest, dead_letter.interval, parts)
        try:
            rows = rows_to_json(ipc_to_table(LateCompute().finalise(asked)))
        except (*UNREADABLE, ElfError) as error:
            raise DataError(f"its partials cannot be read: {error}") from None
    start, end = window_us(dead_letter)
    return {
        "job": manifest.qualified,
        "interval": {"index": dead_letter.interval, "start": iso_us(start), "end": iso_us(end)},
        "agent": dead_letter.agent,
        "fate": "unknown" if dead_letter.unknown else "left out",
        "version": manifest.version,
        "counts": {name: count for name, count in counts_dict(dead_letter.counts).items() if count},
        "rows": rows,
    }


def letters(files: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield dead letters as JSON, oldest first within each job. DataError names a damaged file."""
    read: list[tuple[str, int, str, StoredDeadLetter]] = []
    for path, data in files.items():
        try:
            dead_letter = read_dead_letter(data)
        except DataError as error:
            raise DataError(error.message, where=path) from None
        read.append((dead_letter.manifest.qualified, dead_letter.interval, path, dead_letter))
    for _, _, path, dead_letter in sorted(read, key=lambda each: each[:3]):
        try:
            yield to_json(dead_letter)
        except DataError as error:
            raise DataError(error.message, where=path) from None
