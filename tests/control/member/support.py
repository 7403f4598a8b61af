"""One agent of the harness: its logs, worker, disk and results, and what its host answers to a machine."""

from __future__ import annotations

import itertools
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from elfmesh.contribution import Contribution
from elfmesh.control.answers import decode_body
from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.records import BUCKETS, FIRST, ResultRecord
from elfmesh.control.jobs.row_pages import digest_of
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.machine import Control
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.compute import PartialCompute, accuracy_of
from elfmesh.machine import Contact, Event
from elfmesh.ql.values.plain_ipc import ipc_to_table, table_to_ipc
from elfmesh.srt.messages import Segment
from tests.ql.sessions import partials

SECOND = 1_000_000

TEXT = """CREATE JOB shop.top EVERY '10 s' DEADLINE '1 s' AS
SELECT product, COUNT(*) AS hits FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product"""


def agent_id(number: int) -> bytes:
    return random.Random(number).randbytes(20)


SESSIONS = """CREATE JOB shop.visits DEADLINE '1 s' AS
SELECT k AS product, window_start AS start, window_end AS end, COUNT(*) AS hits FROM clicks
GROUP BY SESSION(ts, INTERVAL '10' SECOND), k"""

BEFORE = ("before", pa.int64())
"""Of a job that sees the newest result of another: what that said of the product."""

SEALED = """CREATE JOB ads.ends EVERY '10 s' DEADLINE '1 s' AS SELECT k, count(*) AS hits FROM clicks
GROUP BY SEALED(k WHEN v = 0 PRODUCERS ALL AFTER '1 h')"""

ENDS = "!"
"""Suffix of a key: the record is a punctuation, whose value is 0."""

Post = Callable[[float, "Agent", Event], None]
"""Feeds an event to an agent after some seconds."""


def left_out(text: str) -> str:
    """The one key that a text's filter leaves out, the only filter there is here."""
    return text.partition("product <> '")[2].partition("'")[0]


def count(
    agent: Agent, plan: JobPlan, partitions: int, index: int, without: str = "", text: str = SESSIONS
) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
    """An interval of an agent's log: records by bucket, and a payload per partition."""
    records = [
        (at, key)
        for at, key in agent.logs.get(plan.streams[0], [])
        if at // plan.slide_us == index and key != without
    ]
    keys = Counter(key for _, key in records)
    payloads = []
    for partition in range(partitions):
        mine = {
            key: number
            for key, number in sorted(keys.items())
            if zlib.crc32(key.encode()) % partitions == partition
        }
        if plan.spans and mine:  # the real thing: a root merges it
            rows = [
                (at, key.removesuffix(ENDS), int(not key.endswith(ENDS)))
                for at, key in records
                if key in mine
            ]
            payloads.append(partials(text, rows, member=agent.me.id.hex())[index][0])
        else:
            payloads.append(json.dumps(mine).encode() if mine else b"")
    counts = [0] * len(BUCKETS)
    counts[BUCKETS.index("parse_error" if without and without == agent.poisoned() else "contributed")] = sum(
        keys.values()
    )
    return tuple(counts), tuple(payloads)


def reduced_by(text: str) -> str:
    return text if read_plan(text).spans in ("SEALED", "ROWS", "WITHIN") else SESSIONS


