"""How an ordered topic puts posts in order without its safeguards; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.sim.swarm.ablations.names import Patch, always, instead, original
from tests.sim.swarm.shapes import Shape, small

CALM = small()


def _unsorted() -> list[Patch]:
    """The rows of a topic come in no order of their own."""
    found = original("canonical-order")

    def query(*of: Any) -> tuple[str, str, str]:
        first, second, third = (part.partition(" ORDER BY ")[0] for part in found(*of))
        return first, second, third

    return instead("canonical-order", query)


SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "order-once": (
        "a post that is in a record, or waits for one, is not put in order again",
        "D-6",
        always(("order-once", lambda self, agent, post: True)),
        CALM,
    ),
    "order-restored": (
        "a new master continues with the positions that the register has",
        "D-6",
        always(("order-restored", lambda tail: {})),
        CALM,
    ),
    "order-closed": (
        "a post is confirmed only after the register has closed its record",
        "D-6",
        always(("order-closed", lambda self, index: True)),
        CALM,
    ),
    "order-from-first": (
        "a message begins with the first post that is not confirmed",
        "D-6",
        always(("order-from-first", lambda self: list(self._posts)[-1:])),
        CALM,
    ),
    "canonical-order": (
        "the order of a sequenced topic follows from its posts",
        "D-6",
        _unsorted,
        CALM,
    ),
    "post-times": (
        "the times of posts do not decrease over a restart",
        "D-12",
        always(("post-times", lambda lines: 0)),
        CALM,
    ),
}
"""What each is, the promise that it serves, what is replaced by its absence, what a seed is asked."""

ELSEWHERE = dict.fromkeys(SAFEGUARDS, "tests/control/master/test_ordering.py") | {
    "canonical-order": "tests/ql/plan/test_topics.py",
    "post-times": "tests/ingest/inputs/test_posts.py",
}
