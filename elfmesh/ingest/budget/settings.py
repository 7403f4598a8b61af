"""The section [limits] of agent.toml: names, defaults and checks."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec

from elfmesh.errors import ConfigError
from elfmesh.units import parse_size

MEMORY_BYTES_MIN = 16_000_000
"""Minimum memory; with less, every batch would be spilled."""

DISK_BYTES_MIN = 1_000_000
"""Minimum disk space; with less, the frame log would be rewritten continually."""

PROCESS_BYTES_MIN = 128_000_000
"""Minimum memory of the process; with less, an agent with one job would be throttled permanently."""


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on the agent's use of its host.

    Attributes:
        cpu_percent: limit of the whole process in percent of one core: 50 is half a core, 200 two cores.
            Reading waits for it; communication of agents never does. Unset: no limit.
        job_share: share of `cpu_percent` (or of one core if that is unset) and of the memory of open
            intervals for the most expensive job under overload.
        nice: nice value of the process, 0 to 19. Unset: unchanged.
        engine: has no effect; files of earlier releases contain it. Other values than "start" are a warning.
        io_class: "idle": use the disk only when no other process does; "best-effort": the lowest level of
            that class. "": unchanged.
        process_memory: memory of the process above which the kernel reclaims pages (memory.high of its own
            cgroup); "0" for no limit.
        memory: memory for the data of records: half for the open intervals of all jobs, a quarter for
            sealed intervals of one job that are not closed (above it the job stops reading), the rest for
            blocks that are being read. The process itself needs about 100 MB more.
        spill: disk space under the data directory for open intervals that do not fit in memory; "0" for
            none. If neither has room, reading waits.
        disk: size of the frame log: contributions that are not closed yet. At this size reading waits, or
            continues and drops what does not fit, depending on the stream's `on_overload`; "0" for no
            limit. A rewrite of the log temporarily needs up to the same size again.
        self_check: verify one in so many intervals of the jobs whose master is here against the raw logs of
            all their agents (`elf verify`); 0 for none. Each check reads all logs of these agents.
        adhoc_jobs: maximum number of queries over streams (`elf query`) that run here at a time; 0 for none.
        query_bytes: bytes of logs above which a query over streams is refused here; "0" for no limit.
        standby: memory for the open windows that this agent holds as the standby of others; "0" for none.
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
    adhoc_jobs: Annotated[int, msgspec.Meta(ge=0)] = 4
    query_bytes: str = "0"
    standby: str = "64 MB"

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
    def standby_bytes(self) -> int:
        return parse_size(self.standby)

    @property
    def query_bytes_max(self) -> int | None:
        """`query_bytes` in bytes, None for no limit."""
        return parse_size(self.query_bytes) or None

    @property
    def disk_bytes(self) -> int | None:
        """`disk` in bytes, None for no limit."""
        return parse_size(self.disk) or None


def check_limits(limits: LimitsConfig, where: str) -> None:
    """Check the limits; `where` is the file and section. Raises ConfigError."""
    for key in ("memory", "spill", "disk", "process_memory", "query_bytes", "standby"):
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
