"""`[coordination] require`: which versions an agent refuses to prepare, and which it goes on with."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.coordination.labels import Severity
from elfmesh.control.jobs.policy import LABEL_NAMES, Policy, required_label
from elfmesh.control.member.required_label import label_refusal
from elfmesh.control.protocol.messages_versions import Rehearse
from tests.control.member.test_member_host import FIELDS, Rig, of
from tests.control.register.support import MANIFEST

SKIP = MANIFEST.text.replace("AS\n", "ON STRAGGLER SKIP AS\n", 1).replace(
    "DEADLINE '1 s' AS", "DEADLINE '1 s' ON STRAGGLER SKIP AS"
)
SKETCH = MANIFEST.text.replace("COUNT(*)", "approx_percentile(product, 0.5)")
READER = (
    "CREATE JOB shop.hourly EVERY '60 s' AS SELECT product, SUM(hits) AS hits FROM shop.top GROUP BY product"
)


@pytest.mark.parametrize(
    ("require", "text", "label"),
    [
        ({"shop/*": "Async"}, MANIFEST.text, ""),
        ({"shop/*": "Async"}, SKIP, "Async | Run"),
        ({"shop/*": "Async"}, SKETCH, "Run"),
        ({"shop/*": "Run"}, SKETCH, ""),
        ({"other/*": "Async"}, SKETCH, ""),
        ({"*": "Run", "shop/top": "Async"}, SKETCH, "Run"),
        ({}, SKETCH, ""),
        ({"*": "Async"}, READER, ""),
    ],
)
def test_the_label_of_the_text_alone_is_compared(require: dict[str, str], text: str, label: str) -> None:
    found = label_refusal(require, "shop/top", text)
    assert bool(found) is bool(label)
    assert found.startswith(f"its label is {label}, and [coordination]" if label else "")


def test_a_refusal_names_the_cause() -> None:
    assert "depends on the tree's shape" in label_refusal({"*": "Async"}, "shop/top", SKETCH)
    assert "stragglers" in label_refusal({"*": "Async"}, "shop/top", SKIP)


def test_the_names_of_labels_are_those_of_the_analysis() -> None:
    assert list(LABEL_NAMES) == [str(each) for each in sorted(Severity)]
    assert required_label({"a/*": "Run", "*": "Async"}, "a/b") == "Async"


def strict() -> Rig:
    rig = Rig(policy=Policy(require={"shop/*": "Async"}))
    rig.carry("clicks", schema=FIELDS)
    return rig


def test_a_new_job_and_a_new_version_are_refused() -> None:
    rig = strict()
    takes_part, error = of(rig.announce(replace(MANIFEST, text=SKIP)))
    assert (takes_part, error[:12]) == (False, "its label is")
    assert of(rig.announce()) == (True, "")
    found = rig.host.on_rehearse(Rehearse(replace(MANIFEST, text=SKIP, version=2), 1))
    assert (found.takes_part, found.error[:12]) == (True, "its label is")
    assert rig.host.on_rehearse(Rehearse(replace(MANIFEST, version=2), 1)).error == ""


@pytest.mark.parametrize("later", [{"version": 1}, {"founding": False}])
def test_a_version_that_runs_elsewhere_is_not_refused(later: dict[str, Any]) -> None:
    """A changed setting takes effect on the next version only."""
    rig = strict()
    assert of(rig.announce(replace(MANIFEST, text=SKIP), **later)) == (True, "")
