"""Evaluation of the functions of one version of a job: batches, failures, and records without values.

After three failures (strikes) within a window the functions are off: every record that needs one is counted
as `function_error`, and `problem` has the reason. `call` never raises because of a function, and takes at
most twenty time limits and two starts per batch. A batch whose worker failed is tried once more by a new
worker, so that a slow leak or a stalled host costs no record. A record for which a function raises is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.control.jobs.signing import EXPIRED
from elfmesh.errors import DataError
from elfmesh.ingest.functions import confinement
from elfmesh.ingest.functions.process import CLOCK_FACTOR, CallResult, Limits, WorkerFailed, WorkerProcess
from elfmesh.ql.expressions.python_function import Computed, PythonFunction
from elfmesh.ql.plan.statement import Statement
from elfmesh.ql.values.columns import Bools
from elfmesh.text import printable

log = logging.getLogger("elf.functions")
BATCH_ROWS = 8192
"""Records per batch, the unit of the limit of processor time."""

STRIKES = 3
STRIKE_WINDOW_S = 60.0
"""Minimum window; it is longer if batches that end at the limit of the clock would not fit."""

HOPELESS_ROWS_MIN = 20
"""Records of a batch from which a batch without any value is a strike; fewer may all be malicious."""


class Evaluator:
    """`FunctionSource` of one statement; its process starts with the first batch.

    One thread at a time may use `call`; any thread may use `end` and `close`.

    Args:
        note: called with a description of the first fault of each kind.
        expires_us: expiry of the signature, in wall-clock microseconds; None: never.
        wall_us: wall clock.
        monotonic: clock for the window of strikes.
    """

    def __init__(
        self,
        functions: Sequence[PythonFunction],
        limits: Limits,
        *,
        note: Callable[[str], None] = lambda _text: None,
        expires_us: int | None = None,
        wall_us: Callable[[], int] = lambda: 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._functions, self._limits = tuple(functions), limits
        self._numbers = {function: number for number, function in enumerate(self._functions)}
        self._note, self._expires_us, self._wall_us = note, expires_us, wall_us
        self._monotonic = monotonic
        self._strikes: deque[float] = deque()
        self._window_s = max(STRIKE_WINDOW_S, (STRIKES + 1) * CLOCK_FACTOR * limits.seconds)
        self._noted: set[str] = set()
        self._lock = threading.Lock()
        self.closed = False
        self.problem = ""
        self.restarts = -1
        self._process: WorkerProcess | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def call(self, function: PythonFunction, columns: Sequence[pa.Array], rows: int) -> Computed:
        number = self._numbers[function]
        values: list[pa.Array] = []
        failed: Bools = np.zeros(rows, dtype=np.bool_)
        for start in range(0, rows, BATCH_ROWS):
            count = min(BATCH_ROWS, rows - start)
            answer = self._batch(number, [column.slice(start, count) for column in columns], count)
            if answer is None:
                values.append(pa.nulls(count, function.gives))
                failed[start : start + count] = True
            else:
                values.append(answer.values)
                failed[start : start + count] = answer.failed.to_numpy(zero_copy_only=False)
        whole = pa.concat_arrays(values) if values else pa.nulls(0, function.gives)
        return Computed(whole, failed if failed.any() else None)

    def check(self) -> None:
        """Evaluate every function over a record of nulls and over no record, before it is used.

        Raises DataError.
        """
        for number, function in enumerate(self._functions):
            for rows in (1, 0):
                columns = [pa.nulls(rows, kind) for _, kind in function.takes]
                try:
                    self._running().call(number, columns, rows)
                except WorkerFailed as error:
                    raise WorkerFailed(f"{function.name}: {error}") from None

    def close(self) -> None:
        self.closed = True
        self._stop()

    def end(self, why: str) -> None:
        """Turn the functions off, even during an evaluation."""
        self._off(why)

    def _is_over(self) -> bool:
        """Return whether evaluation must stop; another thread may have requested it."""
        return bool(self.problem) or self.closed

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _batch(self, number: int, columns: list[pa.Array], rows: int) -> CallResult | None:
        name = self._functions[number].name
        if self._expires_us is not None and self._wall_us() >= self._expires_us and not self.problem:
            self._off(EXPIRED)
        for _ in range(2):
            if self._is_over():
                return None
            try:
                answer = self._running().call(number, columns, rows)
            except WorkerFailed as error:
                self._stop()
                if self._is_over():
                    return None
                self._strike(f"{name}: {error}")
                continue
            if answer.error:
                self._say(f"{name} cannot take a record: {answer.error}")
                if rows >= HOPELESS_ROWS_MIN and answer.failed.false_count == 0:
                    self._strike(f"{name}: it could take none of {rows} records")
            return answer
        return None

    def _running(self) -> WorkerProcess:
        with self._lock:
            if self._process is None:
                self._process = WorkerProcess(self._functions, self._limits)
                self.restarts += 1
            process = self._process
        if self._is_over():  # ended by another thread
            self._stop()
            raise WorkerFailed("it was ended")
        return process

    def _strike(self, why: str) -> None:
        now = self._monotonic()
        self._strikes.append(now)
        while now - self._strikes[0] > self._window_s:
            self._strikes.popleft()
        self._say(why)
        if len(self._strikes) >= STRIKES:
            self._off(f"{STRIKES} strikes within {self._window_s:g} s, the last: {why}")

    def _off(self, why: str) -> None:
        self.problem = f"the functions are off: {printable(why)}"
        self._note(self.problem)
        self._stop()

    def _say(self, text: str) -> None:
        if text not in self._noted and len(self._noted) < 8:
            self._noted.add(text)
            self._note(printable(text))


def local_evaluator(statement: Statement, note: Callable[[str], None] = lambda _text: None) -> Evaluator:
    """Return the evaluator of a statement whose text its user trusts; it ends with this process.

    The functions are confined as on an agent. If the kernel lacks a layer, a log message reports it and they
    are evaluated nevertheless, because the user accepts this by trusting the text. Raises DataError if the
    functions fail the test.
    """
    if absent := confinement.absent():
        log.warning("Python functions have your rights here: %s", absent)
    evaluator = Evaluator(statement.functions, Limits(confined=False), note=note)
    try:
        evaluator.check()
    except WorkerFailed as error:
        evaluator.close()
        raise DataError(f"the functions do not work: {error}", where=statement.source) from None
    return evaluator
