"""Growing column: one int64 row per group, updated in place while groups are added.

It grows by half of its size, so that the cost per group is constant.
"""

from __future__ import annotations

import numpy as np

ROWS_MIN = 16
"""Rows of the first allocation; small, because there may be thousands of small trees."""

_LINE_BYTES = 64


class Growing:
    """int64[groups] or, with a width, int64[groups, width]; every new row contains `fill`."""

    __slots__ = ("_data", "_fill", "_used", "_width")

    def __init__(self, fill: int = 0, width: int = 0) -> None:
        self._fill = fill
        self._width = width
        self._data = self._fresh(0)
        self._used = 0

    def reach(self, groups: int, most: int | None = None) -> np.ndarray:
        """Return all rows, at least `groups`; at most `most` are allocated in advance.

        Cost: amortised constant per group.
        """
        if groups > len(self._data):
            ahead = max(len(self._data) + len(self._data) // 2, ROWS_MIN)
            grown = self._fresh(max(groups, ahead if most is None else min(ahead, most)))
            grown[: self._used] = self._data[: self._used]
            self._data = grown
        self._used = max(self._used, groups)
        return self._data

    def head(self, groups: int) -> np.ndarray:
        """Return the first rows, for reading; valid until the next change."""
        return self.reach(groups)[:groups]

    def replace(self, rows: np.ndarray) -> None:
        self._data, self._used = rows, len(rows)

    def clear(self) -> None:
        self._data[: self._used] = self._fill
        self._used = 0

    @property
    def used(self) -> int:
        """Return the number of rows that may differ from `fill`."""
        return self._used

    @property
    def nbytes(self) -> int:
        return int(self._data.nbytes)

    def _fresh(self, rows: int) -> np.ndarray:
        cells = rows * (self._width or 1)
        spare = _LINE_BYTES // 8 if self._width else 0
        data: np.ndarray = np.zeros(cells + spare, np.int64)
        if self._width:
            # A row whose width is a power of two then lies in one cache line, not in two.
            start = -data.__array_interface__["data"][0] % _LINE_BYTES // 8
            data = data[start : start + cells].reshape(rows, self._width)
        if self._fill:
            data[:] = self._fill
        return data
