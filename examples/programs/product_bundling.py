"""Product bundling (ELF 1 and 2.3): games that the same people like or buy, over a sliding window.

    python examples/programs/product_bundling.py

Likes and buys are edges between users and products; what hangs together is a bundle. Edges stay on the hosts
that logged them. In each epoch a host sends, for the ends of its edges, the smallest label that it knows up
two reducer trees, one per half of the vertices; their roots tell the master side what has become smaller, and
it multicasts that back: the next epoch's input. When nothing becomes smaller, every label is the smallest
product of its bundle. A window is 600 s and slides by 300 s; ELF-QL says when it is complete on all hosts.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import fleet
import shop_logs

import elfmesh
from elfmesh.api.client.job_values import Message, Result
from elfmesh.cli.host.local_agents import LocalAgents

TREES = ("vertices-0", "vertices-1")
WINDOWS = shop_logs.BATCHES + 1
SECOND = len("2013-02-08T01:10:00")
"""Times compare as text, to the second: there windows begin and end."""

Labels = dict[str, str]
Window = tuple[str, ...]


class ProductBundling(elfmesh.Job):
    """One web server's vertex.

    Args:
        api: of the agent beside it.
        log: of the web server.
        finished: the windows that have their bundles are put here.
    """

    query = """
        CREATE JOB shop.product_bundling LATENESS '0 s' AS
        SELECT count(*) AS edges FROM clicks
        WHERE directory = 'Video Games' AND likes_count + buys_count > 0
        GROUP BY HOP(ts, INTERVAL '300' SECOND, INTERVAL '600' SECOND)
    """

    def __init__(self, api: str, log: Path, finished: set[Window]) -> None:
        super().__init__(api)
        self.edges = list(edges_of(log))
        self.window: Window | None = None
        self.known: Labels = {}
        self.current: list[str | None] = []
        self.labels: Labels = {}
        self.smaller: Labels = {}
        self.bundles: list[list[str]] = []
        self.newest = (0, 0)
        self.finished = finished

    async def on_start(self) -> None:
        """Be a vertex of both trees."""
        for tree in TREES:
            await self.subscribe(tree)

    async def on_result(self, result: Result) -> None:
        """Master side: a window is complete. Iterate until no label becomes smaller."""
        window = [result.start, result.end]
        labels: Labels = {}
        changed: Labels = {}
        epoch = 0
        while True:
            self.current, self.labels, self.smaller = window, labels, {}
            delivery = await self.multicast({"window": window, "epoch": epoch, "labels": changed})
            if delivery.acknowledged < delivery.expected:
                continue  # a side did not handle it in time: the same epoch again changes nothing
            if not self.smaller:
                break
            labels, changed, epoch = labels | self.smaller, self.smaller, epoch + 1
        bundles = bundles_of(labels)
        click.echo(json.dumps({"window": window, "epochs": epoch, "bundles": bundles}))
        await self.multicast({"window": window, "bundles": bundles})

    async def on_multicast(self, message: Message) -> None:
        """An epoch begins: send up what the own edges make of the labels. Or a window has its bundles."""
        window = tuple(message.body["window"])
        if "bundles" in message.body:
            if message.order > self.newest:  # the next master side knows them
                self.newest, self.bundles = message.order, message.body["bundles"]
            self.finished.add(window)
            return
        if window != self.window or not message.body["epoch"]:
            self.window, self.known = window, {}
        for end, label in message.body["labels"].items():
            self.known[end] = min(label, self.known.get(end, label))
        pairs: dict[str, Labels] = defaultdict(dict)
        for at, *ends in self.edges:
            if window[0][:SECOND] <= at < window[1][:SECOND]:
                least = min(self.known.get(end, end) for end in ends)
                for end in ends:
                    if least < self.known.get(end, end):
                        tree = pairs[TREES[zlib.crc32(end.encode()) % len(TREES)]]
                        tree[end] = min(least, tree.get(end, least))
        for tree, labels in pairs.items():
            await self.send_up(tree, {"window": window, "labels": labels})

    async def on_recv(self, message: Message) -> None:
        """A child's labels: further up."""
        await self.send_up(message.group, message.body)

    async def send_up(self, tree: str, body: dict[str, Any]) -> None:
        """To the next vertex of the tree; the root's tells the master side."""
        if not await self.send_to(tree, body):
            await self.route(self.name, body)

    async def on_route(self, message: Message) -> Any:
        """Master side: labels from a root, or a client asks for the bundle of a product."""
        if "product" in message.body:
            product = message.body["product"]
            return next((bundle for bundle in self.bundles if product in bundle), [product])
        if message.body["window"] != self.current:
            return None  # of a window that is over
        for end, label in message.body["labels"].items():
            if label < self.labels.get(end, end):
                self.smaller[end] = min(label, self.smaller.get(end, label))
        return None


def edges_of(log: Path) -> list[tuple[str, str, str]]:
    """When, which user, which product, of every like and buy of a game."""
    found = []
    for line in log.read_text().splitlines():
        record = json.loads(line)
        if record["directory"] == "Video Games" and record["likes_count"] + record["buys_count"] > 0:
            found.append(
                (record["ts"][:SECOND], f"user:{record['user']['id']}", f"product:{record['product']}")
            )
    return found


def bundles_of(labels: Labels) -> list[list[str]]:
    """Products that hang together, two at least."""
    bundles: dict[str, list[str]] = defaultdict(list)
    for end in {*labels, *labels.values()}:
        if end.startswith("product:"):
            bundles[labels.get(end, end)].append(end.removeprefix("product:"))
    return sorted(sorted(bundle) for bundle in bundles.values() if len(bundle) > 1)


async def play(directory: Path, agents: LocalAgents) -> None:
    """Open the shop, wait until every window has its bundles."""
    logs = shop_logs.open_shop(directory, agents, {})
    finished: set[Window] = set()
    jobs = [ProductBundling(agent.api, log, finished) for agent, log in zip(agents.agents, logs, strict=True)]
    await fleet.until_done(jobs, all_finished(finished), 150)


async def all_finished(finished: set[Window]) -> None:
    """Wait until all windows have their bundles."""
    while len(finished) < WINDOWS:  # noqa: ASYNC110 - whichever vertex hears of one, puts it there
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    fleet.run(play)
