"""One verification: the answers of members, by partition, and the limit of what the master holds."""

from __future__ import annotations

import pytest

from elfmesh.control.context import Timer
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.master import running_check
from elfmesh.control.master.loss_measurement import LossMeasurement
from elfmesh.control.master.running_check import RunningCheck, VerifyRequest, state_of
from elfmesh.control.protocol.messages_safety import Verified
from elfmesh.control.protocol.replies_changes import MeasuredLoss, Verification
from tests.control.contexts import new_context
from tests.control.member.support import TEXT

NAMES, PLAN = read_job(TEXT)
MANIFEST = new_manifest(NAMES, TEXT, "local", created=0, incarnation="a1")


def check() -> RunningCheck:
    timer: Timer = new_context(1).after(9.0, lambda: None)
    record = ResultRecord(job="shop/top", index=7, start_us=0, end_us=1)
    measurement = LossMeasurement((), PLAN, Rates())
    names = {1: "web1", 2: "web2", 3: "web3"}
    return RunningCheck(VerifyRequest(7), 5, record, b"", MANIFEST, names, timer, measurement)


def answer(number: int, *parts: bytes, error: str = "") -> tuple[Verified, bytes]:
    sizes = tuple(map(len, parts))
    return Verified(
        job=bytes(20), token=5, number=number, counts=(number,), sizes=sizes, error=error
    ), b"".join(parts)


def test_payloads_are_by_partition_and_without_lost_members() -> None:
    running = check()
    running.take(*answer(2, b"b", b""))
    running.take(*answer(1, b"aa", b"a"))
    assert running.waits_for == {3: "web3"}
    assert running.parts(2, ()) == ((b"b", b"aa"), (b"a",))
    assert running.parts(2, [1]) == ((b"b",), ())
    assert running.agents() == [{"agent": "web1", "records": 1}, {"agent": "web2", "records": 2}]


def test_errors_and_too_many_bytes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_check, "PAYLOAD_BYTES_MAX", 3)
    running = check()
    running.take(*answer(1, b"aa"))
    running.take(*answer(2, b"bb"))
    running.take(*answer(3, error="no log"))
    assert running.parts(1, ()) == ((b"aa",),)
    assert running.errors["web3"] == "no log"
    assert "more than 3 bytes" in running.errors["web2"]
    assert not running.waits_for


def test_a_request_with_losses_has_another_reply() -> None:
    assert isinstance(state_of(MANIFEST, VerifyRequest(7), "running"), Verification)
    found = state_of(MANIFEST, VerifyRequest(7, (("r1", ("web1",)),)), "running", waits_for=[])
    assert isinstance(found, MeasuredLoss)
    assert (found.job, found.interval, found.state) == ("shop/top", 7, "running")
