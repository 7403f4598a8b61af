"""What `elf doctor` checks through a running agent: health, clocks, peers, versions, certificates."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from elfmesh.addresses import parse_address
from elfmesh.cli.host.doctor_checks import HostFinding, expiry, named, unreachable
from elfmesh.control.jobs.load import SKEW_S
from elfmesh.errors import ConfigError


def in_the_fleet(
    health: Mapping[str, Any], agents: Mapping[str, Any], now: datetime.datetime
) -> Iterator[HostFinding]:
    """Yield the findings about the fleet.

    Args:
        health: answer of the agent about its health.
        agents: answer to the list of agents, which all agents give.
        now: present time, for certificates.
    """
    rows = agents["agents"]
    alive = [row for row in rows if row.get("status") != "dead"]
    yield _agent(health)
    yield _clocks(alive)
    yield _answers(rows, agents["asked"])
    yield _connections(alive)
    yield _versions(alive)
    yield from _certificates(alive, now)


def _agent(health: Mapping[str, Any]) -> HostFinding:
    name, status = str(health.get("agent")), str(health.get("status"))
    if status == "ok":
        return HostFinding("agent", "ok", f"{name} is ok")
    reasons = [str(health.get("problem") or "")]
    for part in ("sinks", "archives", "slowed"):
        reasons += [f"{each}: {why}" for each, why in sorted((health.get(part) or {}).items())]
    why = "; ".join(dict.fromkeys(filter(None, reasons))) or "no reason given"
    remedy = "`elf describe agent NAME` shows details."
    return HostFinding(
        "agent", "fail" if status == "waiting" else "warn", f"{name} is {status}: {why}", remedy
    )


def _clocks(alive: Sequence[Mapping[str, Any]]) -> HostFinding:
    skews = {str(row.get("name")): row.get("skew_seconds") for row in alive}
    known = {name: skew for name, skew in skews.items() if skew is not None}
    wrong = [f"{name} ({skew:+.1f} s)" for name, skew in sorted(known.items()) if abs(skew) > SKEW_S]
    if wrong:
        remedy = "Start a time service on that host, such as chronyd or systemd-timesyncd."
        return HostFinding(
            "clocks", "warn", f"clocks differ from those of the others: {named(wrong)}", remedy
        )
    if not known:
        return HostFinding("clocks", "ok", "one agent has no other clock to compare with")
    largest = max(map(abs, known.values()))
    return HostFinding("clocks", "ok", f"{len(known)} clocks differ by at most {largest:.3f} s")


def _answers(rows: Sequence[Mapping[str, Any]], asked: Mapping[str, int]) -> HostFinding:
    dead = [str(row.get("name")) for row in rows if row.get("status") == "dead"]
    found = f"{asked['answered']} of {asked['expected']} agents answered through the overlay"
    if dead:
        remedy = "Start it, or `elf forget AGENT` if it does not come back."
        return HostFinding("peers", "fail", f"{found}; dead: {named(dead)}", remedy)
    if asked["answered"] < asked["expected"]:
        return HostFinding("peers", "fail", found, "Ask again; `elf get agents` shows which agents answer.")
    if asked["expected"] == 1:
        return HostFinding("peers", "ok", "the overlay has one agent")
    return HostFinding("peers", "ok", f"{found}: requests and answers arrive in both directions")


def _connections(alive: Sequence[Mapping[str, Any]]) -> HostFinding:
    addresses = {}
    for row in alive:
        try:
            addresses[str(row.get("name"))] = parse_address(str(row["address"]), where="address")
        except (KeyError, ConfigError):
            continue  # an agent of an earlier release, or a simulated one
    refused = unreachable(addresses.values())
    if refused:
        remedy = "Allow the port in the firewall of that host, or set advertise there."
        return HostFinding("connections", "fail", f"no connection to {named(refused)}", remedy)
    return HostFinding("connections", "ok", f"{len(addresses)} agents accept connections from this host")


def _versions(alive: Sequence[Mapping[str, Any]]) -> HostFinding:
    versions: dict[str, list[str]] = {}
    for row in alive:
        versions.setdefault(str(row.get("version") or "unknown"), []).append(str(row.get("name")))
    if len(versions) > 1:
        found = "; ".join(f"{version}: {named(names)}" for version, names in sorted(versions.items()))
        remedy = "Finish the upgrade; agents of two releases in a row work together."
        return HostFinding("versions", "warn", found, remedy)
    return HostFinding("versions", "ok", f"{len(alive)} agents of version {next(iter(versions), 'unknown')}")


def _certificates(alive: Sequence[Mapping[str, Any]], now: datetime.datetime) -> Iterator[HostFinding]:
    found = []
    for row in alive:
        security: Mapping[str, Any] = row.get("security") or {}
        of = f"certificate of {row.get('name')}"
        if security.get("problem"):
            yield HostFinding(
                of, "fail", str(security["problem"]), "Correct the files of [tls] on that host."
            )
        elif expires := security.get("expires"):
            found.append(expiry(of, expires, now))
    wrong = [each for each in found if each.status != "ok"]
    yield from wrong
    if found and not wrong:
        soonest = min(found, key=lambda each: int(each.found.split()[2]))
        yield soonest._replace(
            check="certificates", found=f"{soonest.check} {soonest.found}, the others later"
        )
