"""Dead letters: contributions of this agent to intervals that were closed without it (D-15).

One file per job, incarnation and interval under `dead-letter/NAMESPACE.NAME/`, in the frame format of the
frame log: a header, then the partials, which `elf dead-letters` finalises on demand. Beyond the budget, the
oldest intervals are deleted and counted. Only the "store" lane uses this module, except for `describe`.
"""

from __future__ import annotations

import logging

import msgspec
from sortedcontainers import SortedDict

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol.events import DeadLetter
from elfmesh.errors import DataError, DiskFull, ElfError
from elfmesh.storage.failpoints import reach
from elfmesh.storage.framescan import pack, scan
from elfmesh.storage.storage import MemoryFile, Storage
from elfmesh.wire import UNREADABLE

log = logging.getLogger("elf.agent")
DIRECTORY = "dead-letter"
SUFFIX = ".partial"
BYTES_MAX = 64 << 20
"""Maximum size of all dead letters of an agent: some thousand intervals of a thousand groups each."""


class StoredDeadLetter(msgspec.Struct, frozen=True, array_like=True):
    """Content of a file.

    `manifest` contains the job's text, which suffices for finalising. `payloads` contains one partial per
    partition, b"" without rows. If `unknown` is set, no agent could say whether the interval was closed
    without this agent.
    """

    manifest: Manifest
    agent: str
    interval: int
    counts: tuple[int, ...]
    payloads: tuple[bytes, ...]
    unknown: bool = False


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(StoredDeadLetter)


class DeadLetters:
    """Dead letters of one agent, limited to `bytes_max` together. The newest one is always kept."""

    def __init__(self, storage: Storage, agent: str, *, bytes_max: int = BYTES_MAX) -> None:
        self._storage, self._agent, self._bytes_max = storage, agent, bytes_max
        self._files: SortedDict[tuple[int, str], int] = SortedDict()
        self.nbytes = self.dropped = 0
        for name in storage.names(f"{DIRECTORY}/"):
            data = storage.read(name) or b""
            try:
                self._add(_end_us(read_dead_letter(data)), name, len(data))
            except DataError:
                log.warning("%s is damaged: left alone", name)

    def write(self, effect: DeadLetter) -> None:
        """Store a dead letter durably; replaces one of the same interval.

        On a full disk it is dropped and counted, because its records are counted as `expired` in any case.
        """
        manifest = effect.manifest
        dead_letter = StoredDeadLetter(
            manifest, self._agent, effect.interval, effect.counts, effect.payloads, effect.unknown
        )
        job = f"{manifest.namespace}.{manifest.name}"
        name = f"{DIRECTORY}/{job}/{effect.interval}.{manifest.incarnation}{SUFFIX}"
        data = pack(_PACK.encode(dead_letter))
        reach("letter")
        try:
            self._storage.write(name, data)
        except DiskFull as error:
            self.dropped += 1
            log.error("a dead letter of interval %d of %s is lost: %s", effect.interval, job, error)
            return
        log.warning("interval %d of %s was closed without this agent: %s", effect.interval, job, name)
        self._add(_end_us(dead_letter), name, len(data))
        while self.nbytes > self._bytes_max and len(self._files) > 1:
            (_, oldest), size = self._files.popitem(0)
            self._storage.delete(oldest)
            self.nbytes -= size
            self.dropped += 1

    def _add(self, end_us: int, name: str, size: int) -> None:
        self.nbytes += size - self._files.get((end_us, name), 0)
        self._files[end_us, name] = size

    def describe(self) -> dict[str, int]:
        return {"files": len(self._files), "bytes": self.nbytes, "dropped": self.dropped}


def read_dead_letter(data: bytes) -> StoredDeadLetter:
    file = MemoryFile()
    file.append(data)
    found = [each.body for each in scan(file, len(data))]
    if len(found) != 1 or found[0] is None:
        raise DataError("not a dead letter, or a damaged one")
    try:
        dead_letter = _UNPACK.decode(found[0])
        _end_us(dead_letter)
    except (*UNREADABLE, ElfError) as error:
        raise DataError(f"not a dead letter: {error}") from None
    if len(dead_letter.payloads) != dead_letter.manifest.partitions:
        raise DataError("not a dead letter: it does not have one partial per partition")
    return dead_letter


def window_us(dead_letter: StoredDeadLetter) -> tuple[int, int]:
    """Return start and end of the interval in microseconds. DataError: the job has no window."""
    window = ql.parse(dead_letter.manifest.text).window
    if window is None:
        raise DataError("its job has no intervals")
    start = dead_letter.interval * window.slide_us
    return start, start + window.size_us


def _end_us(dead_letter: StoredDeadLetter) -> int:
    return window_us(dead_letter)[1]
