"""What reading costs at this agent: the sizes of its logs, and how fast it has read them.

Owns the facts from which an agent predicts the cost of a job ("logs" and "reading"). Rates are bytes per
second of processor time, because the elapsed time depends on the load of the host. A log that no job has read
yet is measured once, on its first bytes.

A file counts if a new job would read it: the path of its stream lists it, and it is not compressed. With
HISTORY, rotated and compressed files count too, and what the time index of a file spares does not. The size
of a compressed file that does not state it is estimated from its beginning, once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elfmesh.control.jobs.plan import read_plan
from elfmesh.errors import DataError
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.storage.starving import opened_file

if TYPE_CHECKING:
    from elfmesh.control.jobs.manifest import Manifest
    from elfmesh.ingest.sources.position import SourceId
    from elfmesh.ingest.sources.rotated import RotatedFile
    from elfmesh.ingest.sources.stream_times import StreamTimes
    from elfmesh.ingest.sources.time_index import WantedTimes

log = logging.getLogger("elf.agent")

SAMPLE_BYTES = 256 << 10
"""Size of a sample: a few milliseconds of parsing."""

MEASURED_BYTES = 1 << 20
"""Reads below it are mostly the fixed cost of polls, which a backlog does not have."""

FILES_MAX = 4096
"""Files whose size is kept, so that a compressed one is sampled once."""

READS, SAMPLE = "reads", "sample"


@dataclass(slots=True)
class ReadRate:
    """Sums over the polls of a path that have read something: bytes, lines, seconds of processor time."""

    nbytes: int = 0
    lines: int = 0
    cpu_s: float = 0.0

    def add(self, nbytes: int, lines: int, cpu_s: float) -> None:
        if nbytes:
            self.nbytes += nbytes
            self.lines += lines
            self.cpu_s += cpu_s


class LogCosts:
    """The sizes and read rates of the streams of one agent.

    Args:
        streams: the streams by name.
        cores: what one reader may use of a processor.
        times: returns the time indexes of a stream; None: it has none.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamConfig],
        cores: float = 1.0,
        times: Callable[[str], StreamTimes | None] = lambda _stream: None,
    ) -> None:
        self._streams, self._cores, self._times = streams, cores, times
        self._samples: dict[str, ReadRate] = {}
        self._unfolded: dict[tuple[SourceId, int], tuple[int, bool]] = {}

    def sizes(self, manifest: Manifest | None = None) -> dict[str, Any]:
        """Return, by stream, the number of files that a new job would read, and the bytes, at most.

        "estimated" has the bytes of those files that do not state how many they have. `manifest` is the job,
        which may take a range of times; None: a job that takes all.
        """
        names = self._streams if manifest is None else read_plan(manifest.text).streams
        return {name: self._size(name, manifest) for name in names if name in self._streams}

    def _size(self, name: str, manifest: Manifest | None) -> dict[str, Any]:
        resumed = manifest is not None and manifest.resumed
        files = _files(self._streams[name], resumed=resumed)
        wanted = times = None
        if manifest is not None and files:
            from elfmesh.ingest.worker.beginning import wanted_times

            wanted = wanted_times([manifest], name)
            times = None if wanted is None else self._times(name)
        if not resumed and times is None:
            return {"files": len(files), "bytes": sum(each.size for each in files), "estimated": 0}
        found = [(*self._whole(each), each) for each in files]
        sizes = [(_bytes_of(each, whole, times, wanted), guessed) for whole, guessed, each in found]
        return {
            "files": len(files),
            "bytes": sum(size for size, _ in sizes),
            "estimated": sum(size for size, guessed in sizes if guessed),
        }

    def _whole(self, each: RotatedFile) -> tuple[int, bool]:
        """Return how many bytes a file has when it is read, and whether this is an estimate."""
        from elfmesh.ingest.sources.contents import expected_size

        key = (each.id, each.size)
        if key not in self._unfolded:
            if len(self._unfolded) >= FILES_MAX:
                self._unfolded.clear()
            self._unfolded[key] = expected_size(each.path, each.size)
        return self._unfolded[key]

    def reading(self, rates: Mapping[str, ReadRate], manifest: Manifest | None = None) -> dict[str, Any]:
        """Return the sizes by stream, and what was measured; `rates` are those of all reads, by path."""
        found = {}
        for name, size in self.sizes(manifest).items():
            rate, measured_on = rates.get(self._streams[name].path, ReadRate()), READS
            if rate.nbytes < MEASURED_BYTES:
                rate, measured_on = self._sampled(name), SAMPLE
            found[name] = {
                **size,
                "read_bytes": rate.nbytes,
                "read_lines": rate.lines,
                "cpu_seconds": rate.cpu_s,
                "cores": self._cores,
                "measured_on": measured_on,
            }
        return found

    def _sampled(self, name: str) -> ReadRate:
        known = self._samples.get(name, ReadRate())
        if not known.nbytes:  # the log may have been empty
            known = self._samples[name] = _measured(name, self._streams[name])
        return known


def _measured(name: str, config: StreamConfig) -> ReadRate:
    """Parse the first lines of the largest file of a stream, twice, because the first time loads code."""
    from elfmesh.ingest.stream_formats import format_of

    files = _files(config)
    if not files:
        return ReadRate()
    path = max(files, key=lambda each: each.size).path
    try:
        with opened_file(Path(path), "rb") as file:
            data = file.read(SAMPLE_BYTES)
    except OSError:  # no job can read it either
        return ReadRate()
    data = data[: data.rfind(b"\n") + 1]
    try:
        form = format_of(config, name=name)
        columns = ("ts",) if form.static_schema is None else tuple(form.static_schema.names)
        for _ in range(2):
            began = time.thread_time()
            parsed = form.parser(path).parse(data, columns)
            for column in columns:
                parsed.arrays[column]
            rate = ReadRate(len(data), parsed.lines, time.thread_time() - began)
    except Exception:  # no content of a log may end the agent
        log.exception("a block of %s from byte %d breaks its parser", path, 0)
        return ReadRate()
    return rate


def _files(config: StreamConfig, *, resumed: bool = False) -> list[RotatedFile]:
    """Return the files that a new job would read; `resumed`: one with HISTORY."""
    from elfmesh.ingest.sources.contents import is_compressed
    from elfmesh.ingest.sources.surroundings import NeighbourFiles

    if not config.path or (config.read_from == "end" and not resumed):
        return []
    around = NeighbourFiles(config.path)
    listed = around.listed()
    if not resumed:
        return [each for each in listed.values() if not is_compressed(each.path)]
    nearby = around.nearby(0.0, at_once=True)
    return [*listed.values(), *(
        each for identity, each in nearby.items() if identity not in listed and around.is_rotated(each.path)
    )]  # fmt: skip


def _bytes_of(each: RotatedFile, whole: int, times: StreamTimes | None, wanted: WantedTimes | None) -> int:
    """Return how many bytes a reader of a range takes of a file of `whole` bytes, at most."""
    from elfmesh.ingest.sources.blocks import BLOCK_BYTES, LineCutter
    from elfmesh.ingest.sources.file import open_file

    if times is None or wanted is None:
        return whole
    try:
        file = open_file(each.path, each.id, LineCutter)
        try:
            file.learn_head()
            return max(0, whole - times.spared(file, wanted, BLOCK_BYTES))
        finally:
            file.close()
    except (OSError, DataError):  # a reader of it reports why
        return whole
