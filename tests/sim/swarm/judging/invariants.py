"""What must hold after every run, each rule a function with its number in the guarantees.

Every function takes an `Outcome` and gives what is wrong, as lines of text; no line means that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from elfmesh.control.jobs.records import (
    BUCKETS,
    CONTRIBUTED,
    FILTERED,
    FIRST,
    LATE,
    ResultRecord,
)
from tests.sim.swarm.clients import d4_changes_are_linearizable
from tests.sim.swarm.fidelity.watch import i6_fidelity_is_true, i6_reported_rates_are_usual
from tests.sim.swarm.judging import registers
from tests.sim.swarm.judging.conservation import i1_conservation
from tests.sim.swarm.judging.early import d19_early_rows_stay
from tests.sim.swarm.judging.history import Incarnation
from tests.sim.swarm.judging.keeping import (
    i1_rows_and_counts_agree,
    i11_safe_is_recovered,
    i13_within_limits,
    i14_replay_changes_nothing,
    i16_nothing_older_runs,
)
from tests.sim.swarm.judging.oracle import kept
from tests.sim.swarm.judging.outcome import Outcome, table
from tests.sim.swarm.judging.partitions import i5_partitions_are_the_oracles
from tests.sim.swarm.judging.prefixes import choices, counted, d21_prefixes_are_true
from tests.sim.swarm.judging.sites import (
    i19_partial_records_lack_nothing_that_a_site_has,
    i20_shown_records_are_the_final_ones,
)
from tests.sim.swarm.judging.spanning import i5_rows_that_span_intervals
from tests.sim.swarm.judging.spreading import (
    i17_agents_are_spread,
    i18_pruned_paths_leave_what_is_needed,
)
from tests.sim.swarm.judging.sums import i1_buckets_add_up, i1_violations_are_counted
from tests.sim.swarm.judging.topics import ordered_topic_has_one_order, topics_deliver_each_post_once
from tests.sim.swarm.recovering import d4_old_voters_yield
from tests.sim.swarm.residing.watch import d23_data_stays, may_take_no_part
from tests.sim.swarm.row_pages import i11_a_majority_has_the_pages
from tests.sim.swarm.scenario import CLOCK_OFFSET, CLOCK_STEP, Scenario
from tests.sim.world.wall import EPOCH_US

EVICT_S = 300.0
LIVENESS_S, READ_S = 30.0, 10.0
"""How long it takes until an agent has read and sealed what the clock has passed."""
OPEN_FILES_MAX = 64


def i1_published_counts(out: Outcome) -> Iterator[str]:
    """The buckets of a record are those of its members' contributions, summed."""
    for truth, each in out.records():
        record = each.record
        roster = out.roster(truth.key, record)
        if roster is None or truth.job.partitions > 1:
            continue
        total, revs = counted(record), out.revs(truth.key, record)
        for name in (set(roster) - set(record.missing)) & set(truth.hosts):
            for bucket, count in enumerate(truth.hosts[name].counts(record.index, revs.get(name, 1))):
                total[bucket] += count
        found = [record.counts[bucket] for bucket in BUCKETS]
        # What a member had for intervals that were closed without it counts, as filtered, late or expired, in
        # the next one that it contributes to. Contributed records of ended partitions (SEALED) are late.
        ended = max(0, total[CONTRIBUTED] - found[CONTRIBUTED]) * bool(truth.job.sealed)
        found[CONTRIBUTED], found[LATE] = found[CONTRIBUTED] + ended, found[LATE] - ended
        fewer = any(have < want for have, want in zip(found, total, strict=True))
        if (fewer or found[CONTRIBUTED] != total[CONTRIBUTED]) and not set(roster) & set(
            out.history.tampered
        ):
            yield f"{truth.key[0]} {record.index}: counts {found}, contributions {total}"


def i1_no_record_is_late_without_reason(out: Outcome) -> Iterator[str]:
    """A record stamped when it was written, by a sane clock, is never late."""
    for truth in out.truths.values():
        for host in truth.hosts.values():
            if host.name in out.history.tampered:
                continue
            for _, index, rev in host.revisions():
                if index < host.start:
                    continue
                have = {line.id for line in host.contributed(truth.job, index, rev)}
                for line in host.written(truth.job, index):
                    if line.id not in have and not line.late:
                        yield f"{truth.key[0]} {index}: {line.id} of {host.name} is left out as late"


