"""The topology of a running job, for planners: its members by input, and what joins or unites the inputs.

A pure function of a job's description and the list of agents. Reducers are left out, because they lose
nothing: members contribute again what a lost reducer held.

Paper: PPA II-A. Deviation: a member that reads several inputs is a task of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from elfmesh.api.what_if import domain_values, failure_domains
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import read_plan
from elfmesh.errors import DataError
from elfmesh.ql.plan.fidelity_shape import FidelityShape

MASTER = "master"
"""Name of the operators that join or unite inputs, each with one task, which is in no failure domain."""


def job_topology(agents: Sequence[Mapping[str, Any]], job: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the values of a topology's JSON.

    Args:
        agents: rows of `elf get agents`.
        job: description of the job.
        label: label whose values are the failure domains of the tasks.

    Raises:
        DataError: the job has no members, or no agent has the label.
    """
    plan = read_plan(str(job["text"]))
    members = [each for each in job["roster"]["agents"] if not each["dead"]]
    if plan.has_no_members or not members:
        hint = f"Plan for {', '.join(plan.jobs)}." if plan.reads else ""
        raise DataError("the job has no members on agents", where=str(job["job"]), hint=hint)
    domain_values(agents, label)
    found = {str(each["name"]): failure_domains(each).get(label) for each in agents}
    rates = Rates()
    for each in members:
        rates.reported(int(each["number"]), each.get("usual_records") or ())
    return {"operators": _Writer(members, found, rates, plan.sources, label).operators(plan.shape)}


class _Writer:
    def __init__(
        self,
        members: Sequence[Mapping[str, Any]],
        domains: Mapping[str, str | None],
        rates: Rates,
        sources: Sequence[str],
        label: str,
    ) -> None:
        self._members, self._domains, self._rates = members, domains, rates
        self._sources, self._label = sources, label
        self._shared = Counter(str(each["agent"]) for each in members)
        self._operators: list[dict[str, Any]] = []

    def operators(self, shape: FidelityShape) -> list[dict[str, Any]]:
        self._add(shape, only=len(shape.inputs) == 1)
        return self._operators

    def _add(self, shape: FidelityShape, *, only: bool) -> str:
        """Add the operators of a shape; return the name of its last, "" if it lacks nothing."""
        if shape.kind == "whole":
            return ""
        if shape.kind == "input":
            name = self._sources[shape.index] if only else f"{self._sources[shape.index]}.{shape.index + 1}"
            self._operators.append({"name": name, "tasks": self._tasks(shape.index, only=only)})
            return name
        names = [name for name in (self._add(each, only=only) for each in shape.sources) if name]
        if len(names) == 1:
            return names[0]
        name = f"{MASTER}.{len(self._operators)}"
        inputs = [{"from": each, "partitioning": "merge"} for each in names]
        task = {"name": name, "domains": []}
        correlated = shape.kind == "join"
        self._operators.append({"name": name, "inputs": inputs, "correlated": correlated, "tasks": [task]})
        return name

    def _tasks(self, at: int, *, only: bool) -> list[dict[str, Any]]:
        usual = [
            rate for each in self._members if (rate := self._rates.of(int(each["number"]), at)) is not None
        ]
        mean = sum(usual) / len(usual) if usual else 1.0  # of a member that has reported none, as for results
        tasks = []
        for each in self._members:
            agent, number = str(each["agent"]), int(each["number"])
            name = f"{agent}#{number}" if self._shared[agent] > 1 else agent
            rate, domain = self._rates.of(number, at), self._domains.get(agent)
            tasks.append(
                {
                    "name": name if only else f"{name} {self._sources[at]}.{at + 1}",
                    "rate": round(mean if rate is None else rate, 3),
                    "domains": [f"{self._label}={domain}"] if domain else [],
                }
            )
        return tasks
