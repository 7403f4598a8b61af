"""What an agent checks before it leads a job that it evaluates itself, and before it ends one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import pytest
from msgspec.structs import replace as changed

from elfmesh.control.answers import CONFLICT, read_answer
from elfmesh.control.election.permission import Leading
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.policy import OPEN, Grant
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.master import Master
from elfmesh.control.member.preflight import Preflight
from elfmesh.control.protocol.events_functions import FunctionsTried, TryFunctions
from elfmesh.control.protocol.messages import Answered, Ask, Submit
from elfmesh.machine import Send
from tests.control.closing.rig import manifest_of
from tests.control.contexts import new_context
from tests.control.jobs.test_signing import KEYS, payload
from tests.control.register.support import JOB, MANIFEST, TERMS, A

READER = manifest_of(
    "CREATE JOB shop.hourly EVERY '60 s' AS SELECT product, SUM(hits) AS hits FROM shop.top GROUP BY product"
)
TOMBSTONE = signing.signed(payload(5, sha256="", tombstone=True), KEYS[:1]).encode()
BROKEN = "the signature is not one of ours"


@dataclass
class Term:
    terms: Terms


@dataclass
class Led:
    term: Term


class Rig:
    """The checks of one agent."""

    def __init__(self, *, signed: bool = False, namespaces: dict[str, Grant] | None = None) -> None:
        self.context = new_context(1)
        self.context.policy = replace(OPEN, signed=signed, namespaces=namespaces or {})
        self.preflight = Preflight(self.context)
        self.leading = Leading(self.context, self.preflight)
        self.went_on: list[Submit | Ask] = []

    def submit(self, manifest: Manifest) -> Submit:
        message = Submit(manifest, A, 9)
        self.leading.on_submit(message, self.went_on.append)
        return message

    def ask(self, verb: str, manifest: Manifest | None) -> Ask:
        master = None if manifest is None else cast(Master, Led(Term(changed(TERMS, manifest=manifest))))
        ask = Ask(verb, JOB, b"{}", A, 9)
        self.leading.on_ask(ask, master, self.went_on.append)
        return ask

    def tried(self, error: str = "") -> None:
        (trial,) = [effect for effect in self.context.out if isinstance(effect, TryFunctions)]
        self.context.out.clear()
        self.preflight.tried(FunctionsTried(trial.token, error))

    def refusal(self) -> str:
        """What the client reads."""
        (effect,) = self.context.out
        assert isinstance(effect, Send)
        assert isinstance(effect.message, Answered)
        assert (effect.to, effect.message.token, effect.message.status) == (A, 9, CONFLICT)
        return str(read_answer(effect.message, effect.payload)[0]["error"])


def test_a_job_over_streams_is_checked_by_the_agents_that_carry_them() -> None:
    rig = Rig(signed=True, namespaces={"other": Grant()})
    message = rig.submit(MANIFEST)
    assert (rig.went_on, rig.context.out) == ([message], [])


def test_a_job_that_reads_jobs_goes_on_when_its_master_may_evaluate_it() -> None:
    rig = Rig()
    message = rig.submit(READER)
    assert rig.went_on == [message]


def test_a_job_that_reads_jobs_goes_on_once_its_signature_was_tried() -> None:
    rig = Rig(signed=True)
    message = rig.submit(READER)
    assert rig.went_on == []
    rig.tried()
    assert rig.went_on == [message]


def test_a_job_whose_trial_fails_is_refused_in_the_name_of_the_agent() -> None:
    rig = Rig(signed=True)
    rig.submit(READER)
    rig.tried(BROKEN)
    assert (rig.went_on, rig.refusal()) == ([], f"agent-1: {BROKEN}")
    assert rig.leading.problem(READER) == BROKEN


def test_a_job_of_a_namespace_that_may_use_nothing_is_refused() -> None:
    rig = Rig(namespaces={"other": Grant()})
    rig.submit(READER)
    assert rig.went_on == []
    assert rig.refusal().startswith("agent-1: the namespace shop may use nothing here")


@pytest.mark.parametrize(
    ("signed", "verb", "manifest", "passes"),
    [
        (False, "delete", MANIFEST, True),
        (True, "delete", MANIFEST, False),
        (True, "delete", changed(MANIFEST, signed=b"not a tombstone"), False),
        (True, "delete", changed(MANIFEST, signed=TOMBSTONE), True),
        (True, "delete", changed(MANIFEST, narrowed=(("canary", "yes"),)), True),
        (True, "delete", None, True),
        (True, "describe", MANIFEST, True),
        (True, "empty", MANIFEST, True),
    ],
)
def test_where_versions_are_signed_a_job_ends_by_a_signed_tombstone_or_as_a_canary(
    signed: bool, verb: str, manifest: Manifest | None, passes: bool
) -> None:
    rig = Rig(signed=signed)
    ask = rig.ask(verb, manifest)
    assert rig.went_on == ([ask] if passes else [])
    if not passes:
        assert "signed tombstone only" in rig.refusal()


def test_a_job_that_reads_jobs_has_the_required_label_where_it_is_submitted() -> None:
    """Its master evaluates it, and no member checks it."""
    rig = Rig()
    rig.context.policy = replace(OPEN, require={"shop/*": "Async"})
    message = rig.submit(READER)
    assert rig.went_on == [message]
    rig.submit(manifest_of(READER.text.replace("SUM(hits)", "approx_percentile(hits, 0.5)")))
    assert rig.went_on == [message]
    assert "agent-1: its label is Run" in rig.refusal()
