"""Writes the results of a job to a Parquet file, with the types of the job and not those of its JSON."""

from __future__ import annotations

from pathlib import Path

from elfmesh.api.client.client import Client


def write_parquet(
    client: Client,
    job: str,
    path: Path,
    bounds: tuple[int | None, int | None],
    limit: int | None,
    *,
    state: str,
) -> None:
    """Write the rows of the intervals in [start, stop) of `bounds`, and at most `limit` records."""
    from elfmesh.api.client.live import arrow_tables
    from elfmesh.local.parquet_file import parquet_file

    start, stop = bounds
    offsets = client.offsets(job)
    first = offsets["earliest"] if start is None else max(start, offsets["earliest"])
    last = offsets["latest"] + (1 if state == "all" else 0) if stop is None else stop - 1
    if limit is not None:
        heads = client.results(job, start=first, limit=limit, state=state, rows=False)
        last = min(last, max((each["interval"]["index"] for each in heads), default=first))
    with parquet_file(path) as found:
        for table in arrow_tables(client, job, first - 1, last, state=state):
            found.write(table)
