"""What `elf doctor` checks on this host: configuration, permissions, limits, disk, certificates.

Each check is a function from the configuration to findings. It opens files and sockets and changes nothing.
"""

from __future__ import annotations

import datetime
import glob
import os
import resource
import shutil
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

from elfmesh.agent.settings.config import AgentConfig, load_config
from elfmesh.cli.host.validation import Problem, validate
from elfmesh.control.jobs.load import EXPIRY_DAYS, days_left
from elfmesh.errors import ElfError
from elfmesh.plugins import refused
from elfmesh.units import parse_size

FILES_MIN = 4096
"""Descriptors of a process below which an agent with many files and peers may wait for one."""

PROCESS_BYTES = 100_000_000
"""Memory that an agent needs beside that of its records."""

FREE_BYTES_MIN = 100_000_000
"""Free disk space below which an agent may stop within minutes."""

CONNECT_S = 3.0
CONNECTIONS_MAX = 16
NAMED = 3
"""Number of files or agents that a line names."""

Status = Literal["ok", "warn", "fail"]


class HostFinding(NamedTuple):
    """Result of one check: what was found, and what to do about it."""

    check: str
    status: Status
    found: str
    remedy: str = ""


def check_plugins() -> list[HostFinding]:
    """Return the plug-ins of this host that an agent does not use."""
    remedy = "Install a release of the package for this one, or remove it."
    return [HostFinding("plug-ins", "warn", str(each), remedy) for each in refused()]


def check_configuration(path: str) -> tuple[AgentConfig | None, list[HostFinding]]:
    """Return the configuration, None if it is wrong, and what is wrong with it."""
    (checked,) = validate([path])
    of = "configuration"
    if checked.kind == "jobs":
        return None, [HostFinding(of, "fail", f"{path} is a file of jobs, not an agent.toml")]
    if checked.problems:
        first = checked.problems[0]
        others = f"`elf validate {path}` lists {len(checked.problems)} errors."
        remedy = " ".join([first.hint, others] if len(checked.problems) > 1 else [first.hint])
        return None, [HostFinding(of, "fail", _placed(first), _one_line(remedy))]
    found = [HostFinding(of, "warn", _placed(each), _one_line(each.hint)) for each in checked.warnings]
    return load_config(path), found or [HostFinding(of, "ok", f"{path}, {checked.holds}")]


def on_this_host(config: AgentConfig) -> Iterator[HostFinding]:
    """Yield the findings of all checks that need no agent."""
    yield _data_directory(config.directory)
    yield from _logs(config)
    yield _descriptors()
    yield _memory(config)
    yield _disk(config)
    yield _certificates(config)
    yield from check_plugins()


def _data_directory(path: Path) -> HostFinding:
    of, user = "data directory", f"user {os.getuid()}"
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if there == path and not path.is_dir():
        return HostFinding(of, "fail", f"{path} is not a directory", "Set data_dir to another path.")
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"Run the agent as its owner, or: chown -R USER {there}"
        return HostFinding(of, "fail", f"{user} cannot write to {there}", remedy)
    if there != path:
        return HostFinding(of, "ok", f"{path} does not exist yet; the agent creates it")
    if path.stat().st_mode & 0o022:
        return HostFinding(of, "warn", f"other users can write to {path}", f"chmod go-w {path}")
    return HostFinding(of, "ok", f"{path} is writable for {user}")


def _logs(config: AgentConfig) -> Iterator[HostFinding]:
    for name, stream in config.streams.items():
        if not stream.path:
            continue
        of = f"logs of {name}"
        paths = sorted(glob.glob(stream.path)) or [stream.path]  # noqa: PTH207 - Path.glob takes no absolute pattern
        closed = [path for path in paths if Path(path).exists() and not os.access(path, os.R_OK)]
        if closed:
            remedy = "Add the agent's user to the group of the files, such as adm."
            yield HostFinding(of, "fail", f"user {os.getuid()} cannot read {named(closed)}", remedy)
        elif not any(Path(path).exists() for path in paths):
            remedy = "Check the path; the agent waits for the file."
            yield HostFinding(
                of, "warn", f"no file matches {stream.path}, or its directory cannot be read", remedy
            )
        else:
            yield HostFinding(of, "ok", f"{len(paths)} files can be read")


