"""Rows of frames: each row once per frame that contains it, for the evaluation of any aggregate.

The results are exact for every aggregate, because no row is subtracted from a frame. The cost is one row per
pair of row and frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.ql.engine.ranking import bounds, ranking
from elfmesh.ql.expressions.nodes import Expr, Over
from elfmesh.ql.expressions.operand import Env
from elfmesh.ql.functions.compiler import Compiler
from elfmesh.ql.plan.relation import ROW
from elfmesh.ql.values.joining import row_codes

Ints = npt.NDArray[np.int64]
PAIRS_MAX = 1 << 25
"""Maximum number of rows of all frames of one function in an interval: some seconds of the root's time."""


class Frames:
    """Frames of all rows of a table. Raises TypeError for a distance in values that have none."""

    def __init__(self, over: Over, columns: Mapping[str, pa.Array], env: Env, compiler: Compiler) -> None:
        def evaluate(expr: Expr) -> pa.Array:
            return compiler.compile(expr).array(env)

        order = [evaluate(expr) for expr in over.order]
        codes = row_codes([evaluate(expr) for expr in over.partition], [True] * len(over.partition), env.rows)
        ranked = ranking(over, list(columns.values()), env.rows, order, codes)
        self._rows = ranked.rows
        self._first, behind = bounds(over, ranked, order)
        self._counts = behind - self._first
        self.pairs = int(self._counts.sum())

    def tables(self, source: pa.Table, rows_max: int) -> Iterator[pa.Table]:
        """Yield the rows of the frames, with the column ROW, in tables of about `rows_max` rows.

        There is at least one table.
        """
        reached, start = np.cumsum(self._counts), 0
        while True:
            before = int(reached[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(reached, before + rows_max, "right")))
            counts = self._counts[start:stop]
            number = np.cumsum(counts) - counts
            within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(number, counts)
            seen = self._rows[np.repeat(self._first[start:stop], counts) + within]
            whose = np.repeat(self._rows[start:stop], counts)
            yield source.take(pa.array(seen)).append_column(ROW, pa.array(whose))
            start = stop
            if start >= len(self._counts):
                return

    def places(self, rows: Sequence[pa.ChunkedArray]) -> Ints:
        """Map each row to its frame's position in the concatenated ROW columns; -1 for an empty frame."""
        found = np.full(len(self._rows), -1, dtype=np.int64)
        whose = np.concatenate([np.asarray(each.to_numpy(), dtype=np.int64) for each in rows])
        found[whose] = np.arange(len(whose))
        return found
