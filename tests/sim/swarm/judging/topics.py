"""Topics of a run: each post once, and in the order that the delivery promises.

Which posts a record has is judged as for every job, because a post is a line of a log; see `outcome.table`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from elfmesh.ql.plan.delivery import AGENT, POSITION, PRODUCER, TopicDelivery
from tests.sim.swarm.judging.outcome import Outcome, PostName, posts

ORDERED = "sim/order"
"""Name of the ORDERED topic."""

_SORTED = (TopicDelivery.SEQUENCED, TopicDelivery.SEALED)


def topics_deliver_each_post_once(out: Outcome) -> Iterator[str]:
    """No post is in two rows, and the rows of SEQUENCED and SEALED are in the order of their posts."""
    for key, published in out.final.items():
        delivery = out.truths[key].job.delivery
        if not delivery or out.history.tampered:
            continue
        found = Counter[PostName]()
        for index, (_, encoded) in published.items():
            rows = posts(encoded)
            found.update((row[AGENT], row[PRODUCER], row[POSITION]) for row in rows)
            order = [(row.get("k", ""), row[PRODUCER], row[POSITION]) for row in rows]
            if delivery in _SORTED and order != sorted(order):
                yield f"{key[0]} {index}: out of order: {order}"
        if repeated := sorted(name for name, number in found.items() if number > 1):
            yield f"{key[0]}: more than once: {repeated}"


def ordered_topic_has_one_order(out: Outcome) -> Iterator[str]:
    """All agents have one sequence, with each post once and those of a producer in their order."""
    if ORDERED in out.lost or not out.orders:
        return
    longest = max(out.orders.values(), key=len)
    for reader, names in sorted(out.orders.items()):
        if names != longest[: len(names)]:
            yield f"{ORDERED}: {reader} has another order: {_apart(names, longest)}"
    if repeated := sorted(name for name, number in Counter(longest).items() if number > 1):
        yield f"{ORDERED}: more than once: {repeated}"
    last: dict[tuple[str, str], int] = {}
    for agent, producer, position in longest:
        if position < last.get((agent, producer), -1):
            yield f"{ORDERED}: {position} of {producer} is behind {last[agent, producer]}"
        last[agent, producer] = position
    if lost := sorted(out.posted - set(longest)):
        yield f"{ORDERED}: lost: {lost}"


def _apart(names: Sequence[PostName], other: Sequence[PostName]) -> str:
    at = next(at for at, name in enumerate(names) if at >= len(other) or name != other[at])
    return f"at {at}: {names[at : at + 2]} and {other[at : at + 2]}"
