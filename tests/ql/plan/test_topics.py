"""CREATE TOPIC: the job that a topic stands for, and the texts that are refused."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.control.jobs.plan import read_job
from elfmesh.ql.plan import delivery as deliveries
from elfmesh.ql.plan.delivery import COLUMNS, TopicDelivery
from elfmesh.ql.plan.topics import with_delivery
from tests.ql.refusals import refusing

TOPIC = "CREATE TOPIC ads.clicks DELIVERY "
SEAL = "WHEN event = 'end' PRODUCERS ONE AFTER '1 h')"


@pytest.mark.parametrize(
    ("text", "delivery", "columns", "every_us", "early_us"),
    [
        ("SEQUENCED EVERY '100 ms'", TopicDelivery.SEQUENCED, COLUMNS, 100_000, None),
        (f"SEALED (c, d {SEAL}", TopicDelivery.SEALED, ("c", "d", *COLUMNS), 1_000_000, None),
        (f"SEALED (c {SEAL} EVERY '5 s'", TopicDelivery.SEALED, ("c", *COLUMNS), 5_000_000, None),
        ("ORDERED", TopicDelivery.ORDERED, COLUMNS, 1_000, None),
        ("UNORDERED", TopicDelivery.UNORDERED, COLUMNS, 1_000_000, 50_000),
        ("unordered EARLY '1 s' EVERY '2 s'", TopicDelivery.UNORDERED, COLUMNS, 2_000_000, 1_000_000),
    ],
)
def test_a_topic_is_a_job_over_the_stream_of_its_name(
    text: str, delivery: TopicDelivery, columns: tuple[str, ...], every_us: int, early_us: int | None
) -> None:
    statement = ql.parse(TOPIC + text)
    assert statement.job is not None
    assert (statement.job.qualified, statement.job.delivery) == ("ads/clicks", delivery)
    assert (statement.columns, statement.streams) == (columns, ("clicks",))
    assert (statement.job.every_us, statement.job.early_us) == (every_us, early_us)
    assert statement.text == TOPIC + text
    assert read_job(TOPIC + text)[1].columns == columns


def test_the_order_of_a_topic_follows_from_its_posts() -> None:
    """M1 needs an order that another run gives again; UNORDERED and ORDERED have none of their own."""
    names = ", ".join(COLUMNS)
    for delivery, order in ((TopicDelivery.SEQUENCED, names), (TopicDelivery.SEALED, f"`c`, {names}")):
        query = "".join(deliveries.topic_query(delivery, ("c",) if "c" in order[:3] else ()))
        assert query.endswith(f" ORDER BY {order}")
    for delivery in (TopicDelivery.UNORDERED, TopicDelivery.ORDERED):
        assert "ORDER BY" not in "".join(deliveries.topic_query(delivery, ()))


def test_a_topic_may_name_its_stream_and_has_the_options_of_a_job() -> None:
    options = "ON STRAGGLER WAIT LATENESS '2 s' REPLICAS 1"
    statement = ql.parse(f"CREATE TOPIC t FROM other DELIVERY SEQUENCED EVERY '1 s' {options}")
    job = statement.job
    assert statement.stream == "other"
    assert job is not None
    assert (job.qualified, job.on_straggler) == ("default/t", "wait")
    assert (job.lateness_us, job.replicas) == (2_000_000, 1)


def test_auto_orders_as_posts_arrive_where_slow_agents_are_not_waited_for() -> None:
    text = "CREATE TOPIC ads.clicks DELIVERY AUTO on straggler skip"
    assert with_delivery(text, TopicDelivery.SEQUENCED) == "CREATE TOPIC ads.clicks DELIVERY ORDERED"
    assert with_delivery(text, TopicDelivery.UNORDERED).endswith("UNORDERED on straggler skip")
    waits = text.replace("skip", "wait")
    assert with_delivery(waits, TopicDelivery.SEQUENCED).endswith(
        "SEQUENCED EVERY '100 ms' on straggler wait"
    )


test_a_wrong_topic_is_refused_where_it_is_wrong = refusing(
    ("CREATE TOPIC", 1, 13, "expected the name of the job", "Names are"),
    ("CREATE TOPIC ads.clicks", 1, 24, "expected DELIVERY", "DELIVERY SEQUENCED"),
    ("CREATE TOPIC ads.clicks FROM 'x' DELIVERY UNORDERED", 1, 30, "the name of a stream", ""),
    (TOPIC, 1, 33, "there is no DELIVERY", "SEQUENCED EVERY"),
    (f"{TOPIC}AUTO", 1, 34, "a program chooses DELIVERY AUTO", "DELIVERY SEQUENCED"),
    (f"{TOPIC}SEQUENTED EVERY '1 s'", 1, 34, "there is no DELIVERY SEQUENTED", "Did you mean SEQUENCED?"),
    (f"{TOPIC}SEQUENCED", 1, 43, "SEQUENCED needs EVERY", "SEQUENCED EVERY '100 ms'"),
    (f"{TOPIC}SEQUENCED EVERY '0 s'", 1, 50, "EVERY must be greater than zero", "EVERY '30 s'"),
    (f"{TOPIC}SEQUENCED EVERY '1 s' EARLY '1 s'", 1, 67, "SEQUENCED has no EARLY", "UNORDERED"),
    (f"{TOPIC}SEQUENCED EVERY '1 s' AS SELECT 1", 1, 56, "expected an option of the topic", "Options are"),
    (f"{TOPIC}SEQUENCED EVERY '1 s' KEEP PARTIALS", 1, 69, "no partial aggregates", "Leave"),
    (f"{TOPIC}ORDERED EVERY '1 s'", 1, 53, "ORDERED has no EVERY", "no post waits"),
    (f"{TOPIC}UNORDERED EARLY '1 ms'", 1, 50, "EARLY must be at least 50 ms", "EARLY '250 ms'"),
    (f"{TOPIC}SEALED", 1, 40, "SEALED needs its keys in parentheses", "Write SEALED"),
    (f"{TOPIC}SEALED (c", 1, 41, "has no matching `)`", "Add a `)`"),
    (f"{TOPIC}SEALED (c)", 1, 43, "SEALED needs WHEN", "Write SEALED"),
    (f"{TOPIC}SEALED (length(c) {SEAL}", 1, 97, "not an expression", "SEALED (campaign WHEN"),
    (f"{TOPIC}SEALED (body {SEAL}", 1, 92, "not `body`", "SEALED (campaign WHEN"),
    (f"{TOPIC}SEALED (c WHEN count(*) = 1 PRODUCERS ONE AFTER '1 h')", 1, 49, "single records", "Leave"),
)
