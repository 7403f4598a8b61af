"""ALERT of a job as data; `ql.lowering.alerts` reads it, `control.jobs.alerts` evaluates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from elfmesh.ql.values.compared import PartlyCompared


class AlertClause(PartlyCompared, frozen=True):
    """ALERT of a job: when its condition is true `lasting` intervals long, it fires.

    It resolves after `resolve` intervals in which it is false. `partial`: partial records are evaluated too.
    `compared` has the columns of a condition like `a > 1 AND b > 2`; None: it has another form.
    """

    aside: ClassVar[frozenset[str]] = frozenset({"at"})
    name: str
    condition: str
    lasting: int
    resolve: int
    partial: bool = False
    compared: tuple[str, ...] | None = None
    at: int = 0

    def query(self, columns: Sequence[str]) -> str:
        """Return the query over the rows of a record that has some columns of the rows it is true for."""
        names = ", ".join(f"`{name}`" for name in columns)
        return f"SELECT {names} FROM results WHERE ({self.condition})"
