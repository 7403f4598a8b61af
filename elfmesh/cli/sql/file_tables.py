"""The tables of `elf sql FILE...`: log files, and the jobs that have run. `elf run` runs each statement."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elfmesh.cli.local.log_options import all_paths, option_of, settings_of
from elfmesh.cli.local.run import run_one, whole_answer
from elfmesh.control.jobs.manifest import split_name
from elfmesh.errors import DataError, UsageError
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ingest.sources.blocks import is_pipe
from elfmesh.local.named_logs import declared_columns
from elfmesh.ql import parse
from elfmesh.text import suggest

ANY_NAME = "log"
"""Name under which the files are listed if any name after FROM refers to them."""

SCHEMA_LINES = 1000
"""Number of lines from which the columns of a file are found."""


class FileTables:
    """Log files as tables.

    Args:
        logs: the FILE arguments.
        given: the values of `log_options`.
    """

    def __init__(self, logs: Sequence[str], given: Mapping[str, Any]) -> None:
        self._settings = settings_of(logs, given)
        self._paths = all_paths(self._settings["streams"], logs)
        for path in self._paths:
            if is_pipe(path):
                hint = "Save it to a file, or use `elf run`."
                raise UsageError(f"{path} is a pipe, which only one statement can read", hint=hint)
        self._jobs = JobRows()

    def run(self, text: str, source: str, output: str, output_file: Path | None) -> None:
        """Run a statement as `elf run` does. Later statements can read the results of a job."""
        declared = declared_columns(self._settings["streams"])
        statement = parse(text, source=source, declared=declared)
        self._settings["lookups"].refresh()
        options = {**self._settings, "sample": None, "live": False, "follow": False, "jobs": self._jobs}
        with whole_answer(output_file) as file, contextlib.ExitStack() as after:
            paths = self._paths if statement.streams else []
            run_one(statement, paths, output, {**options, "file": file}, after)

    def listing(self) -> list[dict[str, Any]]:
        """Return name, kind and description of each table."""
        streams = {name: paths for name, (paths, _) in self._settings["streams"].items()}
        found = [
            {"name": name, "kind": "stream", "about": ", ".join(paths)}
            for name, paths in (streams or {ANY_NAME: self._paths}).items()
        ]
        found += [
            {"name": job.replace("/", "."), "kind": "job", "about": "results of this session"}
            for job in self._jobs.schemas()
        ]
        found += [
            {"name": f"lookup.{name}", "kind": "lookup", "about": ""}
            for name in self._settings["lookups"].names
        ]
        return found

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Return name and type of each column of a table.

        Raises:
            DataError: there is no such table, or its format is unknown.
        """
        from elfmesh.control.jobs.spark_types import type_name

        streams = self._settings["streams"]
        if not streams and name == ANY_NAME:
            return self._columns_of_log(self._paths, self._format())
        if name in streams:
            return self._columns_of_log(*streams[name])
        schema = self._jobs.schemas().get("/".join(split_name(name))) if "." in name else None
        if schema is None:
            names = [each["name"] for each in self.listing() if each["kind"] != "lookup"]
            raise DataError(f"there is no table {name}", hint=suggest(name, names) or "`.tables` lists them.")
        return [(each.name, type_name(each.type)) for each in schema]

    def history(self, duration: str) -> str:
        """Refuse, because files are read from beginning to end."""
        raise UsageError(".history is for streams of a fleet, and these are files", hint="Use WHERE ts > ...")

    def _format(self) -> Any:
        from elfmesh.ingest.stream_formats import run_format

        spec, lines = self._settings["format"]
        with option_of("--format"):
            return run_format(spec, host=socket.gethostname(), **lines)

    def _columns_of_log(self, paths: Sequence[str], formats: Any) -> list[tuple[str, str]]:
        from elfmesh.local.log_profile import profile

        found: dict[str, list[str]] = {}
        for path in paths[:1]:
            for each in profile(path, formats, sample=SCHEMA_LINES).columns:
                found[each.name] = each.types
        return [(name, " or ".join(types) or "VOID") for name, types in found.items()]
