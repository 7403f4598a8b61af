"""Reader, filters and rate limit of one tap; imported on demand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.api.web.tap import TapRequest
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.sources.tail import ReadFrom
from elfmesh.ql import Statement
from elfmesh.ql.expressions.nodes import FieldRef, walk
from elfmesh.ql.expressions.operand import Env
from elfmesh.ql.expressions.operators import condition_operand
from elfmesh.ql.functions.compiler import Compiler, read_column
from elfmesh.ql.plan.statement import LOOKED_UP
from elfmesh.ql.values.columns import bool_values

READER = "tap"
RAW, SOURCE = "_raw", "_source"
LINE_CHARS_MAX = 4096
"""Characters of a line that are shown; longer lines are cut."""


class Tap:
    """Tap of a stream; used by one thread at a time."""

    def __init__(self, reader: StreamReader, filters: Sequence[Filter], request: TapRequest) -> None:
        self._reader, self._filters = reader, filters
        self._from: ReadFrom = "beginning" if request.beginning else "end"
        self._rate, self._tokens, self._then = request.rate, float(request.rate), time.monotonic()
        self.left = request.limit
        self.counts = dict.fromkeys(("read", "matched", "shown", "parse_errors", "jumps"), 0)

        self.unseen = list(dict.fromkeys(name for each in filters for name in each.fields))
        """Fields of the filters that had no value in any record so far."""

    def start(self) -> None:
        """Start at the end of the stream, or at its beginning."""
        columns = dict.fromkeys((RAW, SOURCE, *(name for each in self._filters for name in each.fields)))
        self._reader.add(READER, columns, read_from=self._from)

    def close(self) -> None:
        self._reader.close()

    def poll(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        self._tokens = min(float(self._rate), self._tokens + self._rate * (now - self._then))
        self._then = now
        shown: list[dict[str, Any]] = []
        size = 0
        for delivery in self._reader.poll():
            size += len(delivery.block.data)
            shown += self._lines(delivery.parsed)
        if size >= POLL_BYTES and self._from == "end":
            self.counts["jumps"] += 1
            self.start()
        return shown

    def _lines(self, parsed: Parsed) -> list[dict[str, Any]]:
        self.counts["read"] += parsed.lines
        self.counts["parse_errors"] += parsed.errors
        mask = np.ones(parsed.rows, bool)
        for each in self._filters:
            mask &= each.passed(parsed)
        self.unseen = [name for name in self.unseen if parsed.arrays[name].null_count == parsed.rows]
        (matched,) = np.nonzero(mask)
        self.counts["matched"] += len(matched)
        number = min(len(matched), int(self._tokens), self.left)
        if not number:
            return []
        # Select the rows evenly, because the first lines of a burst would not be a representative sample.
        rows = pa.array(matched[np.linspace(0, len(matched) - 1, number).astype(np.int64)])
        self._tokens -= number
        self.left -= number
        self.counts["shown"] += number
        texts, sources = (parsed.arrays[name].take(rows).to_pylist() for name in (RAW, SOURCE))
        return [
            {"line": text if len(text) <= LINE_CHARS_MAX else text[:LINE_CHARS_MAX] + "…", "source": source}
            for text, source in zip(texts, sources, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Filter:
    """WHERE of one part of a statement, for single records."""

    part: Statement

    @property
    def fields(self) -> tuple[str, ...]:
        where = self.part.plan.where
        return () if where is None else tuple(n.path for n in walk(where) if isinstance(n, FieldRef))

    def passed(self, parsed: Parsed) -> np.ndarray:
        """Return which rows pass; bool[rows]."""
        where = self.part.plan.where
        if where is None:
            return np.ones(parsed.rows, bool)
        columns = {name: read_column(parsed.arrays[name]) for name in self.fields}
        compiler = Compiler({name: array.type for name, array in columns.items()}, self.part.origin)
        condition = condition_operand(compiler, where, compiler.compile(where))
        return np.asarray(bool_values(condition.array(Env(columns, parsed.rows))), bool)


def part_of(statement: Statement, stream: str) -> Statement:
    """Return the part that reads a stream. Raises QueryError if its filter needs more than single records."""
    parts = [part for part in statement.over_records if part.stream == stream]
    if not parts:
        raise statement.origin.error(f"the filter does not read {stream}", statement.offset)
    if statement.scalars:
        raise statement.origin.error(
            "this filter needs the whole interval", statement.scalars[0][1].at,
            "Tap the stream with a --filter of its own.",
        )  # fmt: skip
    where = parts[0].plan.where
    fields = [node for node in walk(where) if isinstance(node, FieldRef)] if where is not None else []
    for node in fields:
        if node.path.startswith(LOOKED_UP):
            raise statement.origin.error(
                "this filter needs more than the record itself", node.at,
                "Tap the stream with a --filter of its own.",
            )  # fmt: skip
    return parts[0]
