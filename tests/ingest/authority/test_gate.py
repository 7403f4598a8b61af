"""Signed manifests of plain jobs: every attack on the way from the signer to an agent, and its answer."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from elfmesh import ql
from elfmesh.agent.settings.config import config_of
from elfmesh.cbt import Panes
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.manifest import Manifest, canary_of, new_manifest
from elfmesh.control.jobs.policy import OPEN, Grant, Policy
from elfmesh.control.jobs.terms import Stage
from elfmesh.errors import ConfigError, RuntimeFailure
from elfmesh.ingest.authority.gate import Gate
from elfmesh.ingest.authority.settings import NamespaceConfig, sink_may_carry
from elfmesh.ingest.authority.signatures import FILE, Signatures, Signers, Trust
from elfmesh.ingest.functions.host import FunctionHost
from elfmesh.ingest.functions.of_job import JobFunctions
from elfmesh.ingest.functions.process import Limits
from elfmesh.storage.storage import MemoryStorage, Storage

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([at]) * 32) for at in range(4)]
PUBLIC = [key.public_key().public_bytes_raw() for key in KEYS]
TRUST = Trust("fleet", None, Signers((PUBLIC[0], PUBLIC[1])), {"bank": Signers((PUBLIC[2], PUBLIC[3]), 2)})
NOW_S = 1_000_000
TEXT = "CREATE JOB {job} EVERY '30 s' AS SELECT path, count(*) AS n FROM access WHERE {where} GROUP BY path"


def signed(text: str, keys: list[int], **other: Any) -> str:
    job = ql.parse(text).job
    assert job is not None
    reported: dict[str, Any] = {
        "cluster": "fleet", "job": job.qualified, "serial": 5, "undo_to": other.get("serial", 5),
        "expires": NOW_S + 10, "sha256": signing.text_digest(text),
    }  # fmt: skip
    payload = signing.Payload(**{**reported, **other})
    return signing.signed(payload, [KEYS[at] for at in keys]).encode().decode()


def manifest(
    where: str = "true", *, job: str = "shop.a", keys: tuple[int, ...] = (0,), version: int = 1, **other: Any
) -> Manifest:
    text = TEXT.format(job=job, where=where)
    clause = ql.parse(text).job
    assert clause is not None
    envelope = signed(text, list(keys), **other).encode()
    made = new_manifest(clause, text, "me", created=0, incarnation="i", signed=envelope)
    return msgspec.structs.replace(made, version=version)


def gate(storage: Storage | None = None, *, trust: Trust = TRUST, later_s: int = 0) -> Gate:
    def clock() -> int:
        return (NOW_S + later_s) * 1_000_000

    signatures = Signatures(trust, storage or MemoryStorage(), clock)
    return Gate(OPEN, FunctionHost(signatures, Limits(), clock), ["access"])


def start(agent: Gate, *versions: Manifest, later_s: int = 0) -> JobFunctions:
    """As the worker host does, with what the terms of a master say."""
    found = JobFunctions()
    stages = [Stage(at, each, each.version) for at, each in enumerate(versions)]
    found.admit(agent, stages, lambda: (NOW_S + later_s) * 1_000_000)
    return found


def refused(agent: Gate, *versions: Manifest) -> str:
    """The trial of the newest and the start of all say the same."""
    with pytest.raises(RuntimeFailure) as caught:
        start(agent, *versions)
    return caught.value.message


def test_what_is_signed_runs_and_says_until_when() -> None:
    agent = gate()
    assert agent.trial(manifest()) == ""
    running = start(agent, manifest())
    with pytest.raises(RuntimeFailure, match="its signature has expired"):
        running.check((NOW_S + 10) * 1_000_000)


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


def test_a_namespace_with_keys_of_its_own_needs_those_and_as_many() -> None:
    start(gate(), manifest(job="bank.a", keys=(2, 3)))


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_no_byte_of_the_text_may_be_another_on_the_way(at: int) -> None:
    whole = manifest()
    data = bytearray(whole.text.encode())
    data[-1 - at] ^= 1
    try:
        changed = msgspec.structs.replace(whole, text=data.decode())
        assert refused(gate(), changed)
    except ValueError:  # no text at all, or none of ELF-QL
        pass


def test_an_older_version_does_not_come_back_after_a_restart_either() -> None:
    storage = MemoryStorage()
    start(gate(storage), manifest("status = 2", serial=6))
    for agent in (gate(storage), gate(storage)):
        for version in (1, 2):
            old = manifest(version=version)
            assert (
                "serial 5 is older than a version that ran here; the lowest allowed serial is 6"
                in refused(agent, old)
            )
            assert "serial 5 is older" in agent.trial(old)
    assert "serial 6 was used for another text" in gate(storage).trial(manifest("status = 3", serial=6))


def test_the_serial_is_on_disk_before_anything_runs() -> None:
    class Refusing(MemoryStorage):
        def write(self, name: str, data: bytes) -> None:
            raise RuntimeFailure(f"no room for {name}")

    assert refused(gate(Refusing()), manifest()) == f"no room for {FILE}"


def test_an_undo_needs_the_signers_word() -> None:
    for undo_to, comes_back in ((6, False), (5, True)):
        storage = MemoryStorage()
        old, new = manifest(), manifest("status = 2", serial=6, undo_to=undo_to, version=2)
        start(gate(storage), old, new)
        back = msgspec.structs.replace(old, version=3)
        if comes_back:
            start(gate(storage), new, back)
        else:
            assert "serial 5 is older" in refused(gate(storage), new, back)


def test_a_canary_is_signed_as_its_job_and_uses_up_its_serial() -> None:
    storage = MemoryStorage()
    start(gate(storage), canary_of(manifest("status = 2", serial=6), {"zone": "a"}))
    assert "serial 5 is older" in gate(storage).trial(manifest())


def test_the_same_text_signed_anew_goes_on_when_the_older_signature_has_expired() -> None:
    storage = MemoryStorage()
    old, renewed = manifest(), manifest(serial=6, expires=NOW_S + 100, version=2)
    start(gate(storage), old)
    agent = gate(storage, later_s=50)
    start(agent, old, renewed, later_s=50).check((NOW_S + 50) * 1_000_000)
    assert "expired" in gate(MemoryStorage(), later_s=50).trial(old), "who never ran it does not begin now"


def test_a_tombstone_ends_what_runs_and_every_version_up_to_it() -> None:
    storage = MemoryStorage()
    agent = gate(storage)
    running = start(agent, manifest())
    end = manifest(serial=7, tombstone=True, sha256="", expires=2**62, version=2)
    unsigned = manifest(serial=7, tombstone=True, sha256="", expires=2**62, version=2, keys=(2,))
    assert "0 trusted keys" in agent.trial(unsigned)
    running.check(NOW_S * 1_000_000)
    assert agent.trial(end) == ""
    with pytest.raises(RuntimeFailure, match="they were revoked"):
        running.check(NOW_S * 1_000_000)
    again = gate(storage)
    assert "they were revoked" in refused(again, manifest(), end)
    for serial in (5, 6, 7):
        assert "was revoked" in again.trial(manifest("status = 9", serial=serial, version=3))
    assert again.trial(manifest("status = 9", serial=8, version=3)) == ""


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


def test_a_version_that_nobody_prepared_meets_the_agents_own_rules_when_it_starts() -> None:
    policy = Policy(namespaces={"shop": Grant(streams=("other",), groups=10)})
    agent = Gate(policy, gate(trust=Trust("fleet")).functions, ["access"])
    assert "the stream access is not granted to shop" in refused(agent, manifest())
    with pytest.raises(RuntimeFailure, match="not granted"):
        agent.again(manifest())


def test_a_job_with_more_groups_than_its_namespace_may_hold_ends() -> None:
    policy = Policy(namespaces={"shop": Grant(groups=10)})
    running = start(Gate(policy, gate(trust=Trust("fleet")).functions, ["access"]), manifest())
    table = ql.parse(manifest().text).tables
    panes = Panes(table, 30_000_000)

    def insert(keys: range) -> None:
        batch = pa.record_batch({"k0": pa.array([f"/{key}" for key in keys])})
        panes.insert("main", np.zeros(len(keys), np.int64), batch)

    class Worker:
        groups = property(lambda self: panes.rows)

    insert(range(10))
    running.check_groups(Worker())
    insert(range(10, 11))
    with pytest.raises(RuntimeFailure, match="open intervals hold 11 groups here, over the 10"):
        running.check_groups(Worker())


def test_results_go_only_to_sinks_that_the_namespace_is_granted() -> None:
    namespaces = {"shop": NamespaceConfig(sinks=("hook",)), "*": NamespaceConfig(sinks=())}
    assert sink_may_carry(namespaces, "hook", "shop/top")
    assert not sink_may_carry(namespaces, "other", "shop/top")
    assert not sink_may_carry(namespaces, "hook", "bank/top")
    assert sink_may_carry({}, "other", "bank/top")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[manifests]\nrequire = 'signed'", "manifests.signatures: 1 of 0 keys must sign"),
        (
            "[manifests]\nrequire = 'signed'\nkeys = ['ed25519:x']",
            "manifests.keys: 'ed25519:x' is not a public key",
        ),
        (
            "[namespaces.shop]\nkeys = ['{key}']",
            "namespaces.shop.keys: keys are given, but no manifest needs a signature",
        ),
        ("[namespaces.shop]\nstream = ['a']", "namespaces.shop: unknown key 'stream'"),
        ("[namespaces.shop]\njobs = 0", "namespaces.shop.jobs: "),
        ("[namespaces.shop]\ndeny_columns = ['*']", "namespaces.shop.deny_columns: '*' is a pattern"),
        ("[fields]\nhide = ['a']", "fields: unknown key 'hide'"),
        ("[audit]\nfile_max = '1 kB'", "audit.file_max: is less than 100 kB"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused_with_their_place(text: str, where: str) -> None:
    raw = tomllib.loads(text.format(key=signing.show_key(PUBLIC[0])))
    with pytest.raises(ConfigError) as caught:
        config_of(raw, "agent.toml")
    assert f"agent.toml: {where}" in str(caught.value)
