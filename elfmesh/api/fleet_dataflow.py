"""The dataflow of the jobs and topics that a fleet runs, from their texts, with the programs of files.

A fleet knows the names of the programs that are attached, and not what their callbacks do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from elfmesh.api.fleet_jobs import ask_all, job_rows
from elfmesh.control.coordination.declared import DeclaredProgram
from elfmesh.control.coordination.graph import Graph
from elfmesh.control.coordination.program_flows import with_programs
from elfmesh.control.coordination.statements import dataflow, shown
from elfmesh.control.jobs.graph import JobSink, job_graph
from elfmesh.errors import QueryError
from elfmesh.ql import parse

if TYPE_CHECKING:
    from elfmesh.api.client.client import Client

LOST = "no agent answers with its text"


def fleet_dataflow(
    texts: Mapping[str, str | None],
    programs: Sequence[DeclaredProgram] = (),
    sinks: Sequence[JobSink] = (),
    attached: Iterable[str] = (),
) -> Graph:
    """Return the dataflow of jobs by their names; a job whose text is None or cannot be read is a note.

    An attached program that is not among the programs is a note as well.

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
    known = {each.name for each in programs}
    notes += [
        f"program {shown(name)} is left out: the fleet does not know its paths; name its file after --fleet"
        for name in dict.fromkeys(attached)
        if name not in known
    ]
    graph = with_programs(dataflow(job_graph(statements, sinks)), programs)
    return replace(graph, notes=(*graph.notes, *notes))


def attached_programs(client: Client) -> list[str]:
    """Ask an agent for the names of the programs beside all agents. Raises as `fleet_texts`."""
    rows = [each for agent in client.get("agents") for each in agent.get("programs") or ()]
    return sorted({str(each["program"]) for each in rows})


def fleet_texts(client: Client) -> dict[str, str | None]:
    """Ask an agent for the texts of all jobs; None if the agent has no answer for a job.

    Raises:
        ElfError: the agent does not answer, or refuses the list of jobs.
    """
    rows = job_rows(client.get("jobs"))
    found = ask_all(client, rows).described
    return {str(row["job"]): found.get(str(row["job"]), {}).get("text") for row in rows}
