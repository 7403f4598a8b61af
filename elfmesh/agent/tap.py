"""Live lines of a stream for people who look: `elf tap`.

Owns the limits: how many look at once, how many lines a second they see, how long a line is, and how much of
a processor reading for them may take. A tap has a reader and a format of its own: what it reads, how slow its
reader is and how it ends touch no job. Of a stream that grows faster than that it shows a sample: from the
end it is at, it jumps to the new end.

Refuses to know HTTP and terminals: text is as it stands in the log, unescaped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.agent.config import StreamConfig
from elfmesh.agent.host import Executor
from elfmesh.agent.parsers import Parsed, StreamFormat
from elfmesh.agent.sources import StreamReader
from elfmesh.agent.sources.tail import POLL_BYTES, ReadFrom
from elfmesh.control.authority.policy import OPEN, Policy
from elfmesh.control.ql import Statement, parse
from elfmesh.control.ql.columns import bool_values
from elfmesh.control.ql.compiler import Compiler, read_column
from elfmesh.control.ql.nodes import Field, walk
from elfmesh.control.ql.operand import Env
from elfmesh.control.ql.operators import condition_operand
from elfmesh.control.ql.statement import LOOKED_UP
from elfmesh.control.web.tap import TapRequest
from elfmesh.errors import RuntimeFailure

TAPS_MAX = 4
"""Open at one agent; more are refused."""

LINE_CHARS_MAX = 4096
"""Of a longer line only the beginning is shown."""

POLL_S = 0.2
BUSY_SHARE = 0.1
"""The share of one processor's time that reading for one tap may take."""

QUIET_S = 5.0
"""After so long without a line it says that it is still there."""

_READER = "tap"
RAW, SOURCE = "_raw", "_source"


class Taps:
    """The taps of one agent.

    Args:
        streams: of this agent, as their readers see them.
        new_format: a format of a stream that no job shares.
        executor: reads and evaluates, in a lane of its own.
        policy: what the namespace of a job may read here.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamConfig],
        new_format: Callable[[str, StreamConfig], StreamFormat],
        executor: Executor,
        policy: Policy = OPEN,
    ) -> None:
        self._policy = policy
        self._streams, self._new_format, self._executor = streams, new_format, executor
        self._open = 0

    async def lines(self, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]:
        """First {"stream"}, then {"line", "source"} for each line and, between them, counts so far.

        Counts are read (records), matched, shown, parse_errors and jumps over what was not read.

        Raises:
            QueryError: a filter is wrong, or not for single records.
            RuntimeFailure: no such stream here, or too many taps.
        """
        statements = [parse(text) for text in request.texts]
        stream = self._stream(statements[0], request.stream)
        for statement in statements:
            self._check(statement, statements[0])
        filters = [_Filter(_part(statement, stream)) for statement in statements]
        if self._open >= TAPS_MAX:
            raise RuntimeFailure(
                f"{TAPS_MAX} taps are open at this agent", hint="End one, or ask another agent."
            )
        config = self._streams[stream]
        tap = _Tap(StreamReader(config.path, self._new_format(stream, config)), filters, request)
        self._open += 1
        try:
            await self._executor.run(_READER, tap.start)
            yield {"stream": stream}
            async for each in self._follow(tap, request):
                yield each
        finally:
            self._open -= 1
            await self._executor.run(_READER, tap.close)

    async def _follow(self, tap: _Tap, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]:
        end, told, heard = time.monotonic() + request.seconds, dict(tap.counts), time.monotonic()
        while True:
            began = time.monotonic()
            found = await self._executor.run(_READER, tap.poll)
            for line in found:
                yield line
            now = time.monotonic()
            if tap.counts != told or now - heard > QUIET_S:
                told, heard = dict(tap.counts), now
                yield told
            if tap.left == 0 or now >= end:
                return
            await asyncio.sleep(min(max(POLL_S, (now - began) / BUSY_SHARE), max(0.0, end - now)))

    def _check(self, statement: Statement, first: Statement) -> None:
        """Refuse what a job of the first text's namespace might not read; an operator's tap is of none."""
        job = first.job
        if job is None:
            problem = self._policy.hidden_of(statement, self._streams)
        else:
            problem = self._policy.refusal_of(statement, job.namespace, self._streams, raw=True)
        if problem:
            raise RuntimeFailure(problem)

    def _stream(self, statement: Statement, wanted: str | None) -> str:
        names = [wanted] if wanted else list(statement.streams)
        for name in names:
            if name in self._streams and name in statement.streams:
                return name
        there = ", ".join(sorted(self._streams)) or "none"
        raise RuntimeFailure(
            f"this agent has no stream {' or '.join(names)}",
            hint=f"It has {there}. `elf get streams` says who else has which; name an agent with --api.",
        )


class _Tap:
    """One tap; called by one thread at a time."""

    def __init__(self, reader: StreamReader, filters: Sequence[_Filter], request: TapRequest) -> None:
        self._reader, self._filters = reader, filters
        self._from: ReadFrom = "beginning" if request.beginning else "end"
        self._rate, self._tokens, self._then = request.rate, float(request.rate), time.monotonic()
        self.left = request.limit
        self.counts = dict.fromkeys(("read", "matched", "shown", "parse_errors", "jumps"), 0)

    def start(self) -> None:
        columns = dict.fromkeys((RAW, SOURCE, *(name for each in self._filters for name in each.fields)))
        self._reader.add(_READER, columns, read_from=self._from)

    def close(self) -> None:
        self._reader.close()

    def poll(self) -> list[dict[str, Any]]:
        """What may be shown of what has come."""
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
        (matched,) = np.nonzero(mask)
        self.counts["matched"] += len(matched)
        number = min(len(matched), int(self._tokens), self.left)
        if not number:
            return []
        # Evenly over what there is: the first lines of a burst would be no sample of it.
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
class _Filter:
    """WHERE of one part of a statement, over single records."""

    part: Statement

    @property
    def fields(self) -> tuple[str, ...]:
        where = self.part.plan.where
        return () if where is None else tuple(n.path for n in walk(where) if isinstance(n, Field))

    def passed(self, parsed: Parsed) -> np.ndarray:
        """Which rows pass; bool[rows].

        Raises:
            QueryError: the types of the columns make no sense in it.
        """
        where = self.part.plan.where
        if where is None:
            return np.ones(parsed.rows, bool)
        columns = {name: read_column(parsed.arrays[name]) for name in self.fields}
        compiler = Compiler({name: array.type for name, array in columns.items()}, self.part.origin)
        condition = condition_operand(compiler, where, compiler.compile(where))
        return np.asarray(bool_values(condition.array(Env(columns, parsed.rows))), bool)


def _part(statement: Statement, stream: str) -> Statement:
    """The part that reads a stream.

    Raises:
        QueryError: its filter needs more than a record.
    """
    parts = [part for part in statement.parts or (statement,) if part.stream == stream]
    if not parts:
        raise statement.origin.error(f"the filter is not about {stream}", statement.offset)
    if statement.scalars:
        raise statement.origin.error(
            "this filter needs the whole interval", statement.scalars[0][1].at,
            "Tap the stream with a --filter of its own.",
        )  # fmt: skip
    where = parts[0].plan.where
    fields = [node for node in walk(where) if isinstance(node, Field)] if where is not None else []
    for node in fields:
        if node.path.startswith(LOOKED_UP):
            raise statement.origin.error(
                "this filter needs more than the record itself", node.at,
                "Tap the stream with a --filter of its own.",
            )  # fmt: skip
    return parts[0]