class Worker:
    """Counts the records of a stream by key, as the agent's worker would."""

    def __init__(self, agent: Agent, effect: ctl.StartWorker) -> None:
        self.agent, self.manifest, self.start = agent, effect.manifest, effect.start
        self.plan: JobPlan = read_plan(effect.manifest.text)
        self.stages = effect.stages or (Stage(FIRST, effect.manifest, effect.manifest.version),)
        self.sealed = effect.start
        self.paused = False
        self.revs: dict[int, int] = {}
        self.seq = 0

    def advance(self) -> None:
        """Seal what the watermark has passed."""
        stream = self.plan.streams[0]
        if self.paused or stream not in self.agent.watermarks:
            return
        stop = (self.agent.watermarks[stream] - self.plan.size_us) // self.plan.slide_us + 1
        while self.sealed < stop:
            stage = stage_at(self.stages, self.sealed)
            edges = [each.start for each in self.stages if self.sealed < each.start < stop]
            self._seal(min(edges, default=stop), stage)

    def _seal(self, stop: int, stage: Stage) -> None:
        """Seal a range of one version."""
        stream, partitions = self.plan.streams[0], self.manifest.partitions
        indices = {at // self.plan.slide_us for at, _ in self.agent.logs.get(stream, [])}
        without = left_out(stage.manifest.text)
        made = {
            index: count(self.agent, self.plan, partitions, index, without, reduced_by(stage.manifest.text))
            for index in sorted(indices)
            if self.sealed <= index < stop
        }
        parts = []
        for partition in range(partitions):
            nothing = (0,) * len(BUCKETS)
            parts.append(
                tuple(
                    Contribution(index, nothing if partition else counts, payloads[partition])
                    for index, (counts, payloads) in made.items()
                )
            )
        job, incarnation = self.manifest.job_id, self.manifest.incarnation
        event = ctl.Sealed(job, incarnation, self.sealed, stop, tuple(parts), evaluated=stage.evaluated)
        self.sealed = stop
        self.agent.post(0.0, self.agent, event)

    def revise(self, index: int, added: int) -> None:
        """So many records of a sealed interval have come late."""
        self.revs[index] = rev = self.revs.get(index, 1) + 1
        self.seq += 1
        text = reduced_by(self.manifest.text)
        counts, payloads = count(self.agent, self.plan, self.manifest.partitions, index, text=text)
        nothing = (0,) * len(BUCKETS)
        parts = tuple(
            (Contribution(index, nothing if at else counts, payload, rev),)
            for at, payload in enumerate(payloads)
        )
        job, incarnation, more = self.manifest.job_id, self.manifest.incarnation, (added, *nothing[1:])
        self.agent.post(0.0, self.agent, ctl.Revised(job, incarnation, index, rev, parts, more, self.seq))


class Agent:
    def __init__(
        self,
        post: Post,
        number: int,
        streams: dict[str, pa.Schema | None],
        labels: dict[str, str],
    ):
        self.post, self.number = post, number
        self.streams, self.labels = streams, labels
        self.logs: dict[str, list[tuple[int, str]]] = {}
        self.watermarks: dict[str, int] = {}
        self.disk: dict[tuple[str, bytes], bytes] = {}
        self.results: dict[bytes, tuple[str, list[tuple[ResultRecord, bytes]]]] = {}
        self.set_aside: dict[bytes, tuple[str, list[tuple[ResultRecord, bytes]]]] = {}
        self.pages: dict[tuple[bytes, str], dict[bytes, tuple[int, bytes]]] = {}
        self.replies: dict[int, ctl.Reply] = {}
        self.released: list[int] = []
        self.expired: dict[bytes, int] = {}
        """Of results logs: the last interval that retention has dropped."""
        self.dead_letters: list[ctl.DeadLetter] = []
        self.left = 0
        self.incarnation = 0
        self.poisoned: Callable[[], str] = lambda: ""
        """The version that leaves out this key can use no record."""
        self.boot()

    def boot(self) -> None:
        self.incarnation += 1
        self.alive = True
        self.me = Contact(agent_id(self.number), "sim", self.number, self.incarnation)
        rng = random.Random(f"{self.number}/{self.incarnation}")
        self.control = Control(self.me, f"agent-{self.number}", rng=rng)
        self.workers: dict[bytes, Worker] = {}
        self.root = PartialCompute()
        self.contributed: dict[bytes, list[tuple[Segment, tuple[bytes, ...]]]] = {}

    def restored(self) -> ctl.Restored:
        items = tuple((kind, key, data) for (kind, key), data in self.disk.items())
        known = dict(iter(self.pages))
        known |= {job: incarnation for job, (incarnation, _) in self.results.items()}
        logs = tuple(self.log_info(job, incarnation) for job, incarnation in known.items())
        return ctl.Restored(items, logs)

    def append(self, effect: ctl.Append) -> None:
        incarnation, records = self.results.get(effect.job, (effect.incarnation, []))
        if incarnation != effect.incarnation:
            records = []
        assert not records or records[-1][0].index < effect.record.index, "out of order"
        self.results[effect.job] = (effect.incarnation, [*records, (effect.record, effect.rows)])

    def drop_log(self, effect: ctl.DropLog) -> None:
        self.set_aside.pop(effect.job, None)
        dropped = self.results.pop(effect.job, None)
        if effect.retire and dropped is not None:
            self.set_aside[effect.job] = dropped

    def holes(self, job: bytes) -> tuple[tuple[int, int], ...]:
        """Where records lack that others name as the ones before them."""
        return holes_of(self.results[job][1])

    def damage(self, job: bytes, *indices: int) -> None:
        """These records are in its results log no more."""
        incarnation, records = self.results[job]
        self.results[job] = incarnation, [each for each in records if each[0].index not in indices]

    def mend(self, effect: ctl.MendLog) -> None:
        incarnation, records = self.results.get(effect.job, (effect.incarnation, []))
        held = {each.index for each, _ in records}
        more = [each for each in decode_page(effect.page) if each[0].index not in held]
        assert all(effect.start <= each.index < effect.stop for each, _ in more)
        self.results[effect.job] = incarnation, sorted([*records, *more], key=lambda each: each[0].index)

    def keep_page(self, effect: ctl.KeepPage) -> None:
        held = self.pages.setdefault((effect.job, effect.incarnation), {})
        held[digest_of(effect.data)] = (effect.index, effect.data)

    def log_info(self, job: bytes, incarnation: str) -> ctl.LogInfo:
        """A log on disk, with the pages behind its last record."""
        records = self.results[job][1] if job in self.results else []
        last, holes = records[-1][0].index if records else None, holes_of(records)
        held = self.pages.get((job, incarnation), {})
        ahead = ((index, digest) for digest, (index, _) in held.items() if last is None or index > last)
        return ctl.LogInfo(job, incarnation, last, holes=holes, pages=tuple(ahead))

    def feed(self, stream: str, records: list[tuple[int, str]]) -> None:
        self.logs.setdefault(stream, []).extend(records)

    def late(self, stream: str, records: list[tuple[int, str]]) -> None:
        """Records of one interval: what is sealed already is revised."""
        self.feed(stream, records)
        for worker in self.workers.values():
            index = records[0][0] // worker.plan.slide_us
            if worker.start <= index < worker.sealed:
                worker.revise(index, len(records))

    def seal(self, stream: str, watermark_us: int) -> None:
        self.watermarks[stream] = max(watermark_us, self.watermarks.get(stream, 0))
        for worker in list(self.workers.values()):
            worker.advance()

    @property
    def masters(self) -> list[str]:
        return [master.term.manifest.qualified for master in self.control.leadership.masters.values()]


def rows_of(counter: Counter[str]) -> list[dict[str, Any]]:
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return [{"product": key, "hits": number} for key, number in ordered]


def finalise(effect: ctl.Finalise) -> ctl.Finalised:
    total: Counter[str] = Counter()
    try:
        if effect.open is not None:
            return PartialCompute().close_groups(effect)
        for partition in effect.parts:
            for payload in partition:
                total.update(decode_body(payload))
    except Exception as error:
        return ctl.Finalised(effect.job, effect.epoch, effect.interval, error=str(error), rev=effect.rev)
    rows, columns = rows_of(total), [("product", pa.string()), ("hits", pa.int64())]
    if read_plan(effect.manifest.text).latest:
        seen = [row for _, _, given in effect.inputs for row in ipc_to_table(given).to_pylist()]
        before = {row["product"]: row["hits"] for row in seen}
        assert len(before) == len(seen), "the rows of one interval"
        rows, columns = [row | {"before": before.get(row["product"])} for row in rows], [*columns, BEFORE]
    table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    about = (effect.job, effect.epoch, effect.interval, table_to_ipc(table))
    return ctl.Finalised(*about, rev=effect.rev, accuracy=accuracy_of(effect, table))


def derive(effect: ctl.Finalise) -> ctl.Finalised:
    """As on a real agent."""
    return PartialCompute().finalised(effect)


def holes_of(records: list[tuple[ResultRecord, bytes]]) -> tuple[tuple[int, int], ...]:
    found = []
    for (one, _), (other, _) in itertools.pairwise(records):
        if other.before is not None and other.before > one.index:
            found.append((one.index + 1, other.before + 1))
    return tuple(found)


def recompute(agent: Agent, effect: ctl.Recompute) -> ctl.Recomputed:
    plan = read_plan(effect.manifest.text)
    without = left_out(effect.manifest.text)
    counts, payloads = count(agent, plan, effect.manifest.partitions, effect.interval, without)
    return ctl.Recomputed(effect.token, counts, payloads)


def read_log(agent: Agent, effect: ctl.ReadLog) -> ctl.LogRead:
    incarnation, records = agent.results.get(effect.job, ("", []))
    if effect.incarnation and effect.incarnation == agent.set_aside.get(effect.job, ("",))[0]:
        incarnation, records = agent.set_aside[effect.job]
    if effect.digest:
        held = agent.pages.get((effect.job, effect.incarnation), {}).get(effect.digest)
        return ctl.LogRead(effect.token, held[1] if held else b"", error="" if held else "it is not there")
    if effect.incarnation not in ("", incarnation):
        return ctl.LogRead(effect.token)
    expired = agent.expired.get(effect.job)
    records = [each for each in records if expired is None or each[0].index > expired]
    holes = holes_of(records)
    hole = next((each for each in holes if effect.start is None or each[1] > effect.start), None)
    if hole is not None and (effect.stop is None or hole[0] < effect.stop):
        effect = replace(effect, stop=hole[0])
    else:
        hole = None
    wanted = [
        each
        for each in records
        if (effect.start is None or each[0].index >= effect.start)
        and (effect.stop is None or each[0].index < effect.stop)
    ]
    found = wanted[: effect.limit]
    schema = pa.schema([("product", pa.string()), ("hits", pa.int64())]).serialize().to_pybytes()
    return ctl.LogRead(
        effect.token,
        encode_page(found),
        found[-1][0].index + 1 if found else None,
        records[0][0].index if records else None,
        records[-1][0].index if records else None,
        expired,
        schema if records else b"",
        first=records[0][0].index if records and expired is None else None,
        hole=hole if len(wanted) == len(found) else None,
        ended=len(wanted) == len(found),
        lost=tuple((each.first, each.index) for each, _ in records if each.lost),
    )
