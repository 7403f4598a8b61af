"""The tables of `elf sql --api`: streams and jobs of the fleet. `elf query` runs each statement."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elfmesh.api.client.client import Client
from elfmesh.cli.common import text_of
from elfmesh.cli.jobs.query import ask_jobs
from elfmesh.cli.jobs.stream_query import ask_streams, range_clause
from elfmesh.cli.local.log_options import option_of
from elfmesh.control.jobs.manifest import split_name
from elfmesh.errors import DataError, ElfError, UsageError
from elfmesh.ql import job_read, parse
from elfmesh.text import suggest
from elfmesh.units import format_duration, parse_duration_us


class FleetTables:
    """Streams and jobs as tables.

    Args:
        client: client of any agent.
        history_us: how far back a statement reads streams.
    """

    def __init__(self, client: Client, history_us: int) -> None:
        self._client, self._history_us = client, history_us

    def history(self, duration: str) -> str:
        """Set how far back a statement reads streams, unless `duration` is empty, and return it."""
        if duration:
            with option_of(".history"):
                self._history_us = parse_duration_us(duration)
        return format_duration(self._history_us)

    def run(self, text: str, source: str, output: str, output_file: Path | None) -> None:
        """Run a query over streams, or over the newest results of jobs, as `elf query` does."""
        statement = parse(text, source=source)
        if statement.job is not None:
            raise UsageError(
                "elf sql creates no jobs", hint="Write the job to a file, and use `elf apply -f`."
            )
        if all(job_read(name) or self._is_job(name) for name in statement.streams):
            ask_jobs(self._client, text, output, output_file, source=source)
            return
        ask_streams(
            self._client, text, range_clause(self._history_us, None), source=source, wait_us=None,
            namespace="adhoc", complete=False, output=output, output_file=output_file,
        )  # fmt: skip

    def listing(self) -> list[dict[str, Any]]:
        """Return name, kind and description of each table."""
        found = [
            {"name": row["stream"], "kind": "stream", "about": text_of(row.get("formats"))}
            for row in self._client.get("streams")
        ]
        return found + [
            {"name": str(row["job"]).replace("/", "."), "kind": "job", "about": text_of(row.get("state"))}
            for row in self._client.get("jobs")
            if not row.get("leased")
        ]

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Return name and type of each column of a table. The type is empty if it is not known.

        Raises:
            DataError: there is no such table, or its columns are not known.
        """
        for row in self._client.get("streams"):
            if row["stream"] == name:
                return _columns_of_stream(row)
        if "." not in name and not self._is_job(name):
            names = [str(each["name"]) for each in self.listing()]
            raise DataError(f"there is no table {name}", hint=suggest(name, names) or "`.tables` lists them.")
        return self._columns_of_job("/".join(split_name(name)))

    def _is_job(self, name: str) -> bool:
        """Return whether a name without a dot is a job of the default namespace, and no stream."""
        if any(row["stream"] == name for row in self._client.get("streams")):
            return False
        qualified = "/".join(split_name(name))
        return any(row["job"] == qualified for row in self._client.get("jobs"))

    def _columns_of_job(self, job: str) -> list[tuple[str, str]]:
        from elfmesh.api.client.live import arrow_tables
        from elfmesh.control.jobs.spark_types import HEAD, type_name

        statement = parse(str(self._client.describe(job)["text"]), source=job)
        latest = int(self._client.offsets(job)["latest"])
        types: dict[str, str] = {}
        for table in arrow_tables(self._client, job, latest - 1, latest, types="own"):
            types = {each.name: type_name(each.type) for each in table.schema}
        return [(name, types.get(name, "")) for name in (*statement.columns, *HEAD.names)]


def _columns_of_stream(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    from elfmesh.control.jobs.spark_types import type_name
    from elfmesh.ingest.parsers import static_schema

    name, formats = row["stream"], row.get("formats") or []
    if not row.get("columns"):
        hint = f"`elf tap {name}` shows lines."
        raise DataError(f"the columns of {name} are those of its lines ({', '.join(formats)})", hint=hint)
    types: dict[str, str] = {}
    for each in formats:
        with contextlib.suppress(ElfError):  # a format with settings, which only its agents know
            types |= {column.name: type_name(column.type) for column in static_schema(each) or ()}
    return [(column, types.get(column, "")) for column in row["columns"]]
