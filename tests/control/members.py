"""One agent of the harness: its logs, worker, disk and results, and what its host answers to a machine."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from elfmesh.control import events as ctl
from elfmesh.control.answers import decode_body
from elfmesh.control.machine import Control
from elfmesh.control.pages import encode_page
from elfmesh.control.plan import Plan, read_plan
from elfmesh.control.records import BUCKETS, ResultRecord, table_to_ipc
from elfmesh.machine import Contact, Event
from elfmesh.srt.messages import Entry, Segment

SECOND = 1_000_000

TEXT = """CREATE JOB shop.top EVERY '10 s' DEADLINE '1 s' AS
SELECT product, COUNT(*) AS hits FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product"""


def agent_id(number: int) -> bytes:
    return random.Random(number).randbytes(20)


Post = Callable[[float, "Agent", Event], None]
"""Feeds an event to an agent after some seconds."""


def count(agent: Agent, plan: Plan, partitions: int, index: int) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
    """An interval of an agent's log: records by bucket, and a payload per partition."""
    keys = Counter(key for at, key in agent.logs.get(plan.stream, []) if at // plan.slide_us == index)
    payloads = []
    for partition in range(partitions):
        mine = {
            key: number
            for key, number in sorted(keys.items())
            if zlib.crc32(key.encode()) % partitions == partition
        }
        payloads.append(json.dumps(mine).encode() if mine else b"")
    return (sum(keys.values()), *(0,) * (len(BUCKETS) - 1)), tuple(payloads)


class Worker:
    """Counts the records of a stream by key, as the agent's worker would."""

    def __init__(self, agent: Agent, effect: ctl.StartWorker) -> None:
        self.agent, self.manifest, self.start = agent, effect.manifest, effect.start
        self.plan: Plan = read_plan(effect.manifest.text)
        self.sealed = effect.start
        self.paused = False

    def advance(self) -> None:
        """Seal what the watermark has passed."""
        stream = self.plan.stream
        if self.paused or stream not in self.agent.watermarks:
            return
        stop = self.agent.watermarks[stream] // self.plan.slide_us
        if stop <= self.sealed:
            return
        partitions = self.manifest.partitions
        indices = {at // self.plan.slide_us for at, _ in self.agent.logs.get(stream, [])}
        made = {
            index: count(self.agent, self.plan, partitions, index)
            for index in sorted(indices)
            if self.sealed <= index < stop
        }
        parts = []
        for partition in range(partitions):
            nothing = (0,) * len(BUCKETS)
            entries = [
                Entry(index, nothing if partition else counts, len(payloads[partition]))
                for index, (counts, payloads) in made.items()
            ]
            payloads = tuple(payloads[partition] for _, payloads in made.values())
            parts.append(ctl.SealedPart(tuple(entries), payloads))
        event = ctl.Sealed(self.manifest.job_id, self.manifest.incarnation, self.sealed, stop, tuple(parts))
        self.sealed = stop
        self.agent.post(0.0, self.agent, event)


class Agent:
    def __init__(self, post: Post, number: int, streams: dict[str, pa.Schema | None], labels: dict[str, str]):
        self.post, self.number = post, number
        self.streams, self.labels = streams, labels
        self.logs: dict[str, list[tuple[int, str]]] = {}
        self.watermarks: dict[str, int] = {}
        self.disk: dict[tuple[str, bytes], bytes] = {}
        self.results: dict[bytes, tuple[str, list[tuple[ResultRecord, bytes]]]] = {}
        self.replies: dict[int, ctl.Reply] = {}
        self.released: list[int] = []
        self.dead_letters: list[ctl.DeadLetter] = []
        self.incarnation = 0
        self.boot()

    def boot(self) -> None:
        self.incarnation += 1
        self.alive = True
        self.me = Contact(agent_id(self.number), "sim", self.number, self.incarnation)
        rng = random.Random(f"{self.number}/{self.incarnation}")
        self.control = Control(self.me, f"agent-{self.number}", rng=rng)
        self.workers: dict[bytes, Worker] = {}
        self.contributed: dict[bytes, list[tuple[Segment, tuple[bytes, ...]]]] = {}

    def restored(self) -> ctl.Restored:
        items = tuple((kind, key, data) for (kind, key), data in self.disk.items())
        logs = tuple(
            ctl.LogInfo(job, incarnation, records[-1][0].index if records else None)
            for job, (incarnation, records) in self.results.items()
        )
        return ctl.Restored(items, logs)

    def feed(self, stream: str, records: list[tuple[int, str]]) -> None:
        self.logs.setdefault(stream, []).extend(records)

    def seal(self, stream: str, watermark_us: int) -> None:
        self.watermarks[stream] = max(watermark_us, self.watermarks.get(stream, 0))
        for worker in list(self.workers.values()):
            worker.advance()

    @property
    def masters(self) -> list[str]:
        return [master.manifest.qualified for master in self.control.leadership.masters.values()]


def rows_of(counter: Counter[str]) -> list[dict[str, Any]]:
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return [{"product": key, "hits": number} for key, number in ordered]


def finalise(effect: ctl.Finalise) -> ctl.Finalised:
    total: Counter[str] = Counter()
    try:
        for partition in effect.parts:
            for payload in partition:
                total.update(decode_body(payload))
    except Exception as error:
        return ctl.Finalised(effect.job, effect.epoch, effect.interval, error=str(error), rev=effect.rev)
    table = pa.Table.from_pylist(
        rows_of(total), schema=pa.schema([("product", pa.string()), ("hits", pa.int64())])
    )
    return ctl.Finalised(effect.job, effect.epoch, effect.interval, table_to_ipc(table), rev=effect.rev)


def recompute(agent: Agent, effect: ctl.Recompute) -> ctl.Recomputed:
    plan = read_plan(effect.manifest.text)
    counts, payloads = count(agent, plan, effect.manifest.partitions, effect.interval)
    return ctl.Recomputed(effect.token, counts, payloads)


def read_log(agent: Agent, effect: ctl.ReadLog) -> ctl.LogRead:
    _, records = agent.results.get(effect.job, ("", []))
    found = [
        each
        for each in records
        if (effect.start is None or each[0].index >= effect.start)
        and (effect.stop is None or each[0].index < effect.stop)
    ][: effect.limit]
    schema = pa.schema([("product", pa.string()), ("hits", pa.int64())]).serialize().to_pybytes()
    return ctl.LogRead(
        effect.token,
        encode_page(found),
        found[-1][0].index + 1 if found else None,
        records[0][0].index if records else None,
        records[-1][0].index if records else None,
        None,
        schema if records else b"",
    )
