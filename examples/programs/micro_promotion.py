"""Micro-promotion (ELF 1, Figures 1, 4 and 7): the most clicked games of every 300 s get a coupon.

    python examples/programs/micro_promotion.py

The job is synchronous batches in ELF-QL: top ten over all hosts. The master side multicasts the coupons of a
batch to all hosts; each shows those of the products that it has, and inserts them into its stream `coupons`,
with the batch as position: however often they are told, they are there once, for other jobs to read.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path
from typing import Any

import click
import fleet
import shop_logs

import elfmesh
from elfmesh.api.client.job_values import Message, Result
from elfmesh.cli.host.local_agents import LocalAgents

DISCOUNTS = (30, 20, 10)
STREAMS = {"coupons": "shop/micro_promotion"}


# elf: allow B002 because a caller that asks twice may see the next batch
class MicroPromotion(elfmesh.Job):
    """One web server's vertex.

    Args:
        api: of the agent beside it.
        log: of the web server.
    """

    query = """
        CREATE JOB shop.micro_promotion LATENESS '0 s' AS
        SELECT product, sum(clicks_count) AS clicks FROM clicks
        WHERE directory = 'Video Games' AND user.location <> 'test'
        GROUP BY TUMBLE(ts, INTERVAL '300' SECOND), product
        HAVING sum(clicks_count) > 1 ORDER BY clicks DESC, product LIMIT 10
    """

    def __init__(self, api: str, log: Path) -> None:
        super().__init__(api)
        self.host = log.stem
        self.page: dict[str, int] = {}
        self.newest = (0, 0)
        self.batches: set[int] = set()
        self.done = asyncio.Event()

    @elfmesh.path("results", "multicast", "CW", idempotent=True, why="the coupons of a batch")
    async def on_result(self, result: Result) -> None:
        """Master side: a batch is closed."""
        click.echo(json.dumps({"batch": result.index, "start": result.start, "top": result.rows}))
        top = [row["product"] for row in result.rows]
        coupons = {product: DISCOUNTS[min(place, 2)] for place, product in enumerate(top)}
        await self.multicast({"batch": result.index, "at": result.start, "coupons": coupons})

    @elfmesh.path("multicast", "insert:coupons", "CW", idempotent=True, why="the batch is the position")
    async def on_multicast(self, message: Message) -> None:
        """Show the coupons of what is sold here; an older batch that comes later is not shown."""
        batch, coupons = message.body["batch"], message.body["coupons"]
        mine = {product: discount for product, discount in coupons.items() if sells(self.host, product)}
        records = [
            {"ts": message.body["at"], "product": product, "discount": discount}
            for product, discount in mine.items()
        ]
        await self.insert(records, producer="coupons", position=batch)
        if message.order > self.newest:
            self.newest, self.page = message.order, mine
        if batch not in self.batches:
            click.echo(json.dumps({"host": self.host, "batch": batch, "coupons": mine}))
        self.batches.add(batch)
        if len(self.batches) == shop_logs.BATCHES:
            self.done.set()

    @elfmesh.path("route", "answer", "OR", why="it answers from the newest batch")
    async def on_route(self, message: Message) -> dict[str, Any]:
        """Which of these products are popular now: their clicks in the newest batch."""
        result = await self.flush()
        rows = result.rows if result is not None else []
        return {row["product"]: row["clicks"] for row in rows if row["product"] in message.body}


def sells(host: str, product: str) -> bool:
    """Whether a web server has a product: each lacks a third of them."""
    return zlib.crc32(f"{host}/{product}".encode()) % 3 > 0


async def play(directory: Path, agents: LocalAgents) -> None:
    """Open the shop, wait until every host has shown the coupons of every batch."""
    logs = shop_logs.open_shop(directory, agents, STREAMS)
    jobs = [MicroPromotion(agent.api, log) for agent, log in zip(agents.agents, logs, strict=True)]
    await fleet.until_done(jobs, asyncio.gather(*(job.done.wait() for job in jobs)), 120)


if __name__ == "__main__":
    fleet.run(play)
