"""All results logs of one agent, and the journal that several records at once are durable in.

Owns which logs are open. Plain and synchronous: one thread uses it.

    DIR/<job id hex>/  the log of a job (see log.py)
    DIR/journal        records that logs may not have durably yet (see journal.py)

Invariants: `append` returns when its records are durable (D-17), one in its log, several in the journal; a
log whose records are only in the journal is synced before the journal is emptied.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from elfmesh.control.events import Append, LogInfo, LogRead, ReadLog
from elfmesh.control.results.journal import FILE_NAME, Entry, Journal
from elfmesh.control.results.log import BYTES_MAX, INTERVALS_MAX, ResultsLog
from elfmesh.control.results.segment import sync_directory
from elfmesh.errors import DiskFull, ElfError, StorageError

JOURNAL_BYTES_MAX = 8 << 20
"""A journal beyond this size is emptied: what it held is synced where it belongs."""

LOGS_OPEN_MAX = 256


class ResultsLogs:
    """What the pump carries `Append`, `DropLog` and `ReadLog` out on.

    Args:
        directory: of all of them, created if need be.
        intervals_max: records kept per job.
        bytes_max: bytes kept per job.
        journal_bytes_max: see JOURNAL_BYTES_MAX.

    Raises:
        StorageError: the disk refuses, or a log is damaged.
    """

    def __init__(
        self,
        directory: Path,
        *,
        intervals_max: int = INTERVALS_MAX,
        bytes_max: int = BYTES_MAX,
        journal_bytes_max: int = JOURNAL_BYTES_MAX,
    ) -> None:
        self._directory = directory
        self._intervals_max, self._bytes_max = intervals_max, bytes_max
        self._journal_bytes_max = journal_bytes_max
        self._half_done = False
        self._open: OrderedDict[bytes, ResultsLog] = OrderedDict()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._journal = Journal(directory / FILE_NAME)
            sync_directory(directory)
            self._put_back()
        except OSError as error:
            raise StorageError(f"cannot create it: {error.strerror}", where=str(directory)) from None

    def append(self, *effects: Append) -> None:
        """Add records, in this order; all are durable when this returns.

        Raises:
            DiskFull: there is no room; the same may be tried again.
            StorageError: the disk refuses.

        Cost: one sync; of several records two writes each.
        """
        try:
            self._append(effects)
        except OSError as error:
            self._half_done = True
            if error.errno in DiskFull.ERRNOS:
                hint = "Make room there."
                raise DiskFull("the disk is full", where=str(self._directory), hint=hint) from None
            raise StorageError(f"cannot write results: {error}", where=str(self._directory)) from None

    def _append(self, effects: Sequence[Append]) -> None:
        if len(effects) == 1 and not self._half_done:
            self._log(effects[0].job, effects[0].incarnation).append(effects[0].record, effects[0].rows)
            return
        entries = []
        for effect in effects:
            log = self._log(effect.job, effect.incarnation)
            frame = log.write(effect.record, effect.rows)
            if frame:
                entries.append(Entry(effect.job, effect.incarnation, frame))
        if entries:
            self._journal.append(entries)
        if self._journal.size > self._journal_bytes_max:
            self._empty_journal()
        if self._half_done:  # what was written then is in no journal
            self._empty_journal()
            self._half_done = False

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

    def _put_back(self) -> None:
        """Write again what a power cut took from the segments; logs that were dropped stay so."""
        for entry in self._journal.entries():
            if self._path(entry.job).exists():
                log = self._log(entry.job, None)
                if log.incarnation == entry.incarnation:
                    log.distrust()
                    log.write(*entry.result())
        self._empty_journal()

    def _empty_journal(self) -> None:
        for log in self._open.values():
            log.sync()
        self._journal.clear()

    def _path(self, job: bytes) -> Path:
        return self._directory / job.hex()
