"""The rules about what must stay: what was safe, what was over, what a damaged disk may not turn into."""

from __future__ import annotations

from collections.abc import Iterator

from elfmesh.control.jobs.records import CONTRIBUTED
from tests.sim.swarm.judging import registers
from tests.sim.swarm.judging.history import Appended, Safe
from tests.sim.swarm.judging.oracle import HostTruth
from tests.sim.swarm.judging.outcome import Outcome, table
from tests.sim.swarm.scenario import BAD_LINES, JOB_UPDATE, JOIN, LATE, NEW_DISK, ROTATE

LOSSES_ONLY = {NEW_DISK, JOIN, ROTATE, LATE, BAD_LINES, JOB_UPDATE}
"""Under these faults every peer that is there answers a master in time."""


def i1_rows_and_counts_agree(out: Outcome) -> Iterator[str]:
    """What a record counts is in its rows, and only what was written is, whatever happened to a disk."""
    for truth, each in out.records():
        record = each.record
        if record.state == "SKIPPED" or truth.job.partitions > 1 or truth.job.keeps_state:
            continue
        rows = table(each.rows)
        reported, inside = record.counts["contributed"], sum(row["n"] for row in rows)
        if reported != inside and not (truth.job.leaves_groups_out and reported > inside):
            yield f"{truth.key[0]} {record.index}: {reported} contributed, {inside} in its rows"
        if truth.job.ids:
            hosts = truth.hosts.values()
            known = {line.id for host in hosts for line in host.written(truth.job, record.index)}
            alien = [row for row in rows if row["id"] not in known or row["n"] != 1]
            if alien:
                yield f"{truth.key[0]} {record.index}: no host has written this: {alien}"


def i11_safe_is_recovered(out: Outcome) -> Iterator[str]:
    """What peers had on disk of an agent that is lost with its own counts, as long as one peer is there."""
    if not {*out.scenario.faults} <= LOSSES_ONLY:
        return
    for key, all_ in out.history.safe.items():
        truth = out.truths[key]
        ended: dict[int, Appended] = {}
        for each in out.history.appended.get(key, ()):
            if each.record.state != "TENTATIVE":
                ended.setdefault(each.record.index, each)
        for safe in all_:
            for index in _indices(truth.hosts[safe.host], safe):
                found = ended.get(index)
                if found is None or found.at <= safe.at or found.record.state == "SKIPPED":
                    continue
                if all(out.history.gone.get(peer, found.at) < found.at for peer in safe.copy_hosts):
                    continue
                if out.version(key, found.record) != safe.evaluated:
                    continue  # no agent is there that could evaluate it again
                roster = out.roster(key, found.record) or ()
                if safe.host in found.record.missing or safe.host not in roster:
                    reported = f"{found.record.state} without {found.record.missing}"
                    yield f"{key[0]} {index}: {reported}, and what {safe.host} had was safe at {safe.at:.1f}"


def _indices(host: HostTruth, safe: Safe) -> list[int]:
    """Intervals with records of what was safe."""
    found = {i for frame in host.sealed for i, had in frame.counts.items() if had[CONTRIBUTED]}
    return [index for index in sorted(found) if safe.start <= index < safe.stop]


def i16_nothing_older_runs(out: Outcome) -> Iterator[str]:
    """No older version is published or begun after a newer, and no job is led after its end was told."""
    for (host, key), known in out.history.versions.items():
        begun = [version for _, version in known]
        if begun != sorted(begun):
            yield f"{key[0]}: {host} began versions {begun}"
        asked = out.history.asked[key[0]]
        if max(begun, default=0) > asked and not out.scenario.has(BAD_LINES):  # those may be taken back
            yield f"{key[0]}: {host} began version {max(begun)}, and {asked} were asked for"
    for key, published in out.final.items():
        versions = [record.version for _, (record, _) in sorted(published.items())]
        if versions != sorted(versions):
            yield f"{key[0]}: versions in order of intervals: {versions}"
    for key, at in out.history.deleted.items():
        later = {epoch: since for epoch, since in out.history.terms.get(key, {}).items() if since > at}
        if later and not registers.lost(out.history, key[0], at):
            epoch = min(later)
            yield f"{key[0]}: deleted at {at:.1f}, and led in epoch {epoch} since {later[epoch]:.1f}"


def i13_within_limits(out: Outcome) -> Iterator[str]:
    """Queues, descriptors, disk and memory stay under their limits."""
    yield from out.limits


def i14_replay_changes_nothing(out: Outcome) -> Iterator[str]:
    """Delivering every message once more changes no result."""
    yield from out.replayed