def i2_one_record_per_interval(out: Outcome) -> Iterator[str]:
    """At most one terminal record of an interval, in every log and at every reader, ever."""
    first: dict[tuple[Incarnation, int], tuple[str, ResultRecord, bytes]] = {}
    read_up_to: set[tuple[Incarnation, int]] = set()
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
        if (before[1], before[2]) != (record, rows) and (key, record.index) not in read_up_to:
            read_up_to.add((key, record.index))
            yield (
                f"{key[0]} {record.index} ended twice: at {before[0]} {_say(before[1])},"
                f" at {where} {_say(record)}"
            )


def _say(record: ResultRecord) -> str:
    return f"{record.state} in epoch {record.epoch} without {record.missing}"


def i3_consecutive(out: Outcome) -> Iterator[str]:
    """Records come in order, at every reader and in every log."""
    yield from out.history.disordered
    for key, published in out.final.items():
        if [*published] != sorted(published):
            yield f"{key[0]}: out of order: {[*published]}"
    for (reader, key), answers in out.history.followed.items():
        if [*answers] != sorted(answers):
            yield f"{key[0]}: out of order at {reader}: {[*answers]}"
    for key, appended in out.history.appended.items():
        last: dict[tuple[str, int], int] = {}
        for each in appended:
            log, index = (each.host, each.boot), each.record.index
            if each.record.state != "TENTATIVE" and index < last.get(log, index):
                yield f"{key[0]} {index}: behind {last[log]} in the log of {each.host}"
            last[log] = index


def i3_no_silent_gap(out: Outcome) -> Iterator[str]:
    """An expected member with records is in the interval's record, or missing from the run it is in."""
    for key, published in out.final.items():
        truth = out.truths[key]
        upto = max([*published, out.due.get(key, FIRST)])
        for host in truth.hosts.values():
            indices = {i for frame in host.sealed for i, had in frame.counts.items() if had[CONTRIBUTED]}
            for index in sorted(indices):
                if index > upto or index in published:
                    continue
                run = next((each for each, _ in published.values() if each.first <= index < each.index), None)
                if host.name not in _expected(out, key, index, run) or (run and host.name in run.missing):
                    continue
                if host.name in out.history.tampered and _gap_declared(out, key, index):
                    continue  # the frame was damaged before any peer had it, and its host has said so
                what = "no record" if run is None else f"only {_say(run)} at {run.index}"
                yield f"{key[0]} {index}: {what}, and {host.name} contributed"


def _gap_declared(out: Outcome, key: Incarnation, index: int) -> bool:
    """Whether an interval from this one on says that something of a source is lost."""
    return any(record.counts.get("source_gap") for at, (record, _) in out.final[key].items() if at >= index)


def _expected(out: Outcome, key: Incarnation, index: int, run: ResultRecord | None) -> tuple[str, ...]:
    """Who was expected in an interval without a record of its own, by the master that closed it."""
    following = [record for at, (record, _) in out.final[key].items() if at > index]
    epoch = run.epoch if run else min((record.epoch for record in following), default=2**63)
    found = [each for each in out.history.decided.get(key, []) if each.start <= index < each.stop]
    ended = [each for each in found if each.epoch <= epoch]
    return max(ended, key=lambda each: each.epoch).expected if ended else ()


def i4_contributions_are_their_offsets(out: Outcome) -> Iterator[str]:
    """A contribution counts the records of its interval in front of its offsets, no other."""
    for truth in out.truths.values():
        for host in truth.hosts.values():
            if host.name in out.history.tampered:
                continue
            for _, index, rev in host.revisions():
                if index < host.start:
                    continue
                counts, lines = host.counts(index, rev), host.contributed(truth.job, index, rev)
                good = len(kept(truth.by(host.evaluated(index, rev)), lines))
                if (counts[CONTRIBUTED], counts[FILTERED]) != (good, len(lines) - good):
                    yield (
                        f"{truth.key[0]} {index} rev {rev}: {host.name} counts {counts[CONTRIBUTED]} +"
                        f" {counts[FILTERED]} records, its offsets hold {good} + {len(lines) - good}"
                    )


