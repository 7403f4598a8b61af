"""The rules that give the label of a path and of an output, in two sets.

`PAPER` is the published set taken literally, with S7, because without S7 the paper's own file does not give
its Diverge, and with S9 and S10, about which its tables are silent. `SOUND` adds our other rules. A rule is
one name in a set, so that a test can take it out.

Paper: Blazes V-A; extended version, Figure 9 (inference, rules 1 to 4 and p) and Figure 10 (reconciliation).

| rule | reason |
|---|---|
| S1 | only streams that write the state that is read can protect a read; labels of inputs stay in the set |
| S2 | a sealed stream is still unordered for an incompatible OR path |
| S3, S4 | a seal passes a path only if its key is still a column |
| S5, S6 | compatible by dependencies, and by the order of a time |
| S7 | a component is replicated if a replicated stream or component feeds it |
| S8 | a record that arrives twice changes a state that is not idempotent |
| S9 | an order of all inputs: fixed beforehand, or decided while running |
| S10, S11 | where streams meet; a state connects its writers with its readers |
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from elfmesh.control.coordination.attributes import (
    Attribute,
    Columns,
    Dependency,
    Seal,
    compatible,
    compatible_in_paper,
)
from elfmesh.control.coordination.graph import M1, M2, AnnotatedPath
from elfmesh.control.coordination.labels import Annotation, Severity, StreamLabel

_OURS = ("S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "lineage")


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules by their names; "lineage" keeps attributes apart that share a name."""

    name: str
    names: frozenset[str]

    def __contains__(self, rule: str) -> bool:
        return rule in self.names

    def without(self, rule: str) -> RuleSet:
        """Return the set without one rule, to see what the rule is for."""
        return replace(self, names=self.names - {rule})


SOUND = RuleSet("sound", frozenset(_OURS))
PAPER = RuleSet("paper", frozenset({"S7", "S9", "S10"}))
RULE_SETS = {each.name: each for each in (SOUND, PAPER)}


@dataclass(frozen=True, slots=True)
class PathInput:
    """What a rule sees of a path: its input, the other writers of its state, and the order of its inputs."""

    path: AnnotatedPath
    label: StreamLabel
    writers: tuple[tuple[AnnotatedPath, StreamLabel], ...]
    replicated: bool
    order: str
    dependencies: tuple[Dependency, ...]
    maker: str


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Label of a path.

    Attributes:
        kept: the label of the input, if it stays in the set.
        taint: the state depends on the order of arrival, or on a disagreement.
        read: the path reads contents too early (NDRead), unless reconciliation finds it protected.
        settled: an order has turned NDRead or Taint into Run.
        out: the label that leaves the path by its seals and columns; its severity is that of the input.
    """

    rule: str
    out: StreamLabel
    kept: bool = True
    taint: bool = False
    read: bool = False
    settled: bool = False

    @property
    def text(self) -> str:
        words = [word for word, true in (("Taint", self.taint), ("NDRead", self.read)) if true]
        return ", ".join([*words, *(["Run"] if self.settled else [])]) or str(self.out)


def is_compatible(
    rules: RuleSet,
    annotation: Annotation,
    label: StreamLabel,
    dependencies: Collection[Dependency],
) -> bool:
    """Return whether the seals of a stream fit every gate of a path. A path without a known gate: never."""
    if not annotation.gates:
        return False
    return all(
        any(_fits(rules, gate, seal, label.columns, dependencies) for seal in label.seals)
        for gate in annotation.gates
    )


def _fits(
    rules: RuleSet, gate: frozenset[str], seal: Seal, columns: Columns, dependencies: Collection[Dependency]
) -> bool:
    known: list[Attribute] = [each for name in gate if (each := columns.attribute(name)) is not None]
    if seal.ordered and "S6" not in rules:
        return False
    check = compatible if "S5" in rules or seal.ordered else compatible_in_paper
    return check(known, seal, dependencies)


def conclude(rules: RuleSet, given: PathInput) -> Conclusion:
    """Return the label of a path, with the rule that gives it.

    An order does not settle records that arrive twice, because each instance may receive other repetitions.
    """
    found = _anomaly(rules, given)
    ordered = given.order if "S9" in rules else ""
    if ordered == M1 and found.rule in {"1", "2", "3", "4", "S2", "S11"}:
        found = Conclusion("S9", found.out)
    if ordered == M2 and (found.taint or found.read) and found.rule != "S8":
        found = Conclusion("S9", found.out, settled=True)
    if "S1" in rules or not (found.taint or found.read or found.settled):
        return found
    return replace(found, kept=False)


def _anomaly(rules: RuleSet, given: PathInput) -> Conclusion:
    """Return the conclusion without orders.

    Paper: extended Figure 9. Rules: S1, S2, S8, S11.
    """
    path, label = given.path, given.label
    annotation, severity = path.annotation, label.severity
    fits = is_compatible(rules, annotation, label, given.dependencies)
    out = _passed(rules, given, fits)
    if annotation.writes and "S8" in rules and not label.once and not path.idempotent:
        return Conclusion("S8", out, taint=True)
    if annotation.writes and severity is Severity.INST:
        return Conclusion("3", out, taint=True)
    if not annotation.order_sensitive:
        return Conclusion("p", out)
    sealed = bool(label.seals)
    if annotation.writes:
        if severity <= Severity.RUN and not fits:
            return Conclusion("4" if sealed else "2", out, taint=True)
        if "S11" in rules and not _protected(rules, given):
            return Conclusion("S11", out, taint=True)
        return Conclusion("p", out)
    return _read(rules, given, out, fits)


def _read(rules: RuleSet, given: PathInput, out: StreamLabel, fits: bool) -> Conclusion:
    """Return the conclusion of an OR path."""
    label = given.label
    if "S1" in rules:
        if given.writers:
            safe = _protected(rules, given)
            return Conclusion("p" if safe else "1", out, read=not safe)
        if fits:
            return Conclusion("p", out)
    if label.severity > Severity.RUN or (label.seals and (fits or "S2" not in rules)):
        return Conclusion("p", out)
    return Conclusion("S2" if label.seals else "1", out, read=True)


def _protected(rules: RuleSet, given: PathInput) -> bool:
    """Return whether every other stream that writes the state ends the gate's partitions. Rule: S1."""
    annotation = given.path.annotation
    return all(is_compatible(rules, annotation, label, given.dependencies) for _, label in given.writers)


