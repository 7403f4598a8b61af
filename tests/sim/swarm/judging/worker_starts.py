"""What agents were told, and when.

An agent has told of what it learned with what goes out behind the write of it, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.agent.runtime.effects import Store
from elfmesh.agent.runtime.unsynced_effects import overtakes
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Append, Persist
from elfmesh.machine import Effect
from elfmesh.storage.frames import Frame
from elfmesh.storage.results.journal import unpack
from elfmesh.storage.results.logs import ResultsLogs

ReadUpTo = list[tuple[float, int]]
"""When, and below which interval nothing is open."""


def goes_out_last(effects: Sequence[Effect], *, behind_an_epoch: bool) -> Effect | None:
    """The last effect of a step that is not stored, and waits for what is; None if there is none.

    `behind_an_epoch`: the step has learned one. What it wants before goes out before that is written, and a
    crash in between makes the epoch unknown again, to all agents.
    """
    for effect in reversed(effects):
        if not isinstance(effect, Store) and not overtakes(effect, 0.0):
            return effect
        if behind_an_epoch and isinstance(effect, Persist) and effect.kind == "epoch":
            return None
    return None


def guarded(
    append: Callable[[Frame], None], noted: Callable[[Frame], None], bugs: list[str]
) -> Callable[[Frame], None]:
    """Return `append` that also notes the frame.

    An error of `noted` is a bug of the run. The agent would take it for a fault of the job.
    """

    def both(frame: Frame) -> None:
        append(frame)
        try:
            noted(frame)
        except Exception as error:
            bugs.append(f"the history failed on a frame: {error!r}")

    return both


def on_append(local: LocalAgent, noted: Callable[[Append], None]) -> None:
    """Have `noted` called when an agent first begins to write a record to a results log.

    Not when its machine wants it: a master counts its own vote in the step that gives it, and wants the
    record appended behind the write of that vote. While its disk is full neither is written, and nothing that
    tells of the record goes out, since effects keep their order. A crash then takes vote and record together,
    and the register may choose another record for the interval. Once a record is being written to its log,
    the vote that its agent gave for it is on disk (see `Durable`).
    """
    append = local.pump._outbox._durable._append
    known: set[int] = set()
    kept: list[Append] = []  # so that no other has the id of one

    def appending(effects: Sequence[Append], *, durably: bool) -> None:
        for effect in effects:
            if id(effect) not in known:  # what did not fit is written again
                known.add(id(effect))
                kept.append(effect)
                noted(effect)
        append(effects, durably=durably)

    local.pump._outbox._durable._append = appending  # type: ignore[method-assign, assignment]  # listens in


def on_put_back(results: ResultsLogs, noted: Callable[[Append], None]) -> None:
    """Have `noted` called for the records that an agent puts back as it starts.

    One that was killed behind the sync of vote and record had not begun to write the record to its log. The
    state log may have a record twice, because an agent remembers it again after its log had no room.
    """
    put_back = results.put_back

    def putting_back(prepared: Sequence[bytes]) -> None:
        there = {(info.job, info.incarnation): info.latest for info in results.found()}
        for entry in map(unpack, prepared):
            record, rows = entry.result()
            log = (entry.job, entry.incarnation)
            latest = there.get(log, record.index)
            if latest is None or record.index > latest:
                there[log] = record.index
                noted(Append(entry.job, entry.incarnation, record, rows))
        put_back(prepared)

    results.put_back = putting_back  # type: ignore[method-assign]  # listens in


@dataclass
class WorkerStarts:
    """What workers are told by the versions that they begin: below the first one's interval nothing is open.

    Believed only as far as a register has closed intervals by then.
    """

    _closed: dict[tuple[str, str], ReadUpTo] = field(default_factory=dict)
    _begun: dict[tuple[str, tuple[str, str]], ReadUpTo] = field(default_factory=dict)

    def closed(self, job: tuple[str, str], at: float, stop: int) -> None:
        """A register says that everything below `stop` is closed."""
        self._closed.setdefault(job, []).append((at, stop))

    def begun(self, host: str, job: tuple[str, str], at: float, stages: Sequence[Stage]) -> None:
        """A worker was told to evaluate these versions."""
        for stage in stages[:1]:
            self._begun.setdefault((host, job), []).append((at, stage.start))

    def released(self, host: str, job: tuple[str, str]) -> ReadUpTo:
        """When a worker was told so, and below which interval it was true."""
        closed = self._closed.get(job, [])
        return [
            (at, min(start, max((stop for since, stop in closed if since <= at), default=FIRST)))
            for at, start in self._begun.get((host, job), [])
        ]