def i5_rows_are_the_oracles(out: Outcome) -> Iterator[str]:
    """The rows of a record are what one process computes of the members that are inside."""
    read_up_to: set[tuple[Incarnation, int]] = set()
    for truth, each in out.records():
        record = each.record
        roster = None if truth.job.keeps_state else out.roster(truth.key, record)  # `partitions`, `spanning`
        if roster is None or record.state == "SKIPPED" or (truth.key, record.index) in read_up_to:
            continue
        if record.missing and truth.job.partitions > 1:
            continue  # an agent may be inside for some keys: completeness is a lower bound
        inside = sorted(set(roster) - set(record.missing))
        if {*inside, *(one.agent for one in record.partly)} & set(out.history.tampered):
            continue
        revs, version = out.revs(truth.key, record), out.version(truth.key, record)
        lines = choices(truth, record, version)
        found = table(each.rows)
        expected = [truth.expected(record.index, inside, revs, version, one) for one in lines]
        if truth.job.ids:
            found = sorted(found, key=lambda row: int(row["id"]))
        if expected and found not in expected:
            read_up_to.add((truth.key, record.index))
            yield f"{truth.key[0]} {record.index} ({_say(record)}): {truth.names(found, expected[0])}"


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
            reported = f"{record.agents_in} of {record.agents_expected}"
            yield f"{where}: {reported}, the roster says {inside} of {len(roster)}"
        if not set(record.missing) <= set(roster):
            yield f"{where}: missing {record.missing} are not on the roster {roster}"
        share = 0.0 if record.state == "SKIPPED" else record.agents_in / max(1, record.agents_expected)
        lower = truth.job.keeps_state and record.completeness < share
        if record.agents_expected and record.completeness != share and not lower:
            yield f"{where}: completeness {record.completeness}"
        if (record.state == "FINAL") != (not record.missing) and not lower:
            yield f"{where}: {record.state} with missing {record.missing}"
        for founder in out.founders.get(truth.key, ()):
            # D-14 expects an agent that is down, or cut off from the master, for five minutes, and in every
            # window that had begun before. An agent that restarts without its disk is another agent; the
            # former one is away from then on.
            away = any(
                min(to, each.at) - since >= EVICT_S and not _had_begun(out.scenario, record, since)
                for spans in out.unreached(truth.key, founder, record.epoch)
                for since, to in spans
            )
            away = away or may_take_no_part(out, truth, founder, record.epoch)
            if founder not in roster and not away:
                yield f"{where}: {founder} was there from the beginning and is not expected"


def _had_begun(scenario: Scenario, record: ResultRecord, at: float) -> bool:
    """Whether a record's window had begun at a moment by every agent's clock; False where clocks step."""
    if scenario.has(CLOCK_STEP, CLOCK_OFFSET) or record.start_us is None or at == float("-inf"):
        return False
    return record.start_us < EPOCH_US + round((at - READ_S) * 1e6)


def i7_no_lower_epoch(out: Outcome) -> Iterator[str]:
    """Epochs of published records never fall."""
    for key, published in out.final.items():
        epochs = [record.epoch for record, _ in published.values()]
        if epochs != sorted(epochs):
            yield f"{key[0]}: epochs in the log fall: {epochs}"


def i7_epochs_are_remembered(out: Outcome) -> Iterator[str]:
    """The highest epoch of a job that an agent has told of never falls, whatever lies in between."""
    for (host, job), known in out.history.epochs.items():
        epochs = [epoch for _, epoch in known]
        if epochs != sorted(epochs) and host not in out.history.lost_state:
            yield f"{host} remembers epochs {epochs} of job {job.hex()[:8]}"


def i8_one_master_per_epoch(out: Outcome) -> Iterator[str]:
    """No two agents ever led a job in one epoch, but for a job whose register was lost in between."""
    for (job, epoch), hosts in out.history.leaders.items():
        name = out.history.names.get(job, job.hex())
        _, *others = sorted(hosts.values())
        if any(not registers.lost(out.history, name, since) for since in others):
            yield f"epoch {epoch} of {name} was led by {', '.join(hosts)}"


def i9_revisions_grow(out: Outcome) -> Iterator[str]:
    """Tentative revisions of an interval grow, and no member that is inside falls out within a roster."""
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


def i9_what_is_late_revises_what_is_open(out: Outcome) -> Iterator[str]:
    """A record that comes late for an interval that is not closed is in its newest revision (D-9, D-12)."""
    for truth in out.truths.values():
        for host in truth.hosts.values():
            if host.name in out.history.tampered:
                continue
            for index, line, frame in host.left_out(truth.job):
                if not host.is_released(index, frame.at):
                    where = f"{truth.key[0]} {index}: {line.id} of {host.name}"
                    yield f"{where} is in no revision, and the interval was open at {frame.at:.1f}"


