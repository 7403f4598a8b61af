"""The section [limits] of agent.toml: names, defaults and checks."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec

from elfmesh.errors import ConfigError
from elfmesh.units import parse_size

MEMORY_BYTES_MIN = 16_000_000
"""Below, every batch would go to disk."""

DISK_BYTES_MIN = 1_000_000
"""Below, the frame log would be rewritten all the time."""

PROCESS_BYTES_MIN = 128_000_000
"""Below, an agent with one job would be slowed down for ever."""


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the agent may take from its host.

    Attributes:
        cpu_percent: of one core, for the whole process: 50 is half a core, 200 two of them. Reading waits for
            it; what agents say to each other never does. Unset: no limit.
        job_share: of `cpu_percent`, or of one core, where that is unset, and of the memory of open intervals:
            what the job that takes most gets while there is not enough for all.
        nice: how much the host's own work goes first, 0 to 19. Unset: as the agent was started.
        engine: when what evaluates jobs (Arrow, numpy, SQL) is loaded: as the agent starts, or with its first
            "job": an agent without jobs holds half as much memory, and the first job begins seconds later.
        io_class: "idle": the disk only when no other process wants it; "best-effort": after others of that
            class. "": as the agent was started.
        process_memory: what the process may take before the kernel takes pages back from it (memory.high of
            its own cgroup); "0" for no limit.
        memory: for what records leave behind: half of it for the open intervals of all jobs, a quarter for
            sealed intervals of one job that are not closed (above that the job stops reading), the rest for
            blocks that are being read. The process itself takes about 100 MB more.
        spill: disk space under the data directory for open intervals that do not fit in memory; "0" for none.
            When neither has room, reading waits.
        disk: what the frame log may take: contributions that are not closed yet. At this size reading
            waits, or goes on and drops what there is no room for, as the stream's `on_overload` says; "0"
            for no limit. While it is rewritten, it takes up to as much again.
        self_check: one interval in so many of the jobs that are led here is verified against the raw logs of
            all its agents (`elf verify`); 0 for none. It costs each of them a read of all its logs.
    """

    cpu_percent: float | None = None
    job_share: float = 0.5
    nice: Annotated[int, msgspec.Meta(ge=0, le=19)] | None = None
    io_class: Literal["", "best-effort", "idle"] = ""
    engine: Literal["start", "job"] = "start"
    process_memory: str = "0"
    memory: str = "200 MB"
    spill: str = "4 GB"
    disk: str = "4 GB"
    self_check: int = 0

    @property
    def cores(self) -> float | None:
        return None if self.cpu_percent is None else self.cpu_percent / 100

    @property
    def process_bytes(self) -> int:
        return parse_size(self.process_memory)

    @property
    def memory_bytes(self) -> int:
        return parse_size(self.memory)

    @property
    def panes_bytes(self) -> int:
        return self.memory_bytes // 2

    @property
    def spill_bytes(self) -> int:
        return parse_size(self.spill)

    @property
    def disk_bytes(self) -> int | None:
        """`disk` in bytes, None for no limit."""
        return parse_size(self.disk) or None


def check_limits(limits: LimitsConfig, where: str) -> None:
    """Raise ConfigError for what cannot be; `where`: the section, with its file."""
    for key in ("memory", "spill", "disk", "process_memory"):
        try:
            parse_size(getattr(limits, key))
        except ConfigError as error:
            raise ConfigError(error.message, where=f"{where}.{key}", hint=error.hint) from None
    least = {
        "disk": (limits.disk_bytes, DISK_BYTES_MIN),
        "memory": (limits.memory_bytes, MEMORY_BYTES_MIN),
        "process_memory": (limits.process_bytes or None, PROCESS_BYTES_MIN),
    }
    for key, (given, minimum) in least.items():
        if given is not None and given < minimum:
            raise ConfigError(f"is less than {minimum // 10**6} MB", where=f"{where}.{key}")
    if limits.self_check < 0:
        raise ConfigError("is less than 0", where=f"{where}.self_check")
    cpu, most = limits.cpu_percent, 100 * (os.cpu_count() or 1)
    if cpu is not None and not 0 < cpu <= most:
        raise ConfigError(
            f"is not in (0, {most}]", where=f"{where}.cpu_percent", hint="100 is one core of this machine."
        )
    if not 0 < limits.job_share <= 1:
        raise ConfigError("is not in (0, 1]", where=f"{where}.job_share")
