"""All results logs of one agent.

Owns which logs are open. Plain and synchronous: one thread uses it.

    DIR/<job id hex>/  the log of a job (see log.py)

Invariants: `append` returns when its records are durable (D-17); what was only written is durable when `sync`
returns, or can be put back from what `prepare` gave (see journal.py); a log that is closed was synced.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from elfmesh.control.events import Append, LogInfo, LogRead, ReadLog
from elfmesh.control.results.journal import FILE_NAME, entries, pack, unpack
from elfmesh.control.results.log import BYTES_MAX, INTERVALS_MAX, ResultsLog
from elfmesh.control.results.segment import sync_directory
from elfmesh.errors import DiskFull, ElfError, ProtocolError, StorageError

LOGS_OPEN_MAX = 256


class ResultsLogs:
    """What the pump carries `Append`, `DropLog` and `ReadLog` out on.

    Args:
        directory: of all of them, created if need be.
        intervals_max: records kept per job.
        bytes_max: bytes kept per job.

    Raises:
        StorageError: the disk refuses, or a log is damaged.
    """

    def __init__(
        self,
        directory: Path,
        *,
        intervals_max: int = INTERVALS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._directory = directory
        self._intervals_max, self._bytes_max = intervals_max, bytes_max
        self._open: OrderedDict[bytes, ResultsLog] = OrderedDict()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            sync_directory(directory)
        except OSError as error:
            raise StorageError(f"cannot create it: {error.strerror}", where=str(directory)) from None
        self._take_over()

    def append(self, *effects: Append) -> None:
        """Add records, in this order; all are durable when this returns.

        Raises:
            DiskFull: there is no room; the same may be tried again.
            StorageError: the disk refuses.

        Cost: one sync each.
        """
        with self._refusing():
            for effect in effects:
                self._log(effect.job, effect.incarnation).append(effect.record, effect.rows)

    def prepare(self, effects: Sequence[Append]) -> list[bytes]:
        """Make their logs ready, durably, and add nothing; what `put_back` needs of each record.

        Raises:
            DiskFull, StorageError: as `append`.

        Cost: two copies of the rows; two syncs of a log that is new or has other columns now.
        """
        with self._refusing():
            for effect in effects:
                self._log(effect.job, effect.incarnation).learn(effect.record, effect.rows)
        return [pack(effect) for effect in effects]

    def write(self, effects: Sequence[Append]) -> None:
        """Add records, in this order; durable when `sync` returns.

        Raises:
            DiskFull, StorageError: as `append`.
        """
        with self._refusing():
            for effect in effects:
                self._log(effect.job, effect.incarnation).write(effect.record, effect.rows)

    def sync(self) -> None:
        """Make all that was written durable. Cost: one sync of each log written since the last time.

        Raises:
            StorageError: the disk refuses.
        """
        with self._refusing():
            for log in self._open.values():
                log.sync()

    def put_back(self, prepared: Sequence[bytes]) -> None:
        """Add again what a power cut took, durably; logs that were dropped or began anew stay as they are.

        Raises:
            StorageError: the disk refuses, or what should be put back is damaged.
        """
        try:
            for entry in map(unpack, prepared):
                if self._path(entry.job).exists():
                    log = self._log(entry.job, None)
                    if log.incarnation == entry.incarnation:
                        log.distrust()
                        log.write(*entry.result())
        except (ProtocolError, OSError) as error:
            raise StorageError(f"cannot put back results: {error}", where=str(self._directory)) from None
        self.sync()

    def drop(self, job: bytes) -> None:
        """Delete a job's log."""
        self._open.pop(job, None)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._path(job))

    def read(self, effect: ReadLog) -> LogRead:
        """A page of a job's log; a log that is not there, or of another incarnation, is an empty one."""
        if not self._path(effect.job).exists():
            return LogRead(effect.token)
        try:
            log = self._log(effect.job, None)
            if effect.incarnation not in ("", log.incarnation):
                return LogRead(effect.token)
            none: tuple[bytes, int | None] = (b"", None)
            page, following = log.read(effect.start, effect.stop, effect.limit) if effect.limit else none
            return log.describe(effect.token, page, following)
        except (OSError, ElfError) as error:
            return LogRead(effect.token, error=str(error))

    def found(self) -> tuple[LogInfo, ...]:
        """The logs on disk.

        Raises:
            StorageError: one of them is damaged.
        """
        logs = []
        for path in sorted(self._directory.iterdir()):
            with contextlib.suppress(ValueError):
                job = bytes.fromhex(path.name)
                log = self._log(job, None)
                logs.append(LogInfo(job, log.incarnation, log.latest))
        return tuple(logs)

    def _log(self, job: bytes, incarnation: str | None) -> ResultsLog:
        log = self._open.get(job)
        if log is None or (incarnation is not None and log.incarnation != incarnation):
            log = ResultsLog(
                self._path(job),
                incarnation,
                intervals_max=self._intervals_max,
                bytes_max=self._bytes_max,
            )
            self._open[job] = log
        self._open.move_to_end(job)
        while len(self._open) > LOGS_OPEN_MAX:
            _, oldest = self._open.popitem(last=False)
            oldest.sync()
        return log

    def _take_over(self) -> None:
        """What an earlier release left in a journal of its own."""
        path = self._directory / FILE_NAME
        if path.exists():
            self.put_back([*entries(path.read_bytes())])
            path.unlink()

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """What the disk refuses, in our terms."""
        try:
            yield
        except OSError as error:
            if error.errno in DiskFull.ERRNOS:
                hint = "Make room there."
                raise DiskFull("the disk is full", where=str(self._directory), hint=hint) from None
            raise StorageError(f"cannot write results: {error}", where=str(self._directory)) from None

    def _path(self, job: bytes) -> Path:
        return self._directory / job.hex()
