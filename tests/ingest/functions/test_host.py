"""What an agent lets run: its own check, its own memory, whichever job asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from elfmesh import ql
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.manifest import Manifest, canary_of, new_manifest
from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.jobs.terms import Stage
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.signatures import FILE, Signatures, Signers, Trust
from elfmesh.ingest.functions.evaluator import Evaluator
from elfmesh.ingest.functions.host import FunctionHost
from elfmesh.ingest.functions.of_job import JobFunctions
from elfmesh.ingest.functions.process import Limits
from elfmesh.storage.storage import MemoryStorage, Storage
from tests.ingest.functions.declared import statement

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
TRUST = Trust("fleet", Signers((KEY.public_key().public_bytes_raw(),)))
OFF_HERE = Trust("fleet")
NOW_S = 1_000_000


def manifest(
    serial: int, *, version: int = 1, body: str = "def f(x): return x", undo_to: int = 0
) -> Manifest:
    text = statement(body, job="shop.a").text
    reported = signing.Payload(
        cluster="fleet", job="shop/a", serial=serial, undo_to=undo_to or serial, expires=NOW_S + 10,
        sha256=signing.text_digest(text),
    )  # fmt: skip
    job = ql.parse(text).job
    assert job is not None
    made = new_manifest(
        job, text, "me", created=0, incarnation="i", signed=signing.signed(reported, [KEY]).encode()
    )
    return msgspec.structs.replace(made, version=version)


def stage(of: Manifest) -> Stage:
    return Stage(0, of, of.version)


class Host(AuthorityGate):
    """The gate of an agent, and what it opens."""

    def open(self, stages: list[Stage]) -> Mapping[int, Evaluator]:
        functions = JobFunctions()
        functions.admit(self, stages, lambda: NOW_S * 1_000_000)
        return functions.evaluators

    def describe(self) -> dict[str, Any]:
        return self.functions.describe()

    @property
    def problem(self) -> str:
        return self.functions.problem


def host(storage: Storage, trust: Trust = TRUST, *, later_s: int = 0) -> Host:
    def clock() -> int:
        return (NOW_S + later_s) * 1_000_000

    return Host(OPEN, FunctionHost(Signatures(trust, storage, clock), Limits(), clock))


def refused(of: Host, *stages: Manifest) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        of.open([stage(each) for each in stages])
    return caught.value.message


def test_what_has_expired_is_off_after_restarts_and_not_refused_for_it_ran_before() -> None:
    storage = MemoryStorage()
    host(storage).open([stage(manifest(1))])
    for _ in range(2):
        later = host(storage, later_s=11)
        assert (
            later.open([stage(manifest(1))])[1].problem == "the functions are off: its signature has expired"
        )
        assert "expired" in refused(later, manifest(2, version=2))


def test_functions_that_are_off_are_refused_with_the_reason() -> None:
    agent = host(MemoryStorage(), OFF_HERE)
    assert 'off here ([functions] python = "off")' in agent.trial(manifest(1))
    assert "off here" in refused(agent, manifest(1))
    assert agent.describe()["python"] == "off by configuration"


def test_unsigned_is_refused() -> None:
    agent = host(MemoryStorage())
    unsigned = msgspec.structs.replace(manifest(1), signed=b"")
    assert agent.trial(unsigned) == "its Python functions are not signed"
    assert refused(agent, unsigned) == "its Python functions are not signed"


def test_an_older_serial_is_refused_after_a_restart_too() -> None:
    storage = MemoryStorage()
    assert host(storage).open([stage(manifest(5))]).keys() == {1}
    for agent in (host(storage), host(storage)):
        assert "serial 4 is older" in refused(agent, manifest(4, version=2))
        assert "serial 4 is older" in agent.trial(manifest(4, version=2))


def test_what_must_be_remembered_is_on_disk_before_anything_runs() -> None:
    class Refusing(MemoryStorage):
        def write(self, name: str, data: bytes) -> None:
            raise RuntimeFailure(f"no room for {name}")

    assert refused(host(Refusing()), manifest(5)) == f"no room for {FILE}"


def test_a_running_version_goes_on_beside_its_follower_but_does_not_come_back_as_another() -> None:
    storage = MemoryStorage()
    old, new = manifest(5), manifest(6, version=2, body="def f(x): return -x")
    host(storage).open([stage(old)])
    host(storage).open([stage(old), stage(new)])
    assert host(storage).open([stage(old), stage(new)]).keys() == {1, 2}
    back = msgspec.structs.replace(old, version=3)
    assert "serial 5 is older" in refused(host(storage), new, back)
    assert "serial 5 is older" in host(storage).trial(back)


def test_a_signer_may_allow_to_come_back() -> None:
    storage = MemoryStorage()
    old, new = manifest(5), manifest(6, version=2, body="def f(x): return -x", undo_to=5)
    host(storage).open([stage(old), stage(new)])
    host(storage).open([stage(new), stage(msgspec.structs.replace(old, version=3))])


def test_a_canary_has_the_jobs_serials() -> None:
    storage = MemoryStorage()
    host(storage).open([stage(canary_of(manifest(6), {"zone": "a"}))])
    assert "serial 5 is older" in refused(host(storage), manifest(5))


def test_the_text_of_another_job_is_refused() -> None:
    other = msgspec.structs.replace(manifest(5), name="b")
    assert refused(host(MemoryStorage()), other) == "its text is of shop/a, not of shop/b"


def test_a_trial_evaluates_and_leaves_nothing_behind() -> None:
    agent = host(MemoryStorage())
    assert agent.trial(manifest(5)) == ""
    assert "it raises nothing" not in agent.trial(manifest(5))
    wrong = agent.trial(manifest(5, body="import os\ndef f(x): os._exit(7)"))
    assert wrong == "its functions do not work here: f: the process ended with 7"
    assert agent.describe() == {"python": "signed by 1 of 1 keys", "jobs": {}}


OFF = "the functions are off: they were revoked"


def tombstone(
    serial: int, *, version: int = 2, job: str = "shop/a", key: Ed25519PrivateKey = KEY
) -> Manifest:
    reported = signing.Payload(
        cluster="fleet", job=job, serial=serial, undo_to=serial, expires=2**62, tombstone=True
    )
    return msgspec.structs.replace(
        manifest(5), version=version, signed=signing.signed(reported, [key]).encode()
    )


def test_a_tombstone_ends_what_runs_before_it_is_acknowledged() -> None:
    storage = MemoryStorage()
    agent = host(storage)
    (evaluator,) = agent.open([stage(manifest(5))]).values()
    assert agent.trial(tombstone(5)) == ""
    assert evaluator.problem == OFF
    assert agent.problem == f"shop/a: {OFF}"
    assert "serial 5 was revoked" in host(storage).trial(manifest(5)), "it is on disk"
    assert "serial 5 was revoked" in host(storage).trial(msgspec.structs.replace(manifest(5), version=3))
    assert host(storage).trial(manifest(6, version=3)) == ""


def test_an_agent_that_was_away_gets_the_tombstone_with_the_versions_of_the_job() -> None:
    storage = MemoryStorage()
    old, end = manifest(5), tombstone(6)
    host(storage).open([stage(old)])
    for _ in range(2):  # and after a restart
        back = host(storage)
        assert [each.problem for each in back.open([stage(old), stage(end)]).values()] == [OFF, OFF]
        assert back.problem
    assert [each.problem for each in host(storage).open([stage(old)]).values()] == [OFF], "nor without it"
    later = host(storage).open([stage(end), stage(manifest(7, version=3))])
    assert {version: each.problem for version, each in later.items()} == {2: OFF, 3: ""}


def test_a_version_that_runs_below_the_newest_is_revoked_with_it() -> None:
    storage = MemoryStorage()
    old, new = manifest(5), manifest(6, version=2, body="def f(x): return -x")
    host(storage).open([stage(old), stage(new)])
    assert host(storage).trial(tombstone(5, version=3)) == ""
    assert [each.problem for each in host(storage).open([stage(old), stage(new)]).values()] == [OFF, ""]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (tombstone(5, job="shop/b"), "it is the tombstone of the job shop/b, not of shop/a"),
        (tombstone(5, key=Ed25519PrivateKey.from_private_bytes(b"x" * 32)), "0 trusted keys"),
    ],
    ids=["of another job", "without a signature"],
)
def test_a_tombstone_that_is_not_admitted_ends_nothing(end: Manifest, why: str) -> None:
    agent = host(MemoryStorage())
    (evaluator,) = agent.open([stage(manifest(5))]).values()
    assert why in agent.trial(end)
    assert why in refused(agent, manifest(5), end)
    assert not evaluator.problem
    assert host(MemoryStorage(), OFF_HERE).trial(end) == "", "where nothing runs there is nothing to end"


def test_a_tombstone_that_cannot_be_written_is_not_acknowledged() -> None:
    class Full(MemoryStorage):
        def write(self, name: str, data: bytes) -> None:
            raise RuntimeFailure(f"no room for {name}")

    assert host(Full()).trial(tombstone(5)) == f"no room for {FILE}"
