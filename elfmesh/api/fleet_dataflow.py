"""The dataflow of the jobs that a fleet runs, from their texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from elfmesh.api.fleet_jobs import ask_all, job_rows
from elfmesh.control.coordination.graph import Graph
from elfmesh.control.coordination.statements import dataflow, shown
from elfmesh.control.jobs.graph import job_graph
from elfmesh.errors import QueryError
from elfmesh.ql import parse

if TYPE_CHECKING:
    from elfmesh.api.client.client import Client

LOST = "no agent answers with its text"


def fleet_dataflow(texts: Mapping[str, str | None]) -> Graph:
    """Return the dataflow of jobs by their names; a job whose text is None or cannot be read is a note.

    Cost: 1 to 2 ms for each text that this process has not parsed before.
    """
    statements, notes = [], []
    for name, text in sorted(texts.items()):
        if text is None:
            notes.append(f"job {shown(name)} is left out: {LOST}")
            continue
        try:
            statements.append(parse(text, source=shown(name)))
        except QueryError as error:
            notes.append(f"job {shown(name)} is left out: {error.message}")
    graph = dataflow(job_graph(statements))
    return replace(graph, notes=(*graph.notes, *notes))


def fleet_texts(client: Client) -> dict[str, str | None]:
    """Ask an agent for the texts of all jobs; None if the agent has no answer for a job.

    Raises:
        ElfError: the agent does not answer, or refuses the list of jobs.
    """
    rows = job_rows(client.get("jobs"))
    found = ask_all(client, rows).described
    return {str(row["job"]): found.get(str(row["job"]), {}).get("text") for row in rows}
