"""Signed manifests of plain jobs: every attack on the way from the signer to an agent, and its answer."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.policy import Grant, Policy
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.signatures import Trust
from tests.ingest.authority.signed import (
    NOW_S,
    TEXT,
    gate,
    manifest,
    refused,
    start,
)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (msgspec.structs.replace(manifest(), signed=b""), "its manifest is not signed"),
        (msgspec.structs.replace(manifest(), signed=b"{}"), "this is not a signature file"),
        (manifest(cluster="other"), "signed for the cluster 'other', and this is 'fleet'"),
        (manifest(expires=NOW_S), "its signature has expired"),
        (manifest(job="shop.b", sha256="0" * 64), "signed for another text"),
        (manifest(keys=(2,)), "0 trusted keys have signed it, and 1 are required"),
        (manifest(job="bank.a"), "0 trusted keys have signed it, and 2 are required"),
        (manifest(job="bank.a", keys=(2,)), "1 trusted keys have signed it, and 2 are required"),
        (manifest(job="bank.a", keys=(2, 0)), "1 trusted keys"),
        (msgspec.structs.replace(manifest(), namespace="bank"), "its text is of shop/a, not of bank/a"),
        (msgspec.structs.replace(manifest(), name="b"), "its text is of shop/a, not of shop/b"),
        (msgspec.structs.replace(manifest(), partitions=7), "its text says PARTITIONS 1, not 7"),
        (
            msgspec.structs.replace(manifest(), text=manifest().text.replace("true", "1 = 1")),
            "signed for another text",
        ),
        (
            msgspec.structs.replace(manifest(), signed=manifest(job="shop.b").signed),
            "signed for the job shop/b, not for shop/a",
        ),
    ],
    ids=lambda each: each[:40] if isinstance(each, str) else "",
)
def test_what_is_not_signed_for_this_is_refused_before_it_is_prepared_and_before_it_runs(
    sent: Manifest, reason: str
) -> None:
    assert reason in gate().trial(sent)
    assert reason in refused(gate(), sent)


def test_an_interval_is_not_made_again_from_the_raw_logs_for_a_text_that_is_not_admitted() -> None:
    forged = msgspec.structs.replace(manifest(), text=TEXT.format(job="shop.a", where="status = 666"))
    with pytest.raises(RuntimeFailure, match="signed for another text"):
        gate().again(forged)
    assert gate().again(manifest()) is None


def test_where_manifests_need_no_signature_none_is_looked_at() -> None:
    agent = gate(trust=Trust("fleet"))
    forged = msgspec.structs.replace(manifest(), signed=b"")
    assert agent.trial(forged) == ""
    assert start(agent, forged).admissions == {}


def test_a_version_that_was_not_prepared_meets_the_agents_own_rules_when_it_starts() -> None:
    policy = Policy(namespaces={"shop": Grant(streams=("other",), groups=10)})
    agent = AuthorityGate(policy, gate(trust=Trust("fleet")).functions, ["access"])
    assert "the stream access is not granted to shop" in refused(agent, manifest())
    with pytest.raises(RuntimeFailure, match="not granted"):
        agent.again(manifest())
