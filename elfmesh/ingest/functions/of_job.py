"""Admissions of one job at one agent: their expiry, and the evaluators of its Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from elfmesh import ql
from elfmesh.control.jobs.signing import REVOKED
from elfmesh.control.jobs.terms import Stage
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.signatures import Admission
from elfmesh.ingest.functions.evaluator import Evaluator

NOTES_MAX = 3
"""Number of the newest reasons that are kept for display."""


class Grouping(Protocol):
    """Interface of the evaluator of a job."""

    @property
    def groups(self) -> int: ...


class JobFunctions:
    """Evaluators and required admissions of a job by version; empty before `admit`."""

    def __init__(self) -> None:
        self.evaluators: Mapping[int, Evaluator] = {}
        self.admissions: Mapping[int, Admission] = {}
        self._groups_max: int | None = None
        self._notes: dict[str, None] = {}

    def admit(self, gate: AuthorityGate, stages: Sequence[Stage], wall_us: Callable[[], int]) -> None:
        """Check all versions. Raises what `Gate.admit` and `check` raise."""
        self.admissions = gate.admit(stages)
        grant = gate.policy.grant(stages[0].manifest.namespace)
        self._groups_max = None if grant is None else grant.groups
        self.evaluators = gate.functions.open(stages, self.admissions, self._note)
        self.check(wall_us())

    def check(self, now_us: int) -> None:
        """Raise if the admission of a version without functions has ended; the others count failed records.

        An interval keeps the version with which it began, so an older version may expire before it ends.
        """
        for version, admission in self.admissions.items():
            why = admission.over(now_us)
            counts = why == REVOKED or version == max(self.admissions)
            if version not in self.evaluators and why and counts:
                raise RuntimeFailure(f"version {version} may no longer run here: {why}")

    def check_groups(self, worker: Grouping) -> None:
        """Raise if the open intervals have more rows than the job's namespace may have here."""
        if self._groups_max is not None and (groups := worker.groups) > self._groups_max:
            raise RuntimeFailure(
                f"open intervals hold {groups} groups here, over the {self._groups_max} of its namespace",
                hint="Group by fewer keys, or raise groups in the agent's own configuration.",
            )

    def close(self) -> None:
        for evaluator in self.evaluators.values():
            evaluator.close()

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    @property
    def problem(self) -> str:
        return next((each.problem for each in self.evaluators.values() if each.problem), "")

    def _note(self, text: str) -> None:
        self._notes[text] = None
        while len(self._notes) > NOTES_MAX:
            del self._notes[next(iter(self._notes))]


def has_functions(stages: Sequence[Stage]) -> bool:
    """Return whether a version has Python functions.

    Such a job waits for a process, so it does not share a reader.
    """
    return any(ql.parse(stage.manifest.text).functions for stage in stages)
