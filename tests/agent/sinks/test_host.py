"""The sinks of one agent: which jobs each of them follows, and how many together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from elfmesh.agent.sinks import host
from elfmesh.agent.sinks.config import PrometheusSink
from elfmesh.agent.sinks.follow import Follower, Progress
from elfmesh.agent.sinks.host import Sinks
from elfmesh.control.answers import OK, UNAVAILABLE
from elfmesh.control.protocol.events import Reply
from tests.patience import PATIENCE_S


async def test_a_page_is_written_while_the_loop_goes_on(tmp_path: Path) -> None:
    sinks = Sinks({"shown": PrometheusSink(jobs=("*",))}, tmp_path)
    (running,), page = sinks._sinks, sinks.metrics
    assert page is not None

    class Grows(Follower):
        """One that another job comes beside while it is looked at, as only another thread can do it."""

        def __init__(self) -> None:
            self.looked = 0

        @property
        def progress(self) -> Progress:  # type: ignore[override]  # a property where the class has a field
            self.looked += 1
            running.followers[f"shop/{self.looked}", "me"] = running.followers["shop/top", "me"]
            return Progress(written=7)

    running.followers["shop/top", "me"] = Grows(), asyncio.create_task(asyncio.sleep(0))
    assert b'elf_sink_written_total{elf_job="shop/top",elf_sink="shown"} 7.0' in page()
    await sinks.close()


async def test_an_agent_without_sinks_keeps_nothing_for_them(tmp_path: Path) -> None:
    sinks = Sinks({}, tmp_path / "sinks")
    assert sinks.describe() == sinks.problems() == {}
    assert sinks.metrics is None
    await sinks.close()
    assert not (tmp_path / "sinks").exists()


@pytest.mark.parametrize(
    ("patterns", "jobs"),
    [
        (("*",), ["a/b", "shop/top", "shop/totals"]),
        (("shop.*",), ["shop/top", "shop/totals"]),
        (("shop.to?",), ["shop/top"]),
        (("*.top", "a.b"), ["a/b", "shop/top"]),
        (("shop",), []),
    ],
)
async def test_a_sink_follows_the_jobs_that_its_patterns_name(
    patterns: tuple[str, ...], jobs: list[str], tmp_path: Path
) -> None:
    async with following(tmp_path, {"shown": PrometheusSink(jobs=patterns)}) as sinks:
        await until(lambda: described(sinks)["shown"] == jobs)


async def test_what_a_namespace_forbids_is_not_carried(tmp_path: Path) -> None:
    def may_carry(sink: str, job: str) -> bool:
        return sink == "one" or job != "shop/top"

    configs = {name: PrometheusSink(jobs=("*",)) for name in ("one", "other")}
    async with following(tmp_path, configs, may_carry) as sinks:
        await until(lambda: described(sinks)["other"] == ["a/b", "shop/totals"])
        assert described(sinks)["one"] == ["a/b", "shop/top", "shop/totals"]


async def test_jobs_over_the_limit_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "JOBS_MAX", 4)
    configs = {name: PrometheusSink(jobs=("*",)) for name in ("one", "other")}
    async with following(tmp_path, configs) as sinks:
        await until(lambda: len(described(sinks)["other"]) == 1)
        assert [each["jobs_left_out"] for each in sinks.describe().values()] == [0, 2]


async def ask(verb: str, _body: dict[str, Any]) -> Reply:
    """Three jobs without results, and a query of a client, which no sink follows."""
    if verb == "list":
        names = ("shop/top", "shop/totals", "a/b")
        rows: list[dict[str, Any]] = [{"job": name, "creator": "me"} for name in names]
        return Reply(0, OK, {"jobs": [{"job": "a/q-1", "creator": "me", "leased": True}, *rows]})
    return Reply(0, UNAVAILABLE, {"error": "no master"})


@asynccontextmanager
async def following(
    directory: Path, configs: dict[str, PrometheusSink], may_carry: Any = lambda _sink, _job: True
) -> AsyncIterator[Sinks]:
    sinks = Sinks(configs, directory, may_carry)
    try:
        sinks.start(ask)
        yield sinks
    finally:
        await sinks.close()


def described(sinks: Sinks) -> dict[str, list[str]]:
    return {name: sorted(each["jobs"]) for name, each in sinks.describe().items()}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(0.005)
