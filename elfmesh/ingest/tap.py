"""Live display of a stream's lines: `elf tap`.

Limits apply to the number of taps, the lines per second and the processor time of reading for them. A tap has
its own reader and format, so it affects no job. If a stream grows faster than the limits allow, the tap shows
a sample: it skips to the new end. Text is shown as it is in the log, unescaped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from elfmesh.api.web.tap import TapRequest
from elfmesh.control.jobs.policy import OPEN, Policy
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.host import Executor
from elfmesh.ingest.stream_settings import StreamConfig

if TYPE_CHECKING:
    from elfmesh.ingest.parsers import StreamFormat
    from elfmesh.ingest.tap_lines import Tap
    from elfmesh.ql import Statement

TAPS_MAX = 4
"""Maximum number of open taps at one agent; more are refused."""

POLL_S = 0.2
BUSY_SHARE = 0.1
"""Maximum share of one processor's time for reading for one tap."""

QUIET_S = 5.0
"""Time without a line after which a tap sends its counts to show that it is alive."""


class Taps:
    """Taps of one agent; `policy` decides what the namespace of a job may read here."""

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
        """Yield {"stream"} first, then {"line", "source"} for each line and, between them, the counts so far.

        The counts are read (records), matched, shown, parse_errors and jumps over unread input.
        """
        # imported on demand, because an agent loads the engine after its start
        from elfmesh.ingest.sources import StreamReader
        from elfmesh.ingest.tap_lines import READER, Filter, Tap, part_of
        from elfmesh.ql import Query, parse

        statements = [parse(text) for text in request.texts]
        stream = self._stream(statements[0], request.stream)
        for statement in statements:
            self._check(statement, statements[0])
        schema = self._new_format(stream, self._streams[stream]).static_schema
        if schema is not None:
            for statement in statements:
                Query(statement).check_schema(schema, stream)
        filters = [Filter(part_of(statement, stream)) for statement in statements]
        if self._open >= TAPS_MAX:
            raise RuntimeFailure(
                f"{TAPS_MAX} taps are open at this agent", hint="Stop one of them, or use another agent."
            )
        config = self._streams[stream]
        tap = Tap(StreamReader(config.path, self._new_format(stream, config)), filters, request)
        self._open += 1
        try:
            await self._executor.run(READER, tap.start)
            yield {"stream": stream}
            async for each in self._follow(tap, request):
                yield each
        finally:
            self._open -= 1
            await self._executor.run(READER, tap.close)

    async def _follow(self, tap: Tap, request: TapRequest) -> AsyncGenerator[dict[str, Any], None]:
        from elfmesh.ingest.tap_lines import READER

        end, notified, received = time.monotonic() + request.seconds, dict(tap.counts), time.monotonic()
        while True:
            began = time.monotonic()
            found = await self._executor.run(READER, tap.poll)
            for line in found:
                yield line
            now = time.monotonic()
            if tap.counts != notified or now - received > QUIET_S:
                notified, received = dict(tap.counts), now
                yield {**notified, "unseen": tap.unseen} if tap.unseen else notified
            if tap.left == 0 or now >= end:
                return
            await asyncio.sleep(min(max(POLL_S, (now - began) / BUSY_SHARE), max(0.0, end - now)))

    def _check(self, statement: Statement, first: Statement) -> None:
        """Raise for inputs that a job of the first text's namespace may not read.

        An operator's tap has no namespace.
        """
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
            hint=f"It has {there}. `elf get streams` lists the agents of each stream; select one with --api.",
        )
