"""Annotations and labels as text."""

from __future__ import annotations

from elfmesh.control.coordination.attributes import Attribute, Columns, Seal
from elfmesh.control.coordination.labels import KINDS, Severity, StreamLabel, annotated


def test_annotations_have_the_severities_of_the_paper() -> None:
    assert {name: each.severity for name, each in KINDS.items()} == {"CR": 1, "CW": 2, "OR": 3, "OW": 4}


def test_gates_are_shown_with_the_annotation() -> None:
    assert str(annotated("OR", ["id", "campaign"], ["t"])) == "OR (campaign, id), (t)"
    assert str(annotated("OW")) == "OW (unknown)"
    assert str(annotated("CR")) == "CR"


def test_labels_show_their_seals() -> None:
    seal = Seal(frozenset({Attribute("s", "k")}))
    assert str(StreamLabel(Severity.ASYNC, Columns("s"), frozenset({seal}))) == "Seal (k)"
    assert str(StreamLabel(Severity.RUN, Columns("s"), frozenset({seal}))) == "Run, sealed (k)"
    assert str(StreamLabel(Severity.INST, Columns("s"))) == "Inst"
