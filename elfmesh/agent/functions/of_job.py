"""The Python functions of one job at one agent: who evaluates them, and what they have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from elfmesh.agent.functions.evaluator import Evaluator
from elfmesh.agent.functions.host import FunctionHost
from elfmesh.control import ql
from elfmesh.control.terms import Stage

NOTES_MAX = 3
"""Newest reasons kept for people."""


class JobFunctions:
    """None, until `admit`.

    Attributes:
        evaluators: by version.
    """

    def __init__(self) -> None:
        self.evaluators: Mapping[int, Evaluator] = {}
        self._notes: dict[str, None] = {}

    def admit(self, host: FunctionHost, stages: Sequence[Stage]) -> None:
        """Have the functions of all versions checked; raises what `FunctionHost.open` does."""
        self.evaluators = host.open(stages, self._note)

    def close(self) -> None:
        """End their processes; harmless when repeated."""
        for evaluator in self.evaluators.values():
            evaluator.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """What went wrong of late."""
        return tuple(self._notes)

    @property
    def problem(self) -> str:
        """Why the functions of a version are off; "" if none are."""
        return next((each.problem for each in self.evaluators.values() if each.problem), "")

    def _note(self, text: str) -> None:
        self._notes[text] = None
        while len(self._notes) > NOTES_MAX:
            del self._notes[next(iter(self._notes))]


def has_functions(stages: Sequence[Stage]) -> bool:
    """Whether a version brings Python functions: it waits for a process then, and shares no reader."""
    return any(ql.parse(stage.manifest.text).functions for stage in stages)
