"""The Spark data source "elf": the results log of a job as a batch or streaming DataFrame.

The module maps Spark's reader protocol to the results log. An offset consists of the last interval read and
the job's incarnation, so that a checkpoint yields each interval exactly once (D-17) and a re-created job is
detected. Executors read Arrow batches. `joblog` owns HTTP, and `conform` owns the conversion of types.

Options: api ("host:port[,host:port]"), job ("ns/name"), startingInterval ("earliest", "latest" or an index;
default earliest for a batch, latest for a stream), endInterval (inclusive), maxIntervalsPerTrigger,
numPartitions, longPoll (seconds, default 1), schemaWait (seconds to wait for the first result of a new job,
which determines the types of the columns, default 30), state ("final", or "all" to include tentative
results), view ("pao" for partial aggregates instead of rows). A batch from "latest" returns the newest
interval; a stream from "latest" returns later ones. docs/spark.md contains examples.

The sink of a stream of all states must upsert by interval and revision. Tentative results are not stored, so
a batch that is repeated after a crash may contain newer revisions of the same intervals than before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from elfmesh.control.jobs.records import PAO
from elfmesh.errors import ElfError
from elfmesh.spark_bridge.conform import arrow_schema, conform
from elfmesh.spark_bridge.filters import IntervalBounds, narrow
from elfmesh.spark_bridge.joblog import SCHEMA_WAIT_S, JobLog, LogNumbering, LogOffsets, recreated
from elfmesh.spark_bridge.source_options import IntervalPartition, Options, check_names, seconds, word

try:  # PySpark 4.2 added admission control and availableNow for Python sources.
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # pragma: no cover - PySpark 4.0 and 4.1
    ReadAllAvailable = ReadMaxFiles = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # where PySpark has none
        """Replacement for the mixin, which this version of PySpark does not have."""


FORMAT = "elf"
END = 2**62
"""Position after all intervals."""

TENTATIVE = "TENTATIVE"
PLANNERS = "pyspark.sql.worker."
"""Modules of the processes that plan reads."""

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
Method = TypeVar("Method", bound=Callable[..., Any])
PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def _brief(method: Method) -> Method:
    """Make Spark report an error of this package as one line, without the traceback.

    The setting is one of the process. Processes that plan reads of data sources run no code of users.
    """

    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except ElfError:
            if any(name.startswith(PLANNERS) for name in sys.modules):
                os.environ[HIDE_TRACEBACK] = "1"
            raise

    return cast(Method, call)


class ElfDataSource(DataSource):  # type: ignore[misc]  # mypy skips PySpark
    """Data source for `spark.read.format("elf")` and `spark.readStream.format("elf")`.

    Example:
        >>> likes = spark.read.format("elf").options(job="shop/likes", api="127.0.0.1:7401").load()
        >>> likes.select("product", "n", "completeness").collect()
        [Row(product='lamp', n=3, completeness=1.0)]
    """

    @classmethod
    def name(cls) -> str:
        """Return the short name of the format."""
        return FORMAT

    @_brief
    def schema(self) -> str:
        """Return the columns of the job's results."""
        return self._log().ddl(wait_s=seconds(self.options, "schemaWait", SCHEMA_WAIT_S))

    @_brief
    def reader(self, schema: Any) -> BatchReader:
        """Return a batch reader. It accepts filters on interval_index if Spark offers them."""
        # Spark refuses a reader that accepts filters while spark.sql.python.filterPushdown.enabled is off
        # (the default). It does not expose this setting, but it plans with another worker module if it is
        # on.
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        offered = PUSHDOWN_WORKER in sys.modules or getattr(spec, "name", "") == PUSHDOWN_WORKER
        kind = PushingBatchReader if offered else BatchReader
        log = self._log()
        return kind(log, Options.of(self.options, "earliest", len(log.addresses)), arrow_schema(schema))

    @_brief
    def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802 - Spark's name
        """Return a partitioned stream reader."""
        log = self._log()
        return StreamReader(log, Options.of(self.options, "latest", len(log.addresses)), arrow_schema(schema))

    def _log(self) -> JobLog:
        check_names(self.options)
        return JobLog.of(
            self.options.get("job", ""),
            self.options.get("api"),
            view=word(self.options, "view", "rows", PAO).removeprefix("rows"),
            state=word(self.options, "state", "final", "all"),
        )


class _Reads:
    """The part of batch and stream readers that runs on executors."""

    def __init__(self, log: JobLog, options: Options, schema: pa.Schema) -> None:
        self.log = log
        self.options = options
        self.schema = schema

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if isinstance(
            partition, IntervalPartition
        ):  # Spark sends an empty partition if there is nothing to read
            log = self.log.turned(partition.turn)
            for batch in log.batches(
                partition.after,
                partition.upto,
                only=partition.only,
                revision=partition.revision,
                incarnation=partition.incarnation,
            ):
                yield conform(batch, self.schema)


class BatchReader(_Reads, DataSourceReader):  # type: ignore[misc]  # mypy skips PySpark
    """Reader of all intervals in the log at planning time, or of those between two options."""

    bounds = IntervalBounds()

    @_brief
    def partitions(self) -> Sequence[InputPartition]:
        """Return one range of intervals per task."""
        held = self.log.offsets()
        newest = max(held.latest, held.earliest)
        after = self.options.first(earliest=held.earliest, latest=newest) - 1
        upto = held.latest if self.options.end is None else min(held.latest, self.options.end)
        ranges = self.options.ranges(*self.bounds.clip(after, upto), held.earliest)
        if self.log.state == "all":
            last = END if self.options.end is None else self.options.end
            open_after, open_upto = self.bounds.clip(max(held.latest, after), last)
            if open_after < open_upto:
                ranges.append(IntervalPartition(open_after, open_upto, len(ranges), revision=0))
        return [replace(each, only=self.bounds.states, incarnation=held.incarnation) for each in ranges]


