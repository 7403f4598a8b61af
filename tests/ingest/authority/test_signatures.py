"""Which signed texts an agent admits: serials only grow, and are on disk before anything runs."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.control.jobs.manifest import canary_of
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.signatures import FILE
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.authority.signed import (
    NOW_S,
    gate,
    manifest,
    refused,
    start,
)


def test_a_signed_job_runs_until_its_signature_expires() -> None:
    agent = gate()
    assert agent.trial(manifest()) == ""
    running = start(agent, manifest())
    with pytest.raises(RuntimeFailure, match="its signature has expired"):
        running.check((NOW_S + 10) * 1_000_000)


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


def test_an_undo_needs_the_signers_permission() -> None:
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


def test_the_same_text_signed_again_goes_on_when_the_older_signature_has_expired() -> None:
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
