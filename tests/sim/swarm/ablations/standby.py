"""How standbys work without their safeguards; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.ablations.names import Patch, always
from tests.sim.swarm.shapes import REPEATING, Shape, small

JOB = {"standby_ms": 100, "replicas": 1, "deadline_s": 0.5, "horizon_s": 1.0, "slide_s": 5, "size_s": 5}
DYING = small(kinds.CRASH, kinds.PAUSE, job=JOB, hosts=4, trouble_s=3.0, poll_s=0.1)
"""Members die or stop inside a window, and come back after it is closed."""

SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "chain-order": (
        "a delta is accepted only behind the one before it",
        "D-21",
        always(
            ("chain-order:standby", staticmethod(lambda chain, message: True)),
            ("chain-order:master", staticmethod(lambda chain, delta: True)),
        ),
        small(kinds.CRASH, job=JOB, hosts=4, trouble_s=3.0, poll_s=0.1, weather=REPEATING),
    ),
    "prefix-of-missing": (
        "a contribution of a member takes the place of its prefix",
        "D-21",
        always(("prefix-of-missing", staticmethod(lambda required, missing, inside: required))),
        DYING,
    ),
    "prefix-once": (
        "records that are inside in a prefix are not counted as expired",
        "D-21",
        always(("prefix-once", lambda counts, prefix: counts)),
        DYING,
    ),
}
