"""Where jobs are placed one after the other."""

from __future__ import annotations

from collections import Counter

from elfmesh import ids


def by_the_rule(agents: list[bytes], jobs: list[str]) -> Counter[bytes]:
    """How many jobs each agent leads if they are applied one after the other."""
    numbers = {int.from_bytes(agent): agent for agent in agents}

    def closest(key: bytes) -> bytes:
        at = int.from_bytes(key)
        return numbers[min(numbers, key=lambda number: number ^ at)]

    led: Counter[bytes] = Counter(dict.fromkeys(agents, 0))
    for job in jobs:
        home, other = (closest(candidate) for candidate in ids.job_placements(job, "local"))
        led[other if led[other] < led[home] else home] += 1
    return led
