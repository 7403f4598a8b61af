"""Incremental grouping with an engine that has none: group each batch, and all of it again now and then.

Regrouping when the pending rows outnumber half of the groups (and a million) costs a constant number of
passes per row; it was the fastest of the ways tried with every engine here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

PENDING_ROWS_MIN = 1_000_000
PENDING_SHARE = 0.5


class Periodic(ABC):
    """`frame`s are the engine's own tables; `k` and the columns of the aggregates."""

    def __init__(self, aggregates: str) -> None:
        self.four = aggregates == "four"
        self._groups: Any = None
        self._pending: list[Any] = []
        self._pending_rows = 0

    @abstractmethod
    def lift(self, batch: pa.RecordBatch) -> Any:
        """The groups of a batch, as a frame."""

    @abstractmethod
    def regroup(self, frames: list[Any]) -> Any:
        """The groups of frames of groups, as a frame."""

    @abstractmethod
    def table(self, frame: Any) -> pa.Table:
        """A frame in Arrow."""

    def insert(self, batch: pa.RecordBatch) -> None:
        frame = self.lift(batch)
        self._pending.append(frame)
        self._pending_rows += len(frame)
        groups = 0 if self._groups is None else len(self._groups)
        if self._pending_rows > max(PENDING_ROWS_MIN, PENDING_SHARE * groups):
            self._compact()

    def result(self) -> pa.Table:
        self._compact()
        return self.table(self._groups)

    def _compact(self) -> None:
        frames = self._pending if self._groups is None else [self._groups, *self._pending]
        self._groups, self._pending, self._pending_rows = None, [], 0
        self._groups = self.regroup(frames)
