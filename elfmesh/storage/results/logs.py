"""All results logs of one agent.

  DIR/<job id hex>/                the log of a job (see log.py)
  DIR/<job id hex>.<incarnation>/  the log of its previous incarnation, kept for readers that have not read
  all

`append` returns when its records are durable (D-17). Records of `write` are durable after `sync`, or can be
restored from the result of `prepare` (see journal.py). A log is synced before it is closed.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.protocol.events import Append, KeepPage, LogInfo, LogRead, MendLog, ReadLog
from elfmesh.errors import DiskFull, ElfError, ProtocolError, StorageError
from elfmesh.safeguards import safeguard
from elfmesh.storage.results.journal import FILE_NAME, entries, pack, unpack
from elfmesh.storage.results.log import BYTES_MAX, INTERVALS_MAX, ResultsLog
from elfmesh.storage.results.salvage import Hole
from elfmesh.storage.results.segment import sync_directory
from elfmesh.storage.starving import listed, off_the_loop

LOGS_OPEN_MAX = 256


class ResultsLogs:
    """Executes `Append`, `KeepPage`, `DropLog` and `ReadLog` for the pump. Limits apply to each job."""

    def __init__(
        self,
        directory: Path,
        *,
        intervals_max: int = INTERVALS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._directory = directory
        self._intervals_max, self._bytes_max = intervals_max, bytes_max
        self._open: OrderedDict[str, ResultsLog] = OrderedDict()
        self._notified: dict[bytes, tuple[Hole, ...]] = {}
        self._news: dict[bytes, LogInfo] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            sync_directory(directory)
        except OSError as error:
            raise StorageError(f"cannot create it: {error.strerror}", where=str(directory)) from None
        self._take_over()

    def append(self, *effects: Append) -> None:
        """Append records in this order with one sync each. After DiskFull the call may be repeated."""
        with self._refusing():
            for effect in effects:
                log = self._log(effect.job, effect.incarnation)
                log.append(effect.record, effect.rows, effect.first)
                self._note(effect.job, log)

    def prepare(self, effects: Sequence[Append]) -> list[bytes]:
        """Prepare the logs durably without adding records. Returns what `put_back` needs for each record.

        Cost: two copies of the rows; two syncs for a log that is new or has other columns.
        """
        with self._refusing():
            for effect in effects:
                self._log(effect.job, effect.incarnation).learn(effect.record, effect.rows, effect.first)
        return [pack(effect) for effect in effects]

    def write(self, effects: Sequence[Append]) -> None:
        with self._refusing():
            for effect in effects:
                log = self._log(effect.job, effect.incarnation)
                log.write(effect.record, effect.rows, effect.first)
                self._note(effect.job, log)

    def sync(self) -> None:
        """Make all written records durable. Cost: one sync of each log written since the last call."""
        with self._refusing():
            for log in self._open.values():
                log.sync()

    @safeguard("put-back")
    def put_back(self, prepared: Sequence[bytes]) -> None:
        """Restore records that a power failure removed, durably. Skips deleted and restarted logs."""
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

    def keep_page(self, effect: KeepPage) -> None:
        """Write a page of rows durably. Raises as `append`."""
        with self._refusing():
            self._log(effect.job, effect.incarnation).keep_page(effect.index, effect.data)

    def drop(self, job: bytes, *, retire: bool = False) -> None:
        """Delete the logs of a job. With `retire`, the current one becomes the previous one."""
        path = self._path(job)
        self._notified.pop(job, None)
        self._news.pop(job, None)
        for earlier in listed(self._directory, f"{path.name}.*"):
            self._open.pop(earlier.name, None)
            _remove(earlier)
        if retire and path.exists():
            with self._refusing():
                log = self._log(job, None)
                log.sync()
                path.replace(path.with_name(f"{path.name}.{log.incarnation}"))
                sync_directory(self._directory)
        self._open.pop(path.name, None)
        _remove(path)

    def read(self, effect: ReadLog) -> LogRead:
        """Read a page of a job's log, or of its previous log. A missing log reads as empty."""
        earlier = self._path(effect.job, effect.incarnation)
        path = earlier if effect.incarnation and earlier.exists() else self._path(effect.job)
        if not path.exists():
            return LogRead(effect.token)
        try:
            log = self._at(path, None)
            if effect.incarnation not in ("", log.incarnation):
                return LogRead(effect.token)
            if effect.digest:
                return self._page(log, effect)
            if path == earlier:
                log.give_up()  # no voter is asked for missing records of a previous log
            none: tuple[bytes, int | None, None, bool] = (b"", None, None, False)
            found = log.read(effect.start, effect.stop, effect.limit) if effect.limit else none
            self._note(effect.job, log)
            return log.describe(effect.token, *found)
        except (OSError, ElfError) as error:
            return LogRead(effect.token, error=str(error))

    @staticmethod
    def _page(log: ResultsLog, effect: ReadLog) -> LogRead:
        data = None if effect.start is None else log.pages.read(effect.start, effect.digest)
        why = "" if data is not None else f"a page of interval {effect.start} is missing or damaged"
        return LogRead(effect.token, data or b"", error=why)

    def mend(self, effect: MendLog) -> None:
        """Fill a hole, or a part of it, durably. A log without the hole is unchanged. Raises as `append`."""
        with self._refusing():
            log = self._log(effect.job, effect.incarnation)
            log.mend(effect.start, effect.stop, decode_page(effect.page))
            self._note(effect.job, log)

    def damaged(self) -> tuple[LogInfo, ...]:
        """Return the logs with holes that were found since the last call, and since `found`."""
        news, self._news = self._news, {}
        return tuple(news.values())

    def _note(self, job: bytes, log: ResultsLog) -> None:
        notified, holes = self._notified.get(job, ()), tuple(log.holes)
        if any(not any(low <= start and stop <= high for low, high in notified) for start, stop in holes):
            self._news[job] = LogInfo(job, log.incarnation, log.latest, log.first, holes)
        self._notified[job] = holes

    def found(self) -> tuple[LogInfo, ...]:
        logs = []
        for path in sorted(self._directory.iterdir()):
            with contextlib.suppress(ValueError):
                job = bytes.fromhex(path.name)
                log = self._log(job, None)
                holes = self._notified[job] = tuple(log.holes)
                info = LogInfo(job, log.incarnation, log.latest, log.first, holes, log.pages.ahead)
                logs.append(info)
        self._news.clear()
        return tuple(logs)

    def _log(self, job: bytes, incarnation: str | None) -> ResultsLog:
        return self._at(self._path(job), incarnation)

    def _at(self, path: Path, incarnation: str | None) -> ResultsLog:
        log = self._open.get(path.name)
        if log is None or (incarnation is not None and log.incarnation != incarnation):
            log = ResultsLog(
                path,
                incarnation,
                intervals_max=self._intervals_max,
                bytes_max=self._bytes_max,
            )
            self._open[path.name] = log
        self._open.move_to_end(path.name)
        while len(self._open) > LOGS_OPEN_MAX:
            _, oldest = self._open.popitem(last=False)
            oldest.sync()
        return log

    def _take_over(self) -> None:
        path = self._directory / FILE_NAME
        if path.exists():
            self.put_back([*entries(path.read_bytes())])
            path.unlink()

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in DiskFull.ERRNOS:
                hint = "Make room there."
                raise DiskFull("the disk is full", where=str(self._directory), hint=hint) from None
            raise StorageError(f"cannot write results: {error}", where=str(self._directory)) from None

    def _path(self, job: bytes, earlier: str = "") -> Path:
        return self._directory / (f"{job.hex()}.{earlier}" if earlier else job.hex())


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        off_the_loop(partial(shutil.rmtree, path), f"removing {path}")
