"""Python functions of simulated agents, evaluated inside the process of the test.

Owns a gate that admits versions with functions unsigned. Only signatures, processes and confinement are
replaced: a worker gets the values of a function from this source as it gets them from a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.jobs.terms import Stage
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.signatures import Admission, Signatures, Trust
from elfmesh.ingest.functions.evaluator import Evaluator
from elfmesh.ingest.functions.host import FunctionHost
from elfmesh.ingest.functions.process import Limits
from elfmesh.ql.expressions.python_function import Computed, PythonFunction
from elfmesh.storage.storage import Storage


class Evaluated:
    """`FunctionSource` of functions of single values."""

    problem = ""

    def call(self, function: PythonFunction, columns: Sequence[pa.Array], rows: int) -> Computed:
        found: dict[str, Any] = {}
        exec(function.source, found)
        values = zip(*(column.to_pylist() for column in columns), strict=True)
        return Computed(pa.array([found[function.name](*each) for each in values], function.gives), None)

    def close(self) -> None:
        """Nothing was started."""


class OpenFunctions(FunctionHost):
    """The functions of one agent."""

    def open(
        self,
        stages: Sequence[Stage],
        admissions: Mapping[int, Admission],
        note: Callable[[str], None] = lambda _text: None,
    ) -> dict[int, Evaluator]:
        versions = [each.evaluated for each in stages if ql.parse(each.manifest.text).functions]
        return dict.fromkeys(versions, cast("Evaluator", Evaluated()))


class OpenGate(AuthorityGate):
    """The gate of an agent that runs every function."""

    def __init__(self, storage: Storage, wall_us: Callable[[], int]) -> None:
        signatures = Signatures(Trust(), storage, wall_us)
        super().__init__(policy=OPEN, functions=OpenFunctions(signatures, Limits(), wall_us))

    def trial(self, manifest: Manifest) -> str:
        return ""

    def admit(self, stages: Sequence[Stage]) -> dict[int, Admission]:
        return {}
