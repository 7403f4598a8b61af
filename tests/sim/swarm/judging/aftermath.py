"""What a run has left behind, as the invariants want it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from elfmesh.control.closing.interval_closer import IN_FLIGHT_MAX
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.register.lost_votes import DIRECTORY
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.host import Host
from tests.sim.swarm.judging.history import Contribution, History, Incarnation
from tests.sim.swarm.judging.invariants import OPEN_FILES_MAX
from tests.sim.swarm.judging.oracle import HostTruth, Truth
from tests.sim.swarm.workload import Written


def limits_broken(hosts: list[Host], system: SimOS) -> list[str]:
    """What has grown over its limit (I13)."""
    wrong = []
    for host in hosts:
        if host.local is None:
            continue
        files = system.handles(host.folder)
        if files > OPEN_FILES_MAX:
            wrong.append(f"{host.name} has {files} files open")
        if host.local.frames.size > 8 << 20:
            wrong.append(f"the frame log of {host.name} has {host.local.frames.size} bytes")
        leading = host.local.control.leadership.masters.values()
        flying = max((len(master.term.closer._closing) for master in leading), default=0)
        if flying > IN_FLIGHT_MAX:
            wrong.append(f"{host.name} has {flying} intervals in flight")
    return wrong


def misjudged(hosts: list[Host], history: History) -> list[str]:
    """Who takes its directory for one that went back in time, which it did not."""
    found = []
    for host in hosts:
        loss = None if host.local is None else host.local.control.leadership.registers.acceptors.lost.loss
        if loss is not None and loss.path == DIRECTORY and host.name not in history.lost_state:
            found.append(f"{host.name}: {loss.path} {loss.reason}, and did not")
    return found


def _part_of_the_job(host: Host, opened: Mapping[int, float], began: float) -> list[Written]:
    """What was rotated before a job first looked at its log is not part of it, unless its stream names it.

    Args:
        host: whose log.
        opened: by file, when it was first opened for the job.
        began: when the first frame of the job was written. The log was looked at before: a file that was
            not there then, and was made and rotated while no agent worked on the job, is found and read.
    """
    server = host.server
    if host.around.scenario.glob:
        return server.ledger
    looks = [
        opened[inode]
        for inode in (*server.rotated, server.inode().number)
        if opened.get(inode, math.inf) < server.rotated.get(inode, math.inf)
    ]
    first = min([*looks, began])
    return [line for line in server.ledger if server.rotated.get(line.inode, math.inf) >= first]


def truths(hosts: list[Host], history: History, jobs: dict[Incarnation, Job]) -> dict[Incarnation, Truth]:
    """By job: what every agent that worked on it wrote and sealed."""
    found = {}
    for key, job in jobs.items():
        of_job = {}
        for (name, of), sealed in history.contributions.items():
            if of == key:
                folder = name.partition(".")[0]
                writer = next(host for host in hosts if host.folder == folder)
                start, began = history.starts.get((name, key), (FIRST, 0.0))
                opened = {
                    inode: min((at for at in times if at >= began), default=float("inf"))
                    for (who, inode), times in history.opened.items()
                    if who == name
                }
                lines = _part_of_the_job(writer, opened, min((each.at for each in sealed), default=math.inf))
                released = history.released.get((name, key), []) + history.worker_starts.released(name, key)
                of_job[name] = HostTruth(name, lines, standing(sealed), start, opened, released)
        found[key] = Truth(job, key, of_job, history.texts.get(key, {}))
    return found


def standing(notes: Iterable[Contribution]) -> list[Contribution]:
    """Frames, oldest first, without what those behind them have annulled."""
    found: list[Contribution] = []
    for note in notes:
        if (at := note.annuls) is not None:
            found = [_below(each, at) for each in found]
        found.append(note)
    return found


def _below(note: Contribution, void_from: int) -> Contribution:
    """What another version has not made void."""
    return replace(
        note,
        start=min(note.start, void_from),
        stop=min(note.stop, void_from),
        counts={index: counts for index, counts in note.counts.items() if index < void_from},
        revised={index: each for index, each in note.revised.items() if index < void_from},
    )
