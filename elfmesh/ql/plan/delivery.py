"""Delivery of topics: which posts a vertex receives together, and the query that does it.

A topic is a job over the stream into which programs post. Its rows are the posts.

Paper: Blazes III (M1: an order fixed beforehand; M2: an order decided while running; M3: sealing).
"""

from __future__ import annotations

from enum import StrEnum

from elfmesh.safeguards import safeguard

TOPIC, AUTO = "TOPIC", "AUTO"
PRODUCER, POSITION, AGENT, BODY = "producer", "position", "agent", "body"
COLUMNS = (PRODUCER, POSITION, AGENT, BODY)
"""Columns of a post, in the order of delivery. `body` is JSON text. A row of a sealed topic begins with the
keys of its partition."""


class TopicDelivery(StrEnum):
    """What a vertex receives: all posts in one order, whole partitions, or each post as soon as possible.

    The order of SEQUENCED follows from the posts; that of ORDERED is decided by the master as they arrive.
    """

    SEQUENCED = "SEQUENCED"
    ORDERED = "ORDERED"
    SEALED = "SEALED"
    UNORDERED = "UNORDERED"


@safeguard("canonical-order")
def topic_query(delivery: TopicDelivery, keys: tuple[str, ...]) -> tuple[str, str, str]:
    """Return the query of a topic in three parts; the stream, then the clause after SEALED, lie between."""
    named = [*(f"`{key}`" for key in keys), *COLUMNS]
    read = ["_host" if name == AGENT else name for name in named]
    items = [one if one == name else f"{one} AS {name}" for one, name in zip(read, named, strict=True)]
    sorts = delivery in (TopicDelivery.SEQUENCED, TopicDelivery.SEALED)
    order = f" ORDER BY {', '.join(named)}" if sorts else ""
    where = f" WHERE {BODY} IS NOT NULL"
    select = f"SELECT {', '.join(items)} FROM "
    if delivery is not TopicDelivery.SEALED:
        return select, where + order, ""
    return select, f"{where} GROUP BY SEALED", f", {', '.join(read)}{order}"
