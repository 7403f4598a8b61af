"""Annotations of paths and labels of streams.

Paper: Blazes IV-A, Figure 7 (annotations), extended Figure 8 (labels, by severity).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from elfmesh.control.coordination.attributes import Columns, Seal


class Severity(IntEnum):
    """What may differ: nothing but the order, between runs, between instances for a while, or permanently."""

    ASYNC = 2
    RUN = 3
    INST = 4
    DIVERGE = 5

    def __str__(self) -> str:
        return self.name.capitalize()


LABELS = {str(each): each for each in Severity}


@dataclass(frozen=True, slots=True)
class Annotation:
    """Whether a path is order-sensitive (O) or confluent (C), and writes state (W) or reads only (R).

    `gates` are the partitions over which an order-sensitive path works: a seal must fit all of them. An
    order-sensitive path without gates has an unknown gate, which no seal fits.
    """

    order_sensitive: bool
    writes: bool
    gates: tuple[frozenset[str], ...] = ()

    @property
    def severity(self) -> int:
        """Return 1 to 4, as the paper's Figure 7 numbers them."""
        return 1 + self.writes + 2 * self.order_sensitive

    @property
    def kind(self) -> str:
        return ("O" if self.order_sensitive else "C") + ("W" if self.writes else "R")

    def __str__(self) -> str:
        gates = ", ".join("(" + ", ".join(sorted(gate)) + ")" for gate in self.gates)
        return self.kind + (f" {gates or '(unknown)'}" if self.order_sensitive else "")


KINDS = {each.kind: each for each in (Annotation(o, w) for o in (False, True) for w in (False, True))}


def annotated(kind: str, *gates: Iterable[str]) -> Annotation:
    """Return an annotation by its name, such as "OR", with its gates."""
    base = KINDS[kind]
    return Annotation(base.order_sensitive, base.writes, tuple(frozenset(gate) for gate in gates))


@dataclass(frozen=True, slots=True)
class StreamLabel:
    """Label of the records at one place of a dataflow.

    Attributes:
        severity: the anomaly that may occur.
        seals: what is punctuated. The paper's Seal label is an Async label with seals.
        columns: the meaning of the names there.
        once: whether no record arrives twice.
        conditions: what must hold of a record, by its own counts, for the label to hold.
    """

    severity: Severity
    columns: Columns
    seals: frozenset[Seal] = frozenset()
    once: bool = True
    conditions: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        seals = "; ".join(sorted(map(str, self.seals)))
        if seals and self.severity is Severity.ASYNC:
            return f"Seal ({seals})"
        return str(self.severity) + (f", sealed ({seals})" if seals else "")
