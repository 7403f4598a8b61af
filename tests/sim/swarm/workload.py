"""What the hosts' web servers write, and the ledger of it: the truth that every result is held against.

Owns the records of one host and where each ended up on disk. A record has a number of its own, so that a loss
or a double count has a name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.platter import Inode
from tests.sim.world.wall import stamp

GOOD, BROKEN, UNDATED, FUTURE = "good", "broken", "undated", "future"
OWN, SHARED = "own", "shared"
IDS_PER_HOST = 10_000_000
HOUR_US = 3_600_000_000
SEALS, SEALED_AGAIN = 0.25, 0.1
"""Chances that a line ends the own partition of its host, and that it repeats the last punctuation."""


@dataclass(frozen=True, slots=True)
class Written:
    """One complete line.

    Attributes:
        id: unique in the swarm; its millions name the host.
        inode: the file it is in.
        end: offset behind its newline.
        ts_us: event time.
        key: what jobs group by.
        value: an integer.
        weight: a double.
        kind: GOOD, or why it is no record of any interval.
        late: whether it was stamped so long before it was written that it may count as late.
        part: the partition that it belongs to, if the traffic has partitions.
        total: of a punctuation, how many records its host has written for the partition.
    """

    id: int
    inode: int
    end: int
    ts_us: int
    key: str
    value: int
    weight: float
    kind: str
    late: bool
    part: str = ""
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is written. Rates are records per second of one host; chances in [0, 1]."""

    rate: float = 2.0
    silent: float = 0.0
    """Chance that a host writes nothing for an interval or more."""
    disorder_s: float = 0.0
    late: float = 0.0
    late_s: float = 0.0
    broken: float = 0.0
    future: float = 0.0
    torn: float = 0.0
    """Chance that a line is written in two pieces."""
    writing_s: float = 0.0
    """How long it takes at most from the stamp of a line until it is in the file; the order is kept."""
    parts: str = ""
    """Partitions are OWN ones of each host, or SHARED by all; "": lines have none."""
    parts_s: int = 0
    """For how long a SHARED partition has records."""


@dataclass
class Server:
    """The web server of one host: appends lines to its log, rotates it."""

    system: SimOS
    path: str
    number: int
    rng: random.Random
    traffic: Traffic
    lateness_us: int
    wall_us: Callable[[], int]
    ledger: list[Written] = field(default_factory=list)
    clock_sane: Callable[[], bool] = lambda: True
    posts: bool = False
    """Whether each line is a post too, so that topics can be made of the log."""
    rotations: int = 0
    rotated: dict[int, float] = field(default_factory=dict)
    """By file: when it was renamed."""
    _serial: int = 0
    _stamped_ago_us: int = 0
    _half: bytes = b""
    _half_of: Written | None = None
    _part: str = ""
    _records: int = 0
    _last_seal: tuple[str, int] | None = None

    def inode(self) -> Inode:
        disk = self.system.disk(self.path)
        found = disk.names.get(self.path)
        return found if found is not None else self.system.create(self.path)

    def write(self, count: int) -> None:
        """Write lines that were stamped a moment ago."""
        writing_us = round(self.traffic.writing_s * 1e6)
        self._stamped_ago_us = self.rng.randrange(writing_us) if writing_us else 0
        for _ in range(count):
            self._write_one()

    def _write_one(self) -> None:
        self.finish()
        rng, now_us, traffic = self.rng, self.wall_us() - self._stamped_ago_us, self.traffic
        ts_us, kind, late = now_us - rng.randrange(1 + round(traffic.disorder_s * 1e6)), GOOD, False
        chance = rng.random()
        if chance < traffic.late:
            ts_us, late = now_us - self.lateness_us - round(rng.uniform(0, traffic.late_s) * 1e6), True
        elif chance < traffic.late + traffic.broken:
            kind = rng.choice((BROKEN, UNDATED))
        elif chance < traffic.late + traffic.broken + traffic.future:
            ts_us, kind = now_us + HOUR_US + round(rng.uniform(600, 1e5) * 1e6), FUTURE
        self._serial += 1
        record = {
            "ts": stamp(ts_us),
            "id": self.number * IDS_PER_HOST + self._serial,
            "k": rng.choice("abcdef"),
            "v": rng.randrange(-1000, 1000),
            "x": rng.uniform(-1e6, 1e6) * 10 ** rng.randrange(-9, 9),
        }
        if self.posts:
            record |= {"producer": f"p{self.number}", "position": self._serial, "body": str(record["id"])}
        part, total = self._partition(now_us, kind) if traffic.parts else ("", None)
        record |= {"part": part} if part else {}
        record |= {} if total is None else {"total": total}
        if kind == UNDATED:
            del record["ts"]
        line = json.dumps(record).encode() + b"\n"
        if kind == BROKEN:
            line = b"{" + line[: rng.randrange(2, 20)].replace(b"\n", b"") + b"\n"
        inode = self.inode()
        written = Written(
            record["id"],
            inode.number,
            len(inode.data) + len(line),
            ts_us,
            record["k"],
            record["v"],
            record["x"],
            kind,
            late or not self.clock_sane(),
            part,
            total,
        )
        if rng.random() < traffic.torn:
            written = replace(written, late=True)  # its second piece comes a moment later
            cut = rng.randrange(1, len(line))
            inode.data += line[:cut]
            self._half, self._half_of = line[cut:], written
        else:
            inode.data += line
            self.ledger.append(written)
        inode.mtime_ns = self.system.now_ns()

    def _partition(self, now_us: int, kind: str) -> tuple[str, int | None]:
        """Return the partition of the next line, and of a punctuation how many records it has here.

        Some punctuations come twice.
        """
        rng, before, newest = self.rng, self._part, self._part
        if self.traffic.parts == SHARED:
            newest = str(now_us // (self.traffic.parts_s * 1_000_000))
        elif not before or (self._records and rng.random() < SEALS):
            newest = f"{self.number}-{self._serial}"
        if kind == GOOD and self._last_seal is not None and rng.random() < SEALED_AGAIN:
            return self._last_seal
        if kind == GOOD and before and newest != before:
            self._last_seal, self._part, self._records = (before, self._records), newest, 0
            return self._last_seal
        self._part = before or newest
        self._records += kind == GOOD
        return self._part, None

    def finish(self) -> None:
        """Write the rest of a line that was written by half."""
        if self._half_of is not None:
            self.inode().data += self._half
            self.ledger.append(self._half_of)
            self._half, self._half_of = b"", None

    def rotate(self, now: float) -> None:
        """Rename the log; the next line opens a new one."""
        self.finish()
        disk = self.system.disk(self.path)
        if self.path not in disk.names:
            return
        self.rotations += 1
        inode = disk.names[self.path]
        self.rotated[inode.number] = now
        disk.link(f"{self.path}.{self.rotations:04}", inode)
        disk.link(self.path, None)
        self.inode()
