"""One interval of a result for Python programs: its record as typed fields, its rows as Arrow or pandas.

The fields are those that `elf run -o json` and `elf results -o json` print; times are datetimes in UTC.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from elfmesh.errors import DataError
from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")

ROWS_SHOWN = 20
"""Number of rows that a notebook shows."""


@dataclass(frozen=True, slots=True)
class ResultInterval:
    """One interval of a job or of a query.

    Attributes:
        job: name of the job; the source of the text if it is no job.
        index: number of the interval.
        start: its begin; None for a query without windows.
        end: its end.
        state: "FINAL", "FINAL_PARTIAL", "SKIPPED", "TENTATIVE" or "EARLY".
        rev: number of the revision, from 1.
        completeness: share of the expected agents whose records are in the rows; None for early rows.
        fidelity: share of the input that the rows represent; None for early rows.
        agents_in: number of agents in the result.
        agents_expected: number of agents that it expects.
        missing: names of the agents that are missing.
        version: version of the job.
        counts: records by what became of them.

    Example:
        >>> import elfmesh
        >>> query = "SELECT product, COUNT(*) AS n FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' DAY), product"
        >>> (day,) = elfmesh.run(query, "clicks.ndjson").intervals
        >>> day.start.year, day.state, day.rows
        (2015, 'FINAL', [{'product': 'lamp', 'n': 3}])
    """

    job: str
    index: int
    start: datetime | None
    end: datetime | None
    state: str
    rev: int
    completeness: float | None
    fidelity: float | None
    agents_in: int
    agents_expected: int
    missing: tuple[str, ...]
    version: int
    counts: Mapping[str, int]
    content: pa.Table | Sequence[Mapping[str, Any]] = field(repr=False, compare=False)

    @classmethod
    def of(cls, record: Mapping[str, Any], table: pa.Table | None = None) -> ResultInterval:
        """Return the interval of a record of `Client.results`, with its rows or those of `table`."""
        interval, agents = record["interval"], record["agents"]
        return cls(
            job=record["job"],
            index=interval["index"],
            start=_time(interval["start"]),
            end=_time(interval["end"]),
            state=record["state"],
            rev=record["rev"],
            completeness=record.get("completeness"),
            fidelity=record.get("fidelity"),
            agents_in=agents["in"],
            agents_expected=agents["expected"],
            missing=tuple(agents.get("missing", ())),
            version=record["version"],
            counts=record.get("counts", {}),
            content=record.get("rows", ()) if table is None else table,
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts, in the order of the query."""
        if isinstance(self.content, Sequence):
            return [dict(row) for row in self.content]
        rows: list[dict[str, Any]] = self.content.to_pylist()
        return rows

    def to_arrow(self) -> pa.Table:
        """Return the rows as a pyarrow table. Rows that an agent sent as JSON have the types of JSON."""
        if isinstance(self.content, Sequence):
            return pa.Table.from_pylist([dict(row) for row in self.content])
        return self.content

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        time = "" if self.start is None else f", {self.start:%Y-%m-%d %H:%M:%S} .. {self.end:%H:%M:%S} UTC"
        table = self.to_arrow()
        return html_of(f"{self.job}: interval {self.index}{time}, {self.state}", table)


def _time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise DataError(f"{text} is outside of the years of Python's datetime") from None


def html_of(caption: str, table: pa.Table) -> str:
    """Return the first rows of a table as HTML, with all text escaped."""
    head = _cells("th", table.column_names)
    rows = "".join(_cells("td", row.values()) for row in table.slice(0, ROWS_SHOWN).to_pylist())
    more = f" ({ROWS_SHOWN} of {table.num_rows} rows)" if table.num_rows > ROWS_SHOWN else ""
    return f"<table><caption>{html.escape(caption + more)}</caption>{head}{rows}</table>"


def _cells(tag: str, values: Iterable[Any]) -> str:
    cells = ("" if value is None else html.escape(str(value)) for value in values)
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"