class PushingBatchReader(BatchReader):
    """Batch reader that requests only the intervals that the query's filters leave."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 - Spark's name
        """Accept filters that bound interval_index, and return the filters that Spark must apply."""
        for condition in filters:
            narrowed = narrow(self.bounds, condition)
            if narrowed is None:
                yield condition
            else:
                self.bounds = narrowed


class StreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # mypy skips PySpark
    """Reader of a stream in which each final interval occurs once, in order.

    State of the planner (not used in `read`): `initial` is the answer of initialOffset. `target` is the last
    interval of an availableNow query. `held` is the newest answer to latestOffset. `seen` and `shown` are the
    last planned offset and revision; only PySpark before 4.2 needs them, because it does not pass them.

    An update of the slide starts a new incarnation of the results. The rest of the previous incarnation is
    planned first, in separate batches, so that a batch contains intervals of one incarnation only.
    """

    initial: dict[str, Any] | None = None
    target: int | None = None
    held: LogOffsets | None = None
    seen: dict[str, Any] | None = None
    shown: int = 0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which a query without a checkpoint starts: just before the first interval."""
        # Spark asks again when it plans the first batch. Another answer would skip intervals in between.
        if self.initial is not None:
            return self.initial
        held = self.log.offsets()
        after = self.options.first(earliest=held.earliest, latest=held.latest + 1) - 1
        self.initial = self.seen = self._offset(after, held, first=True)
        return self.initial

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Return the limit of maxIntervalsPerTrigger. Spark's closest unit to an interval is a file."""
        return ReadMaxFiles(self.options.limit) if self.options.limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record the newest interval, at which an availableNow query ends."""
        self.target = self.log.offsets().latest

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the last interval of the next batch. Waits up to longPoll for a new one."""
        start = self.seen if start is None else start
        after = None if start is None else int(start["interval"])
        wait_s = self.options.long_poll_s if self.target is None else 0.0
        revision = self.shown if start is None else start.get("revision")
        held = self.log.offsets(after=after, wait_s=wait_s, revision=revision)
        self.held = held
        capped = self.options.limit if ReadMaxFiles is None else getattr(limit, "max_files", None)
        if start is not None and after is not None and start["incarnation"] != held.incarnation:
            numbering = self._following(start, held)
            if numbering is not None:
                self.seen = {**start, **self._rest(numbering, capped)}
                return self.seen
            if held.latest < held.earliest:  # the current incarnation has no interval yet
                return start
            after = held.before
        bounds = (held.latest, self.target, self.options.end)
        last = min(bound for bound in bounds if bound is not None)
        if after is not None and capped is not None and last - max(after, held.earliest - 1) > capped:
            last = min(last, self.log.nth_after(after, capped))
        self.seen = self._offset(last if after is None else max(last, after), held)
        return self.seen

    def _following(self, start: dict[str, Any], held: LogOffsets) -> LogNumbering | None:
        """See `Offsets.following`. Raises RuntimeFailure if the job was deleted and created again."""
        try:
            return held.following(start["incarnation"], int(start["interval"]))
        except KeyError:
            raise recreated(self.log.job, start["incarnation"], held.incarnation) from None

    def _rest(self, numbering: LogNumbering, capped: int | None) -> dict[str, Any]:
        last = numbering.latest
        if capped is not None:
            found = self.log.nth_after(numbering.before, capped, numbering.incarnation)
            last = (
                min(last, found) if found > numbering.before else last
            )  # expired meanwhile; the read reports it
        if self.options.end is not None:
            last = max(numbering.before, min(last, self.options.end))
        return {"interval": last, "incarnation": numbering.incarnation}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the newest interval, for the query's progress report."""
        held = self.log.offsets()
        return self._offset(held.latest, held)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one range of intervals per task. Raises RuntimeFailure if the job was re-created."""
        same = start["incarnation"] == end["incarnation"]
        after, upto = int(start["interval"]), int(end["interval"])
        before, newest = start.get("revision", 0), end.get("revision", 0)
        if same and after >= upto and before >= newest:
            return []
        # A batch is planned when its end is known; that of a checkpoint before Spark has asked for
        # offsets.
        held = self.log.offsets() if self.held is None or self.held.latest < upto else self.held
        whose = self._numbering(end, held)
        if not same:  # the earlier incarnation was read to its end
            after = whose.before
        self.seen, self.shown = end, newest
        earliest = held.earliest if whose.incarnation == held.incarnation else whose.before + 1
        ranges = self.options.ranges(after, upto, earliest)
        if newest > before:
            last = END if self.options.end is None else self.options.end
            ranges.append(
                IntervalPartition(upto, last, len(ranges), revision=before, only=frozenset({TENTATIVE}))
            )
        return [replace(each, incarnation=whose.incarnation) for each in ranges]

    def _numbering(self, offset: dict[str, Any], held: LogOffsets) -> LogNumbering:
        """Return the incarnation of an offset. Raises RuntimeFailure if the job has none with this name."""
        present = LogNumbering(held.incarnation, held.before, held.latest)
        for each in (*held.numberings, present):
            if each.incarnation == offset["incarnation"]:
                return each
        raise recreated(self.log.job, offset["incarnation"], held.incarnation)

    def _offset(self, interval: int, held: LogOffsets, *, first: bool = False) -> dict[str, Any]:
        offset: dict[str, Any] = {"interval": interval, "incarnation": held.incarnation}
        if self.log.state == "all":
            self.shown = max(self.shown, 0 if first else held.revision or 0)
            offset["revision"] = self.shown
        return offset
