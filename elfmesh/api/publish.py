"""Publishes a table to running jobs, which join it or filter by it.

A job takes part if its text declares `TABLE name(...)`. Its next version is the same text with other rows in
this table. Therefore agents verify and acknowledge the table, it becomes active at one interval boundary, and
`elf rollout undo` restores the previous table.

The module owns the choice of the jobs and the conversion of rows to the declared columns. It does not know
Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from elfmesh import ql
from elfmesh.api.client.client import Client
from elfmesh.arrow_kernels import pc
from elfmesh.control.protocol.replies import Description, read_reply
from elfmesh.errors import DataError, RuntimeFailure
from elfmesh.ql.plan.inline import InlineTable, packed


def publish_table(
    table: pa.Table, name: str, *, client: Client, jobs: Sequence[str] = (), dry_run: bool = False
) -> list[dict[str, Any]]:
    """Give running jobs a new version of a table.

    Args:
        table: rows with at least the columns that the jobs declare.
        name: name of the table; queries use it as `lookup.name`.
        client: client of any agent.
        jobs: names of jobs; none: all jobs that declare the table.
        dry_run: only report what would happen.

    Returns:
        The answer of the update of each job, with "job", "table", "digest", "rows" and "bytes".

    Raises:
        DataError: the rows do not fit the declared columns, are too many, or contain a key twice.
        RuntimeFailure: no job declares the table.
        Unreachable: no agent answers.
    """
    found = {}
    for job in jobs or sorted({str(row["job"]) for row in client.get("jobs")}):
        text = read_reply(Description, client.describe(job)).text
        declared = declared_table(text, name)
        if declared is not None:
            found[job] = text, declared
        elif jobs:
            raise RuntimeFailure(f"job {job} declares no table {name}", hint=_hint(name, table))
    if not found:
        raise RuntimeFailure(f"no running job declares a table {name}", hint=_hint(name, table))
    texts = {job: filled(text, declared, table) for job, (text, declared) in found.items()}
    for text, _ in texts.values():
        ql.parse(text)  # all texts, before the first job is changed
    answers = []
    for job, (text, version) in texts.items():
        reported = {"job": job, "table": name, "digest": version.digest, "rows": table.num_rows}
        answers.append(client.update(job, text, dry_run=dry_run) | reported | {"bytes": len(version.data)})
    return answers


def declared_table(text: str, name: str) -> InlineTable | None:
    job = ql.parse(text).job
    return next((each for each in job.tables if each.name == name), None) if job is not None else None


def filled(text: str, declared: InlineTable, table: pa.Table) -> tuple[str, InlineTable]:
    """Return the text with these rows in its table, and the table. Raises DataError if they do not fit."""
    data = packed(_fitted(table, declared))
    start, end = declared.span
    version = InlineTable(declared.name, declared.columns, data, declared.span)
    return f"{text[:start]} AS $$ {data} $${text[end:]}", version


def _fitted(table: pa.Table, declared: InlineTable) -> pa.Table:
    columns = []
    for field in declared.schema:
        where = f"column {field.name} of table {declared.name}"
        if field.name not in table.column_names:
            raise DataError(f"is missing; there are {', '.join(table.column_names)}", where=where)
        try:
            columns.append(pc.cast(table.column(field.name), field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"does not fit {field.type}: {str(error).splitlines()[0]}", where=where) from None
    return pa.Table.from_arrays(columns, schema=declared.schema)


def _hint(name: str, table: pa.Table) -> str:
    columns = ", ".join(f"{column} ..." for column in table.column_names[:3])
    return (
        f"Declare it in the job: CREATE JOB ... TABLE {name}({columns}) AS SELECT ... JOIN lookup.{name} ..."
    )
