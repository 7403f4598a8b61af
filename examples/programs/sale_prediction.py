"""Sale prediction (ELF 1 and 2.4): will a game sell? It asks the masters of the other two applications.

    python examples/programs/sale_prediction.py

Product bundling knows what is bought together with a game, micro-promotion knows what is popular now: both
are asked by name, over the overlay. No program needs to know where they run.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import fleet
import micro_promotion
import product_bundling
import shop_logs

import elfmesh
from elfmesh.cli.host.local_agents import LocalAgents

ASKED = 3


class SalePrediction(elfmesh.Job):
    """Has no job of its own: it only asks."""

    name = "shop/sale_prediction"

    async def predict(self, product: str) -> dict[str, Any]:
        """How many of a product and its peers are popular, and by how much."""
        peers = await self.route("shop/product_bundling", {"product": product})
        popular = await self.route("shop/micro_promotion", peers)
        return {
            "product": product,
            "peers": len(peers),
            "popular": popular,
            "score": round(len(popular) / len(peers), 3),
        }


async def play(directory: Path, agents: LocalAgents) -> None:
    """Open the shop with both applications on every host; then ask about some games."""
    logs = shop_logs.open_shop(directory, agents, micro_promotion.STREAMS)
    hosts = list(zip(agents.agents, logs, strict=True))
    promotion = [micro_promotion.MicroPromotion(agent.api, log) for agent, log in hosts]
    bundled: set[product_bundling.Window] = set()
    bundling = [product_bundling.ProductBundling(agent.api, log, bundled) for agent, log in hosts]
    prediction = SalePrediction(agents.agents[-1].api)

    async def ask() -> None:
        await asyncio.gather(*(job.done.wait() for job in promotion))
        await product_bundling.all_finished(bundled)
        games = sorted({product for _, _, product in product_bundling.edges_of(logs[0])})
        for game in games[:ASKED]:
            click.echo(json.dumps({"prediction": await prediction.predict(game.removeprefix("product:"))}))

    await fleet.until_done([*promotion, *bundling, prediction], ask(), 200)


if __name__ == "__main__":
    fleet.run(play)
