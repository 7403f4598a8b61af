"""A version with Python functions, or one that needs a signature, is tried out once before it is answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.member.preflight import AGAIN_S, KNOWN_MAX, TRIAL_S, Preflight
from elfmesh.control.protocol.events_functions import FunctionsTried, TryFunctions
from tests.control.contexts import new_context
from tests.control.register.support import MANIFEST, run

BROKEN = "f: no module named numpy"
WITH_FUNCTION = """CREATE JOB shop.top EVERY '10 s' AS
WITH FUNCTION twice(s STRING) RETURNS STRING LANGUAGE PYTHON AS $$
def twice(s): return s + s
$$
SELECT product, COUNT(*) AS hits FROM clicks WHERE twice(product) <> 'xx'
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product"""


class Rig:
    """The trials of one agent, and the versions that may go on."""

    def __init__(self, *, signed: bool = True) -> None:
        self.context = new_context(1)
        if signed:
            self.context.policy = replace(OPEN, signed=True)
        self.preflight = Preflight(self.context)
        self.went_on: list[int] = []

    def before(self, version: int = 1, **changes: Any) -> Manifest:
        manifest: Manifest = changed(MANIFEST, version=version, **changes)
        self.preflight.before(manifest, lambda: self.went_on.append(version))
        return manifest

    def trials(self) -> list[TryFunctions]:
        """Those that were begun since the last call."""
        out, self.context.out = self.context.out, []
        return [effect for effect in out if isinstance(effect, TryFunctions)]


@pytest.mark.parametrize(
    ("signed", "text", "is_tried"),
    [
        (False, MANIFEST.text, False),
        (False, WITH_FUNCTION, True),
        (True, MANIFEST.text, True),
        (False, "not ELF-QL", False),
    ],
)
def test_only_functions_and_needed_signatures_are_tried(signed: bool, text: str, is_tried: bool) -> None:
    rig = Rig(signed=signed)
    rig.before(text=text)
    assert len(rig.trials()) == is_tried
    assert rig.went_on == ([] if is_tried else [1])


def test_what_waits_for_a_trial_goes_on_with_its_outcome_and_once() -> None:
    rig = Rig()
    manifest = rig.before()
    rig.before()
    (trial,) = rig.trials()
    assert (trial.manifest, rig.went_on) == (manifest, [])
    rig.preflight.tried(FunctionsTried(trial.token, BROKEN))
    assert (rig.went_on, rig.preflight.error(manifest)) == ([1, 1], BROKEN)
    rig.preflight.tried(FunctionsTried(trial.token))
    assert (rig.went_on, rig.preflight.error(manifest)) == ([1, 1], BROKEN)


def test_a_trial_without_an_answer_is_given_up() -> None:
    rig = Rig()
    manifest = rig.before()
    (trial,) = rig.trials()
    run(rig.context, TRIAL_S - 0.01)
    assert rig.went_on == []
    run(rig.context, TRIAL_S)
    assert rig.went_on == [1]
    assert "in time" in rig.preflight.error(manifest)
    rig.preflight.tried(FunctionsTried(trial.token))
    assert "in time" in rig.preflight.error(manifest), "a late answer is ignored"


def test_an_answered_trial_is_not_given_up_later() -> None:
    rig = Rig()
    manifest = rig.before()
    rig.preflight.tried(FunctionsTried(rig.trials()[0].token))
    assert rig.context.deadline is None
    run(rig.context, 2 * TRIAL_S)
    assert (rig.went_on, rig.preflight.error(manifest)) == ([1], "")


@pytest.mark.parametrize(
    ("error", "later_s", "is_tried"),
    [
        ("", 1000.0, False),
        (BROKEN, AGAIN_S - 0.01, False),
        (BROKEN, AGAIN_S, True),
    ],
)
def test_a_version_that_works_is_tried_once_and_a_refused_one_again_after_a_while(
    error: str, later_s: float, is_tried: bool
) -> None:
    rig = Rig()
    rig.before()
    rig.preflight.tried(FunctionsTried(rig.trials()[0].token, error))
    run(rig.context, later_s)
    rig.before()
    assert len(rig.trials()) == is_tried
    assert rig.went_on == ([1] if is_tried else [1, 1])


@pytest.mark.parametrize("change", [{"version": 2}, {"incarnation": "j"}, {"signed": b"s"}])
def test_another_version_incarnation_or_signature_is_another_trial(change: dict[str, Any]) -> None:
    rig = Rig()
    first = rig.before()
    rig.preflight.tried(FunctionsTried(rig.trials()[0].token, BROKEN))
    other = rig.before(**change)
    assert len(rig.trials()) == 1
    assert (rig.preflight.error(first), rig.preflight.error(other)) == (BROKEN, "")


def test_of_many_trials_the_newest_are_known() -> None:
    rig = Rig()
    for version in range(1, KNOWN_MAX + 2):
        rig.before(version)
        rig.preflight.tried(FunctionsTried(rig.trials()[0].token, BROKEN))
    assert rig.preflight.error(changed(MANIFEST, version=1)) == ""
    assert rig.preflight.error(changed(MANIFEST, version=2)) == BROKEN
