"""What must hold after every run, each rule a function with its number in the guarantees.

Every function takes an `Outcome` and gives what is wrong, as lines of text; no line means that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from elfmesh.agent.worker import CONTRIBUTED, EXPIRED, FILTERED, LATE, PARSE_ERROR
from elfmesh.control.records import BUCKETS, FIRST, ResultRecord, ipc_to_table, rows_to_json
from tests.sim.swarm.history import Appended, History, Incarnation
from tests.sim.swarm.oracle import HostTruth, Rows, Truth, kept
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.workload import GOOD

EVICT_S = 300.0
LIVENESS_S = 30.0
OPEN_FILES_MAX = 64
Published = dict[int, tuple[ResultRecord, bytes]]


@dataclass
class Outcome:
    """What a run left behind.

    Attributes:
        scenario: what was run.
        history: what happened.
        truths: by job and incarnation.
        final: what any agent says at the end, by job and incarnation.
        due: by job, the last interval that had to be closed by the end.
        closed_in_s: by job, how long after the faults ended everything due was closed; None: never.
        absent: names of agents that were away, and when (from, to).
        founders: by job, who was a member from the beginning.
        bugs: agents that ended for no fault of ours.
        replayed: what a replay of all messages changed.
        limits: what grew over its limit.
    """

    scenario: Scenario
    history: History
    truths: dict[Incarnation, Truth]
    final: dict[Incarnation, Published]
    due: dict[Incarnation, int]
    closed_in_s: dict[Incarnation, float | None]
    absent: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    founders: dict[Incarnation, tuple[str, ...]] = field(default_factory=dict)
    bugs: list[str] = field(default_factory=list)
    replayed: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    trace: str = ""
    seconds: float = 0.0
    faults: int = 0
    crashes: int = 0
    messages: int = 0

    def records(self) -> Iterator[tuple[Truth, Appended]]:
        """Everything that was ever published in a job that is checked."""
        for key, appended in self.history.appended.items():
            if key in self.truths:
                for each in appended:
                    yield self.truths[key], each

    def roster(self, key: Incarnation, record: ResultRecord) -> tuple[str, ...] | None:
        return self.history.rosters.get((key, record.epoch, record.index))


def table(rows: bytes) -> Rows:
    return rows_to_json(ipc_to_table(rows)) if rows else []


def i1_conservation(out: Outcome) -> Iterator[str]:
    """Each line that a host has read stands in exactly one bucket of its contributions (D-1)."""
    for truth in out.truths.values():
        for host in truth.hosts.values():
            if host.name in out.history.tampered or not host.sealed or truth.job.size_s != truth.job.slide_s:
                continue
            yield from _conserved(truth, host)


def _conserved(truth: Truth, host: HostTruth) -> Iterator[str]:
    last = host.sealed[-1]
    counts = [0] * len(BUCKETS)
    intervals = {index for frame in host.sealed for index in frame.counts}
    for index in sorted(intervals):
        frame = host.of(index)
        for bucket, count in enumerate(frame.counts.get(index, ()) if frame else ()):
            counts[bucket] += count
    read = [line for line in host.lines if host.in_front(last, line)]
    sealed = [line for line in read if line.kind != GOOD or line.ts_us // truth.job.slide_us < last.stop]
    bad = sum(line.kind != GOOD for line in sealed)
    good = len(sealed) - bad
    found = counts[CONTRIBUTED] + counts[FILTERED] + counts[LATE] + counts[EXPIRED]
    # Late lines and errors count in the interval of the newest record: that of an open one is not told yet.
    newest = max((line.ts_us // truth.job.slide_us for line in read if line.kind == GOOD), default=last.stop)
    if found > good or (found < good and newest < last.stop):
        yield f"{host.name}: {good} good lines of closed intervals, {found} in buckets {counts}"
    if counts[PARSE_ERROR] > bad:
        yield f"{host.name}: {counts[PARSE_ERROR]} parse errors of {bad} bad lines"


def i1_published_counts(out: Outcome) -> Iterator[str]:
    """The buckets of a record are those of its members' contributions, summed."""
    for truth, each in out.records():
        record = each.record
        roster = out.roster(truth.key, record)
        if roster is None or truth.job.partitions > 1:
            continue
        total = [0] * len(BUCKETS)
        for name in set(roster) - set(record.missing):
            frame = truth.hosts[name].of(record.index) if name in truth.hosts else None
            for bucket, count in enumerate(frame.counts.get(record.index, ()) if frame else ()):
                total[bucket] += count
        found = [record.counts[bucket] for bucket in BUCKETS]
        # What a member had for intervals that were closed without it counts, as filtered or expired, in the
        # next one that it contributes to; nothing may count as contributed that no contribution holds.
        fewer = any(have < want for have, want in zip(found, total, strict=True))
        if (fewer or found[CONTRIBUTED] != total[CONTRIBUTED]) and not set(roster) & set(
            out.history.tampered
        ):
            yield f"{truth.key[0]} {record.index}: counts {found}, contributions {total}"