def i10_one_version(out: Outcome) -> Iterator[str]:
    """All contributions inside a record were evaluated by its version, or by one that evaluates alike."""
    for truth, record in ((truth, each.record) for truth, each in out.records()):
        roster, wanted = out.roster(truth.key, record) or (), out.version(truth.key, record)
        # With a standby, a member whose frame of a closed interval is damaged evaluates the interval again.
        again = set() if truth.job.standby_ms is None else {*out.history.tampered}
        for name in set(roster) - set(record.missing) - again:
            frame = truth.hosts[name].of(record.index) if name in truth.hosts else None
            if frame is not None and frame.version != wanted:
                where = f"{truth.key[0]} {record.index}"
                yield f"{where}: version {frame.version} of {name} in a record of {record.version}"


def i12_closes_after_faults(out: Outcome) -> Iterator[str]:
    """Once the faults have stopped, what is due closes within three widths and 30 s, and all is answered."""
    for key, seconds in out.closed_in_s.items():
        limit = 3 * out.truths[key].job.size_s + LIVENESS_S
        if key[0] not in out.lost and (seconds is None or seconds > limit):
            yield f"{key[0]}: due intervals were not closed within {limit} s ({seconds})"
    yield from out.silent


def no_bugs(out: Outcome) -> Iterator[str]:
    """No agent met an error that no fault explains."""
    yield from (*out.bugs, *out.history.unnoticed, *out.history.damaged)
    if not out.history.tampered:
        yield from out.history.worker_errors
    written = any(host.lines for truth in out.truths.values() for host in truth.hosts.values())
    sealed = any(host.sealed for truth in out.truths.values() for host in truth.hosts.values())
    if not out.truths or (written and not sealed):
        yield "nothing was read: whatever else holds means nothing"


Invariant = Callable[[Outcome], Iterator[str]]
ALL: dict[str, Invariant] = {
    "I1 conservation": i1_conservation,
    "I1 published counts": i1_published_counts,
    "I1 nobody late": i1_no_record_is_late_without_reason,
    "I1 sums": i1_buckets_add_up,
    "I1 violations": i1_violations_are_counted,
    "I1 rows and counts": i1_rows_and_counts_agree,
    "I2 one record": i2_one_record_per_interval,
    "I3 consecutive": i3_consecutive,
    "I3 no silent gap": i3_no_silent_gap,
    "I4 offsets": i4_contributions_are_their_offsets,
    "I5 oracle": i5_rows_are_the_oracles,
    "I5 partitions": i5_partitions_are_the_oracles,
    "I5 spanning": i5_rows_that_span_intervals,
    "I6 completeness": i6_completeness_is_true,
    "I6 fidelity": i6_fidelity_is_true,
    "I6 rates": i6_reported_rates_are_usual,
    "I7 epochs": i7_no_lower_epoch,
    "I7 remembered": i7_epochs_are_remembered,
    "I8 one master": i8_one_master_per_epoch,
    "I9 revisions": i9_revisions_grow,
    "I9 late": i9_what_is_late_revises_what_is_open,
    "D-4 clients": d4_changes_are_linearizable,
    "D-4 generations": d4_old_voters_yield,
    "I10 version": i10_one_version,
    "I11 k-safety": i11_safe_is_recovered,
    "I11 pages": i11_a_majority_has_the_pages,
    "I12 liveness": i12_closes_after_faults,
    "I13 limits": i13_within_limits,
    "I14 replay": i14_replay_changes_nothing,
    "D-19 early": d19_early_rows_stay,
    "D-21 prefixes": d21_prefixes_are_true,
    "D-23 residency": d23_data_stays,
    "topics": topics_deliver_each_post_once,
    "ordered topic": ordered_topic_has_one_order,
    "I16 older": i16_nothing_older_runs,
    "I17 racks": i17_agents_are_spread,
    "I18 idle paths": i18_pruned_paths_leave_what_is_needed,
    "I19 site parts": i19_partial_records_lack_nothing_that_a_site_has,
    "I20 shown": i20_shown_records_are_the_final_ones,
    "no bugs": no_bugs,
}

NOT_YET: dict[str, str] = {}
"""Invariants that the product does not promise yet, and why: seen, told, and no failure."""

ENFORCED = tuple(name for name in ALL if name not in NOT_YET)
