"""Topics of each delivery through twenty kills: no post is lost or delivered twice, and the order holds."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from elfmesh.ql.plan.delivery import TopicDelivery
from tests.exhaustive import few
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import VARIED_FROM, draw, posting
from tests.sim.swarm.shapes import small

KILLS = small(kinds.CRASH, kinds.FAILPOINT, kinds.POWER, safety_s=120.0, trouble_s=3.0, hosts=4)

pytestmark = pytest.mark.apart


@pytest.mark.parametrize("delivery", [*TopicDelivery])
@pytest.mark.parametrize("seed", few(range(3), 1))
def test_twenty_kills_lose_no_post_and_change_no_order(delivery: TopicDelivery, seed: int) -> None:
    outcome = run(posting(KILLS(draw(seed)), delivery, random.Random(seed)))
    assert outcome.crashes >= 20
    assert check(outcome) == {}
    records = [record for published in outcome.final.values() for record, _ in published.values()]
    assert sum(record.counts["contributed"] for record in records) > 100
    assert bool(outcome.posted) == (delivery is TopicDelivery.ORDERED)


def test_three_hundred_seeds_have_topics_of_all_kinds() -> None:
    drawn = [draw(seed) for seed in range(300)]
    found = Counter(job.delivery for each in drawn for job in each.jobs if job.delivery)
    found["ORDERED"] = sum(each.ordered for each in drawn)
    assert set(found) == {*TopicDelivery}
    assert min(found.values()) >= 5


def test_the_seeds_of_the_suite_have_no_topics_and_most_others_have_none() -> None:
    assert not any(draw(seed).has_posts for seed in range(VARIED_FROM))
    assert sum(draw(seed).has_posts for seed in range(VARIED_FROM, 300)) < 75
