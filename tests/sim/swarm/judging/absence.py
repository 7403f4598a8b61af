"""When agents were away: down, stopped, gone, or cut off from another agent."""

from __future__ import annotations

import math
from itertools import combinations

from tests.sim.swarm.host import Host
from tests.sim.swarm.network import SwarmLink


def absences(hosts: list[Host], now: float) -> dict[str, list[tuple[float, float]]]:
    """By name of an agent: from when to when it was down or stopped, or both one after the other."""
    absent = {host.name: joined([*host.away, *host.stopped, *_down(host, now)]) for host in hosts}
    for host in hosts:
        for name, since in host.was.items():  # it left, or lost its disk and came back as another agent
            absent.setdefault(name, []).append((since, math.inf))
    return absent


def cut_off(hosts: list[Host], link: SwarmLink) -> dict[frozenset[str], list[tuple[float, float]]]:
    """By names of two agents: from when to when one did not reach the other."""
    return {
        frozenset((one.name, other.name)): link.cut_off(one.id, other.id)
        for one, other in combinations(hosts, 2)
    }


def _down(host: Host, now: float) -> list[tuple[float, float]]:
    return [] if host.down_since is None else [(host.down_since, now)]


def joined(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same times, those that touch as one."""
    found: list[tuple[float, float]] = []
    for since, to in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(to, found[-1][1]))
        else:
            found.append((since, to))
    return found