def i1_nobody_is_late_without_reason(out: Outcome) -> Iterator[str]:
    """A record stamped when it was written, by a sane clock, is never late."""
    for truth in out.truths.values():
        for host in truth.hosts.values():
            if host.name in out.history.tampered:
                continue
            for frame in host.sealed:
                for index in frame.counts:
                    if index < host.start or host.of(index) is not frame:
                        continue
                    have = {line.id for line in host.contributed(truth.job, index)}
                    for line in host.written(truth.job, index):
                        if line.id not in have and not line.late:
                            yield f"{truth.key[0]} {index}: {line.id} of {host.name} is left out as late"


def i2_one_record_per_interval(out: Outcome) -> Iterator[str]:
    """At most one terminal record of an interval, in every log and at every reader, ever."""
    first: dict[tuple[Incarnation, int], tuple[str, ResultRecord, bytes]] = {}
    told: set[tuple[Incarnation, int]] = set()
    seen = [
        (key, each.host, each.record, each.rows)
        for key, all_ in out.history.appended.items()
        for each in all_
    ]
    for (reader, key), answers in out.history.followed.items():
        seen += [(key, reader, record, rows) for given in answers.values() for record, rows in given]
    for key, where, record, rows in seen:
        if record.state == "TENTATIVE":
            continue
        before = first.setdefault((key, record.index), (where, record, rows))
        if (before[1], before[2]) != (record, rows) and (key, record.index) not in told:
            told.add((key, record.index))
            yield (
                f"{key[0]} {record.index} ended twice: at {before[0]} {_say(before[1])},"
                f" at {where} {_say(record)}"
            )


def _say(record: ResultRecord) -> str:
    return f"{record.state} in epoch {record.epoch} without {record.missing}"


def i3_consecutive(out: Outcome) -> Iterator[str]:
    """Records come in order, at every reader and in every log."""
    for key, published in out.final.items():
        if [*published] != sorted(published):
            yield f"{key[0]}: out of order: {[*published]}"
    for (reader, key), answers in out.history.followed.items():
        if [*answers] != sorted(answers):
            yield f"{key[0]}: out of order at {reader}: {[*answers]}"
    for key, appended in out.history.appended.items():
        last: dict[str, int] = {}
        for each in appended:
            if each.record.state != "TENTATIVE" and each.record.index < last.get(
                each.host, each.record.index
            ):
                yield f"{key[0]} {each.record.index}: behind {last[each.host]} in the log of {each.host}"
            last[each.host] = each.record.index


