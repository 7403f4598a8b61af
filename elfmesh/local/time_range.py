"""A range of event times, to which a run limits its input (`elf run --from T --to T`).

A record outside of the range is treated as if it were not in the log, and so is a record without a time. A
line that cannot be parsed has no time; it is a parse error as in a run without a range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from elfmesh.errors import DataError, UsageError
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.parsers.base import LazyArrays
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows


class TimeRange(Struct, frozen=True):
    """Event times from `begin_us` on and before `end_us`; None: no limit.

    Raises:
        UsageError: no time is in it.
    """

    begin_us: int | None = None
    end_us: int | None = None

    def __post_init__(self) -> None:
        if self.begin_us is not None and self.end_us is not None and self.begin_us >= self.end_us:
            raise UsageError("the range of times ends before it begins", hint="Exchange both times.")

    @property
    def is_all(self) -> bool:
        """Return whether every record is in the range, also one without a time."""
        return self.begin_us is None and self.end_us is None


class RangeFilter(Struct):
    """Filter of the input of one run.

    Attributes:
        inside, outside, undated: records so far, by their time.
    """

    range: TimeRange
    inside: int = 0
    outside: int = 0
    undated: int = 0

    def within(self, parsed: Parsed, column: str, wanted: Sequence[str]) -> Parsed:
        """Return the records of a block whose time in `column` is in the range, with the wanted columns."""
        records = BlockRows(parsed.arrays, parsed.rows)
        begin, end = self.range.begin_us, self.range.end_us
        kept = records.within(
            column, INT64_MIN if begin is None else begin, INT64_MAX if end is None else end - 1
        )
        keep = kept.among(records)
        missing = records.times(column).missing
        undated = 0 if missing is None else int(np.count_nonzero(missing))
        records.release()
        self.inside += kept.rows
        self.undated += undated
        self.outside += parsed.rows - kept.rows - undated
        place = np.cumsum(keep) - 1
        return replace(
            parsed,
            arrays=_filtered(parsed.arrays, wanted, pa.array(keep)),
            rows=kept.rows,
            lines=kept.rows + parsed.errors,
            unfit=[int(place[row]) for row in parsed.unfit if keep[row]],
        )

    def check(self, columns: Sequence[str]) -> None:
        """Raise DataError if there are records and none of them has a time, because all would be outside."""
        if self.undated and not self.inside and not self.outside:
            hint = "Specify a format with a time; `elf describe log FILE` shows the columns."
            names = " or ".join(columns)
            raise DataError(f"a range of times needs a time, and no record has one in {names}", hint=hint)


def _filtered(arrays: Mapping[str, pa.Array], wanted: Sequence[str], keep: pa.Array) -> LazyArrays:
    return LazyArrays({name: partial(_column, arrays, name, keep) for name in wanted})


def _column(arrays: Mapping[str, pa.Array], name: str, keep: pa.Array) -> pa.Array:
    return arrays[name].filter(keep)