def _descriptors() -> HostFinding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES_MIN:
        remedy = f"ulimit -n {FILES_MIN}, or LimitNOFILE={FILES_MIN} in the unit of the service."
        return HostFinding("descriptors", "warn", f"a process may open {soft} files (at most {hard})", remedy)
    return HostFinding("descriptors", "ok", f"a process may open {soft} files")


def _memory(config: AgentConfig) -> HostFinding:
    needed = parse_size(config.limits.memory) + PROCESS_BYTES
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError):
        return HostFinding("memory", "warn", "the kernel does not report the available memory")
    free = int(kilobytes) * 1024
    found = f"{_size(free)} are available; the agent may need {_size(needed)}"
    if free < needed:
        return HostFinding("memory", "warn", found, "Set a lower limits.memory, or free memory.")
    return HostFinding("memory", "ok", found)


def _disk(config: AgentConfig) -> HostFinding:
    path = next(each for each in (config.directory, *config.directory.absolute().parents) if each.exists())
    free = shutil.disk_usage(path).free
    needed = parse_size(config.limits.disk) + parse_size(config.limits.spill)
    found = f"{_size(free)} are free at {path}; the limits allow {_size(needed)}"
    if free < FREE_BYTES_MIN:
        return HostFinding("disk", "fail", found, "Free disk space, or set data_dir to another disk.")
    if free < needed:
        return HostFinding(
            "disk", "warn", found, "Free disk space, or set lower limits.disk and limits.spill."
        )
    return HostFinding("disk", "ok", found)


def _certificates(config: AgentConfig) -> HostFinding:
    of = "certificates"
    if not config.tls.given:
        if config.dangerously_insecure_network:
            remedy = "Give the agent certificates: `elf ca`."
            return HostFinding(of, "warn", "none: the agent trusts every host that reaches it", remedy)
        return HostFinding(of, "ok", "none; the agent listens on this host only")
    try:
        from elfmesh.agent.settings.security import Security

        expires = Security(config).describe()["expires"]
    except ElfError as error:
        return HostFinding(of, "fail", _one_line(str(error)), error.hint)
    return expiry(of, expires, datetime.datetime.now(datetime.UTC))


def expiry(of: str, expires: object, now: datetime.datetime) -> HostFinding:
    """Return the finding about a certificate that ends at the time that its agent reports."""
    days = days_left({"expires": expires}, now.timestamp())
    remedy = "`elf ca renew` makes a new one; the agent reads it without a restart."
    if days is None:
        return HostFinding(of, "fail", f"ends at {expires!r}, which is no time", "Check the agent's version.")
    if days < 0:
        return HostFinding(of, "fail", f"expired at {expires}", remedy)
    found = f"expires in {int(days)} days, at {expires}"
    return HostFinding(of, "warn", found, remedy) if days < EXPIRY_DAYS else HostFinding(of, "ok", found)


def check_joins(config: AgentConfig) -> Iterator[HostFinding]:
    """Yield whether the agents that this one joins accept connections."""
    refused = unreachable(config.join_addresses)
    if refused:
        remedy = "Start that agent, and allow its port in the firewalls between both hosts."
        yield HostFinding("peers", "fail", f"no connection to {named(refused)}", remedy)
    elif config.join:
        yield HostFinding("peers", "ok", f"{len(config.join)} agents to join accept connections")


def unreachable(addresses: Iterable[tuple[str, int]]) -> list[str]:
    """Return the addresses that accept no connection, each with the reason."""

    def reason(address: tuple[str, int]) -> str:
        try:
            socket.create_connection(address, CONNECT_S).close()
        except OSError as error:
            return f"{address[0]}:{address[1]} ({error.strerror or error})"
        return ""

    with ThreadPoolExecutor(CONNECTIONS_MAX) as pool:
        return [why for why in pool.map(reason, addresses) if why]


def named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _placed(problem: Problem) -> str:
    place = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    return f"{place}: {_one_line(problem.message)}"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def _one_line(text: str) -> str:
    return " ".join(text.split())
