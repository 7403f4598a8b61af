"""Control group of the agent (cgroup v2), if the system has delegated a subtree to it.

The agent moves itself into a child group, because a group cannot have both processes and limits for children,
and writes cpu.max and memory.high there. If this fails, no partial change remains. See docs.kernel.org,
"Control Group v2", "Delegation" and "No Internal Process Constraint".
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PERIOD_US = 100_000
CHILD = "elf-agent"
CPU_ROOM = 1.1
"""Factor by which the kernel's limit exceeds that of reading, so that requests of peers are not throttled
too."""


def apply(
    cores: float | None,
    memory_bytes: int,
    *,
    mount: Path = Path("/sys/fs/cgroup"),
    own: Path = Path("/proc/self/cgroup"),
) -> str:
    """Move into an own group with these limits (None, 0: no limit).

    Returns "" if in force, else the reason.
    """
    wanted = [name for name, given in (("cpu", cores), ("memory", memory_bytes)) if given]
    if not wanted:
        return ""
    try:
        group = _own_group(mount, own)
        if group is None:
            return "this system has no cgroup v2 tree"
        if group.name == CHILD:  # left by an earlier agent
            group = group.parent
        lacking = set(wanted) - set((group / "cgroup.controllers").read_text().split())
        if lacking:
            return f"{group} has no controller {', '.join(sorted(lacking))}"
        return _limit(group, cores, memory_bytes, wanted)
    except OSError as error:
        return f"{error.filename or 'cgroup'}: {error.strerror or error}"


def _own_group(mount: Path, own: Path) -> Path | None:
    for line in own.read_text().splitlines():
        if line.startswith("0::") and (mount / "cgroup.controllers").exists():
            return mount / line.removeprefix("0::").lstrip("/")
    return None


def _limit(group: Path, cores: float | None, memory_bytes: int, wanted: list[str]) -> str:
    others = set((group / "cgroup.procs").read_text().split()) - {str(os.getpid())}
    if others:
        return f"{group} is shared with {len(others)} other processes; under systemd set Delegate=yes"
    child = group / CHILD
    child.mkdir(exist_ok=True)
    try:
        (child / "cgroup.procs").write_text(str(os.getpid()))
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
        if cores:
            quota = max(1000, round(cores * CPU_ROOM * PERIOD_US))
            (child / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        if memory_bytes:
            (child / "memory.high").write_text(str(memory_bytes))
    except OSError:
        with contextlib.suppress(OSError):
            (group / "cgroup.procs").write_text(str(os.getpid()))
        raise
    return ""