def i3_no_silent_gap(out: Outcome) -> Iterator[str]:
    """An interval without a record is one to which nobody who was expected contributed anything."""
    for key, published in out.final.items():
        truth = out.truths[key]
        if not published:
            continue
        upto = max(*published, out.due.get(key, FIRST))
        told = set(published)
        for host in truth.hosts.values():
            for frame in host.sealed:
                for index, counts in frame.counts.items():
                    if counts[CONTRIBUTED] and host.start <= index <= upto and index not in told:
                        told.add(index)
                        yield f"{key[0]}: no record of interval {index}, to which {host.name} contributed"


def i4_contributions_are_their_offsets(out: Outcome) -> Iterator[str]:
    """A contribution counts the records of its interval in front of its offsets, no other."""
    for truth in out.truths.values():
        for host in truth.hosts.values():
            if host.name in out.history.tampered:
                continue
            for frame in host.sealed:
                for index, counts in frame.counts.items():
                    if host.of(index) is not frame or index < host.start:
                        continue
                    lines = host.contributed(truth.job, index)
                    good = len(kept(truth.job, lines))
                    if (counts[CONTRIBUTED], counts[FILTERED]) != (good, len(lines) - good):
                        yield (
                            f"{truth.key[0]} {index}: {host.name} counts {counts[CONTRIBUTED]} +"
                            f" {counts[FILTERED]} records, its offsets hold {good} + {len(lines) - good}"
                        )


def i5_rows_are_the_oracles(out: Outcome) -> Iterator[str]:
    """The rows of a record are what one process computes of the members that are inside."""
    told: set[tuple[Incarnation, int]] = set()
    for truth, each in out.records():
        record = each.record
        roster = out.roster(truth.key, record)
        if roster is None or record.state == "SKIPPED" or (truth.key, record.index) in told:
            continue
        if record.missing and truth.job.partitions > 1:
            continue  # an agent may be inside for some keys: completeness is a lower bound
        inside = sorted(set(roster) - set(record.missing))
        if set(inside) & set(out.history.tampered):
            continue
        found, expected = table(each.rows), truth.expected(record.index, inside)
        if truth.job.ids:
            found = sorted(found, key=lambda row: int(row["id"]))
        if found != expected:
            told.add((truth.key, record.index))
            yield f"{truth.key[0]} {record.index} ({_say(record)}): {truth.names(found, expected)}"


def i6_completeness_is_true(out: Outcome) -> Iterator[str]:
    """Who is expected, who is inside and who is missing is what the roster and the rows say."""
    for truth, each in out.records():
        record = each.record
        roster = out.roster(truth.key, record)
        if roster is None:
            continue
        where = f"{truth.key[0]} {record.index}"
        inside = len(roster) - len(record.missing)
        if (record.agents_expected, record.agents_in) != (len(roster), inside):
            said = f"{record.agents_in} of {record.agents_expected}"
            yield f"{where}: {said}, the roster says {inside} of {len(roster)}"
        if not set(record.missing) <= set(roster):
            yield f"{where}: missing {record.missing} are not on the roster {roster}"
        if record.agents_expected and record.completeness != record.agents_in / record.agents_expected:
            yield f"{where}: completeness {record.completeness}"
        if (record.state == "FINAL") != (not record.missing):
            yield f"{where}: {record.state} with missing {record.missing}"
        for founder in out.founders.get(truth.key, ()):
            away = any(to - since >= EVICT_S for since, to in out.absent.get(founder, ()))
            if founder not in roster and not away:
                yield f"{where}: {founder} was there from the beginning and is not expected"


def i7_no_lower_epoch(out: Outcome) -> Iterator[str]:
    """Epochs of published records and of what an agent remembers never fall."""
    for (host, job), epochs in out.history.epochs.items():
        if epochs != sorted(epochs):
            yield f"{host} remembers epochs {epochs} of job {job.hex()[:8]}"
    for key, published in out.final.items():
        epochs = [record.epoch for record, _ in published.values()]
        if epochs != sorted(epochs):
            yield f"{key[0]}: epochs in the log fall: {epochs}"


