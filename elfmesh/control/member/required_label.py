"""Checks the label of a new version of a job against `[coordination] require` of this agent's configuration.

The agent knows this text alone, so results that the job reads count as Async; the text of each job is checked
against its own rule. A version that runs is not checked again, so a changed setting takes effect on the next
version.

Paper: Blazes V-A.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from elfmesh import ql
from elfmesh.control.jobs.policy import required_label
from elfmesh.errors import QueryError

TEXTS_MAX = 256


OWN = "[coordination] of this agent"


def label_refusal(require: Mapping[str, str], job: str, text: str, by: str = OWN) -> str:
    """Return why a new version of a job, "namespace/name", is refused; "" if it is accepted.

    `by` is what requires the label, for the message.
    """
    wanted = required_label(require, job)
    if wanted is None:
        return ""
    try:
        label, cause = _labelled(text, wanted)
    except QueryError as error:
        return str(error)
    if not label:
        return ""
    return f"its label is {label}, and {by} requires {wanted}: {cause}"


@lru_cache(maxsize=TEXTS_MAX)
def _labelled(text: str, wanted: str) -> tuple[str, str]:
    """Return the label of a text's final rows and its cause; ("", "") if the label is not above `wanted`."""
    # imported here, so that an agent without this setting does not load the analysis
    from elfmesh.control.coordination.analysis import analyse
    from elfmesh.control.coordination.findings import cause
    from elfmesh.control.coordination.labels import LABELS
    from elfmesh.control.coordination.statements import dataflow
    from elfmesh.control.jobs.graph import job_graph

    analysis = analyse(dataflow(job_graph([ql.parse(text)])))
    for name, label in analysis.outputs.items():
        worst = max(label.severity, analysis.otherwise.get(name, label.severity))
        if name not in analysis.graph.provisional and worst > LABELS[wanted]:
            return analysis.shown(name), cause(analysis, name)[0]
    return "", ""
