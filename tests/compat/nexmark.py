"""Nexmark: auctions, bids and persons of an auction site, with the answers that RisingWave expects."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.compat.cases import PEERS, Case, Ours, Translation
from tests.compat.risingwave import same_lines

STREAMS = ("auction", "bid", "person")


def cases() -> list[Case]:
    """Its queries, each over the three streams."""
    root = PEERS / "nexmark"
    events = [json.loads(line) for line in (root / "events.ndjson").read_text().splitlines()]
    inputs = {name: [event for event in events if event["event_type"] == name] for name in STREAMS}
    return [
        Case(case["name"], inputs, same_lines(case["expected"], ordered=False))
        for case in json.loads((root / "cases.json").read_text())["cases"]
    ]


IN_TIME = "b.date_time::TIMESTAMP BETWEEN a.date_time::TIMESTAMP AND a.expires::TIMESTAMP"

TRANSLATIONS: Mapping[str, Translation] = {
    "q0": Ours("SELECT auction, bidder, price, date_time FROM bid"),
    "q1": Ours("SELECT auction, bidder, 0.908BD * price AS price, date_time FROM bid"),
    "q2": Ours("SELECT auction, price FROM bid WHERE auction IN (1007, 1020, 2001, 2019, 2087)"),
    "q3": Ours("""SELECT p.name, p.city, p.state, a.id
FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca')"""),
    "q4": Ours(f"""SELECT category, avg(final) AS average
FROM (
  SELECT a.category, max(b.price) AS final
  FROM auction a JOIN bid b ON a.id = b.auction AND {IN_TIME}
  GROUP BY a.id, a.category
) closed
GROUP BY category"""),
    "q5": Ours("""WITH bids AS (
  SELECT auction, count(*) AS num
  FROM bid
  GROUP BY HOP(date_time, INTERVAL '2' SECOND, INTERVAL '10' SECOND), auction
)
SELECT auction, num FROM bids WHERE num >= (SELECT max(num) FROM bids)"""),
    "q6_group_top1": Ours(f"""WITH offers AS (
  SELECT a.seller, b.price, b.date_time AS at, row_number() OVER (PARTITION BY a.id ORDER BY b.price) AS place
  FROM auction a JOIN bid b ON a.id = b.auction AND {IN_TIME}
), sales AS (
  SELECT seller, price, row_number() OVER (PARTITION BY seller ORDER BY at) AS n FROM offers WHERE place = 1
)
SELECT this.seller, avg(before.price) AS average
FROM sales this JOIN sales before ON this.seller = before.seller AND before.n BETWEEN this.n - 10 AND this.n
GROUP BY this.seller, this.n"""),
    "q7": Ours("""SELECT auction, price, bidder, date_time
FROM bid
GROUP BY TUMBLE(date_time, INTERVAL '10' SECOND), auction, price, bidder, date_time
HAVING price = (SELECT max(price) FROM bid)"""),
    "q8": Ours("""SELECT p.id, p.name, p.starttime
FROM (
  SELECT id, name, window_start AS starttime
  FROM person
  GROUP BY TUMBLE(date_time, INTERVAL '10' SECOND), id, name
) p JOIN (
  SELECT seller FROM auction GROUP BY TUMBLE(date_time, INTERVAL '10' SECOND), seller
) a ON p.id = a.seller"""),
    "q9": Ours(f"""SELECT id, item_name, description, initial_bid, reserve, date_time, expires,
       seller, category, auction, bidder, price, bid_date_time
FROM (
  SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires,
         a.seller, a.category, b.auction, b.bidder, b.price, b.date_time AS bid_date_time,
         row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS place
  FROM auction a JOIN bid b ON a.id = b.auction AND {IN_TIME}
) offers
WHERE place = 1"""),
}