def _passed(rules: RuleSet, given: PathInput, fits: bool) -> StreamLabel:
    """Return the label behind a path: columns by lineage, and the seals that survive. Rules: S3, S4, S8."""
    path, label = given.path, given.label
    lineage = path.lineage if "lineage" in rules else None
    columns = label.columns.derived(lineage, given.maker)
    named = label.columns if lineage is None else columns
    seals = label.seals
    if seals and "S3" in rules:
        seals = frozenset(each for each in seals if named.keeps(each))
    if "S4" in rules and path.annotation.order_sensitive and not fits:
        seals = frozenset()
    once = label.once or path.idempotent
    if columns is label.columns and seals == label.seals and once == label.once:
        return label
    return StreamLabel(label.severity, columns, seals, once, label.conditions)


def reconcile(
    rules: RuleSet,
    found: Sequence[tuple[PathInput, Conclusion]],
    replicated: bool,
    own: int,
) -> tuple[Severity, list[bool]]:
    """Return the severity of an output, and for each path whether its read is protected.

    The first `own` paths lead to the output; the others reach it by the state.

    Taint adds Diverge if Rep, else Run. An unprotected NDRead adds Inst if Rep, else Run. The highest
    severity wins.

    Paper: extended Figure 10.
    """
    worst, protected = Severity.ASYNC, list[bool]()
    for at, (given, each) in enumerate(found):
        safe = each.read and "S1" not in rules and _seals_around(rules, given, found[:own], at)
        protected.append(safe)
        labels = [Severity.ASYNC]
        if each.kept:
            labels.append(given.label.severity)
        if each.taint:
            labels.append(Severity.DIVERGE if replicated else Severity.RUN)
        if each.read and not safe:
            labels.append(Severity.INST if replicated else Severity.RUN)
        if each.settled:
            labels.append(Severity.RUN)
        worst = max(worst, *labels)
    return worst, protected


def _seals_around(
    rules: RuleSet, given: PathInput, found: Sequence[tuple[PathInput, Conclusion]], at: int
) -> bool:
    """Return whether all other labels at the output are seals that fit the gate, as published."""
    others = [pair for other, pair in enumerate(found) if other != at]
    return bool(others) and all(
        not (each.taint or each.read or each.settled)
        and other.label.severity is Severity.ASYNC
        and is_compatible(rules, given.path.annotation, other.label, given.dependencies)
        for other, each in others
    )