def i8_one_master_per_epoch(out: Outcome) -> Iterator[str]:
    """No two agents ever led a job in one epoch."""
    for (job, epoch), hosts in out.history.leaders.items():
        if len(hosts) > 1:
            yield f"epoch {epoch} of {out.history.names.get(job, job.hex())} was led by {', '.join(hosts)}"


def i9_revisions_grow(out: Outcome) -> Iterator[str]:
    """Tentative revisions of an interval grow, and nobody who is inside falls out within a roster."""
    last: dict[tuple[str, Incarnation, int, int], ResultRecord] = {}
    for key, appended in out.history.appended.items():
        for each in appended:
            place = (each.host, key, each.record.epoch, each.record.index)
            before = last.get(place)
            last[place] = each.record
            if before is None or before == each.record:
                continue
            if each.record.rev <= before.rev or each.record.agents_in < before.agents_in:
                yield f"{key[0]} {each.record.index}: revision {before.rev} -> {each.record.rev}"


def i10_one_version(out: Outcome) -> Iterator[str]:
    """All contributions inside a record carry its manifest version."""
    for truth, each in out.records():
        roster = out.roster(truth.key, each.record) or ()
        for name in set(roster) - set(each.record.missing):
            frame = truth.hosts[name].of(each.record.index) if name in truth.hosts else None
            if frame is not None and frame.version != each.record.version:
                where = f"{truth.key[0]} {each.record.index}"
                yield f"{where}: version {frame.version} of {name} in a record of {each.record.version}"


def i12_closes_after_faults(out: Outcome) -> Iterator[str]:
    """Once the faults have stopped, what is due closes within three widths and 30 s."""
    for key, seconds in out.closed_in_s.items():
        job = out.truths[key].job
        limit = 3 * job.size_s + LIVENESS_S
        if seconds is None or seconds > limit:
            yield f"{key[0]}: due intervals were not closed within {limit} s ({seconds})"


def i13_within_limits(out: Outcome) -> Iterator[str]:
    """Queues, descriptors, disk and memory stay under their limits."""
    yield from out.limits


def i14_replay_changes_nothing(out: Outcome) -> Iterator[str]:
    """Delivering every message once more changes no result."""
    yield from out.replayed


def no_bugs(out: Outcome) -> Iterator[str]:
    """No agent met an error that no fault explains."""
    yield from out.bugs
    if not out.history.tampered:
        yield from out.history.worker_errors
    written = any(host.lines for truth in out.truths.values() for host in truth.hosts.values())
    if not out.truths or (
        written and not any(host.sealed for t in out.truths.values() for host in t.hosts.values())
    ):
        yield "nothing was read: whatever else holds means nothing"


Invariant = Callable[[Outcome], Iterator[str]]
ALL: dict[str, Invariant] = {
    "I1 conservation": i1_conservation,
    "I1 published counts": i1_published_counts,
    "I1 nobody late": i1_nobody_is_late_without_reason,
    "I2 one record": i2_one_record_per_interval,
    "I3 consecutive": i3_consecutive,
    "I3 no silent gap": i3_no_silent_gap,
    "I4 offsets": i4_contributions_are_their_offsets,
    "I5 oracle": i5_rows_are_the_oracles,
    "I6 completeness": i6_completeness_is_true,
    "I7 epochs": i7_no_lower_epoch,
    "I8 one master": i8_one_master_per_epoch,
    "I9 revisions": i9_revisions_grow,
    "I10 version": i10_one_version,
    "I12 liveness": i12_closes_after_faults,
    "I13 limits": i13_within_limits,
    "I14 replay": i14_replay_changes_nothing,
    "no bugs": no_bugs,
}

NOT_YET: dict[str, str] = {
    "I3 no silent gap": "an interval that only missing agents have records of leaves no record",
    "I12 liveness": "lost majorities and deletes without an answer have to be told from jobs that hang first",
}
"""Invariants that the product does not promise yet, and why: seen, told, and no failure."""

ENFORCED = tuple(name for name in ALL if name not in NOT_YET)
