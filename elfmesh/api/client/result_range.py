"""Which intervals a range of results has: converts counts and times to numbers of intervals.

The intervals of a job are numbered without gaps, and each is as long as the slide of the window. A time is
therefore converted from one record. Records without rows are read, never the rows.
"""

from __future__ import annotations

import datetime
import http.client
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from elfmesh.units import parse_duration_us

GROWTH = 4
"""Factor from one attempt to the next. A run of empty intervals is one record, so that the first attempt may
read too few."""


class ResultSource(Protocol):
    """Interface of a client that reads results."""

    @property
    def address(self) -> str:
        """Address of the agent."""
        ...

    def offsets(self, job: str) -> dict[str, Any]:
        """Return the first and the last interval of a results log."""
        ...

    def describe(self, job: str) -> dict[str, Any]:
        """Return the details of a job."""
        ...

    def results(
        self, job: str, *, start: int | None, limit: int | None = ..., state: str = ..., rows: bool
    ) -> Iterator[dict[str, Any]]:
        """Yield the records from `start` on, with or without their rows."""
        ...

    def open(
        self, method: str, target: str, *, timeout_s: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and return the connection and the unread response."""
        ...


def first_of_last(client: ResultSource, job: str, count: int) -> int | None:
    """Return the number of the first of the newest `count` records; None if there is no record."""
    offsets = client.offsets(job)
    earliest, latest = offsets["earliest"], offsets["latest"]
    span = count
    while latest >= earliest:
        start = max(earliest, latest - span + 1)
        found = [record["interval"]["index"] for record in client.results(job, start=start, rows=False)]
        if len(found) >= count:
            return int(found[-count])
        if start == earliest:
            return int(found[0]) if found else None
        span *= GROWTH
    return None


def interval_from(client: ResultSource, job: str, time: datetime.datetime) -> int | None:
    """Return the number of the first interval that starts at `time` or later; None if there is no record."""
    latest = client.offsets(job)["latest"]
    for record in client.results(job, start=latest, limit=1, rows=False):
        return index_from(record["interval"], client.describe(job)["window"]["slide"], time)
    return None


def index_from(interval: Mapping[str, Any], slide: str, time: datetime.datetime) -> int:
    """Return the number of the first interval that starts at `time` or later, computed from another one."""
    start = datetime.datetime.fromisoformat(interval["start"])
    length = datetime.timedelta(microseconds=parse_duration_us(slide))
    return int(interval["index"]) - (start - time) // length
