"""Which intervals `elf results` prints: converts --last, --since and --until to numbers of intervals.

The intervals of a job are numbered without gaps, and each is as long as the slide of the window. A time is
therefore converted from one record. Records without rows are read, never the rows.
"""

from __future__ import annotations

import datetime

from elfmesh.api.client.client import Client
from elfmesh.errors import ConfigError, UsageError
from elfmesh.units import parse_duration_us

GROWTH = 4
"""Factor from one attempt to the next. A run of empty intervals is one record, so that the first attempt may
read too few."""


def first_of_last(client: Client, job: str, count: int) -> int | None:
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


def interval_from(client: Client, job: str, time: datetime.datetime) -> int | None:
    """Return the number of the first interval that starts at `time` or later; None if there is no record."""
    latest = client.offsets(job)["latest"]
    for record in client.results(job, start=latest, limit=1, rows=False):
        interval = record["interval"]
        start = datetime.datetime.fromisoformat(interval["start"])
        slide = datetime.timedelta(microseconds=parse_duration_us(client.describe(job)["window"]["slide"]))
        return int(interval["index"]) - (start - time) // slide
    return None


def parse_time(text: str, now: datetime.datetime, where: str) -> datetime.datetime:
    """Return a time: ISO 8601, in UTC unless it names an offset, or a duration before `now`.

    Raises:
        UsageError: neither of both.
    """
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - datetime.timedelta(microseconds=parse_duration_us(text))
        except (ConfigError, OverflowError):
            hint = 'Write a time ("2026-11-27T12:00") or how long ago it is ("10 min").'
            raise UsageError(f"{text!r} is not a time", where=where, hint=hint) from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
