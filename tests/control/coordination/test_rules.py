"""The table of inference, rule by rule."""

from __future__ import annotations

import pytest

from elfmesh.control.coordination.attributes import Attribute, Columns, Seal
from elfmesh.control.coordination.graph import AnnotatedPath
from elfmesh.control.coordination.labels import Severity, StreamLabel, annotated
from elfmesh.control.coordination.rules import PAPER, SOUND, PathInput, RuleSet, conclude, reconcile

ASYNC, RUN, INST, DIVERGE = Severity
BOTH = (PAPER, SOUND)


def given(kind: str, severity: Severity, *, gate: str = "k", seal: str = "", order: str = "") -> PathInput:
    gates = [[gate]] if kind[0] == "O" and gate else []
    seals = frozenset({Seal(frozenset({Attribute("s", seal)}))}) if seal else frozenset[Seal]()
    label = StreamLabel(severity, Columns("s"), seals)
    path = AnnotatedPath("in", "out", annotated(kind, *gates))
    return PathInput(path, label, (), False, order, (), "c.out")


@pytest.mark.parametrize("rules", BOTH, ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("kind", "severity", "seal", "rule", "anomaly"),
    [
        ("OR", ASYNC, "", "1", "read"),
        ("OR", RUN, "", "1", "read"),
        ("OW", ASYNC, "", "2", "taint"),
        ("OW", RUN, "", "2", "taint"),
        ("CW", INST, "", "3", "taint"),
        ("OW", INST, "", "3", "taint"),
        ("OW", ASYNC, "j", "4", "taint"),
        ("OW", ASYNC, "k", "p", ""),
        ("CR", INST, "", "p", ""),
        ("CW", RUN, "", "p", ""),
        ("CW", DIVERGE, "", "p", ""),
        ("OR", ASYNC, "k", "p", ""),
    ],
)
def test_inference(rules: RuleSet, kind: str, severity: Severity, seal: str, rule: str, anomaly: str) -> None:
    found = conclude(rules, given(kind, severity, seal=seal))
    assert found.rule == rule
    assert (found.taint, found.read) == (anomaly == "taint", anomaly == "read")


def test_a_seal_that_does_not_fit_a_read_is_our_rule() -> None:
    assert conclude(SOUND, given("OR", ASYNC, seal="j")).read
    assert not conclude(PAPER, given("OR", ASYNC, seal="j")).read


@pytest.mark.parametrize("rules", BOTH, ids=lambda each: each.name)
def test_an_unknown_gate_fits_no_seal(rules: RuleSet) -> None:
    assert conclude(rules, given("OW", ASYNC, gate="", seal="k")).taint


@pytest.mark.parametrize(
    ("kind", "severity", "order", "worst"),
    [
        ("OW", ASYNC, "M1", ASYNC),
        ("OW", ASYNC, "M2", RUN),
        ("OR", ASYNC, "M2", RUN),
        ("OR", INST, "M1", INST),
    ],
)
def test_orders_with_replicas(kind: str, severity: Severity, order: str, worst: Severity) -> None:
    one = given(kind, severity, order=order)
    assert reconcile(SOUND, [(one, conclude(SOUND, one))], True, 1)[0] is worst


@pytest.mark.parametrize(
    ("kind", "rep", "worst"),
    [("OR", False, RUN), ("OR", True, INST), ("OW", False, RUN), ("OW", True, DIVERGE)],
)
@pytest.mark.parametrize("rules", BOTH, ids=lambda each: each.name)
def test_reconciliation(rules: RuleSet, kind: str, rep: bool, worst: Severity) -> None:
    one = given(kind, ASYNC)
    assert reconcile(rules, [(one, conclude(rules, one))], rep, 1)[0] is worst


def test_the_label_of_an_input_stays_in_the_set_under_our_rules() -> None:
    one = given("CW", INST)
    assert reconcile(SOUND, [(one, conclude(SOUND, one))], False, 1)[0] is INST
    assert reconcile(PAPER, [(one, conclude(PAPER, one))], False, 1)[0] is RUN
