"""One verification that goes on: what the members have sent so far, and what they are still asked for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from elfmesh.control.context import Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.master.loss_measurement import Losses, LossMeasurement
from elfmesh.control.protocol.messages_safety import Verified
from elfmesh.control.protocol.replies_changes import MeasuredLoss, Verification
from elfmesh.control.upstream.side_input import SideInput

PAYLOAD_BYTES_MAX = 256 << 20
"""What all agents together may send for one comparison, because the master holds it in memory."""

Outcome = Verification | MeasuredLoss


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """An interval, and what is measured of it; without losses, its rows are compared with the published."""

    index: int
    losses: Losses = ()


@dataclass(slots=True)
class RunningCheck:
    """One verification. `inside` has the names of the members by number."""

    request: VerifyRequest
    token: int
    record: ResultRecord
    rows: bytes
    manifest: Manifest
    inside: dict[int, str]
    timer: Timer
    measurement: LossMeasurement
    waits_for: dict[int, str] = field(init=False)
    payloads: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    counts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    nbytes: int = 0
    latest: SideInput | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waits_for = dict(self.inside)

    @property
    def index(self) -> int:
        return self.request.index

    def take(self, message: Verified, payload: bytes) -> None:
        """Take the answer of a member, which is asked no more."""
        name = self.waits_for.pop(message.number)
        if message.error:
            self.errors[name] = message.error
        elif self.nbytes + len(payload) > PAYLOAD_BYTES_MAX:
            self.errors[name] = f"all agents together sent more than {PAYLOAD_BYTES_MAX} bytes to compare"
        else:
            self.nbytes += len(payload)
            parts, at = [], 0
            for size in message.sizes:
                parts.append(payload[at : at + size])
                at += size
            self.payloads[message.number] = tuple(parts)
            self.counts[message.number] = message.counts

    def parts(self, partitions: int, lost: Collection[int]) -> tuple[tuple[bytes, ...], ...]:
        """Return the payloads of all members but the lost ones, by partition."""
        left = [each for number, each in self.payloads.items() if number not in lost]
        return tuple(
            tuple(each[partition] for each in left if each[partition]) for partition in range(partitions)
        )

    def agents(self) -> list[dict[str, str | int]]:
        """Return the records of each member, by name."""
        found = {self.inside[number]: counts[0] if counts else 0 for number, counts in self.counts.items()}
        return [{"agent": name, "records": records} for name, records in sorted(found.items())]


def state_of(manifest: Manifest, request: VerifyRequest, state: str, **more: Any) -> Outcome:
    kind = MeasuredLoss if request.losses else Verification
    return kind(job=manifest.qualified, interval=request.index, state=state, **more)
