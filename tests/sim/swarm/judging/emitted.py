"""Listens in where a master emits early rows. Judges nothing; `early` does."""

from __future__ import annotations

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol import events as ctl


def early_lines(
    found: dict[tuple[str, str], list[tuple[ResultRecord, bytes]]],
    local: LocalAgent,
    event: ctl.EarlyMerged,
    emitted: dict[tuple[bytes, int], int],
) -> None:
    """Add the lines that a master has emitted since the last call; `emitted` has the number of its last."""
    master = local.control.leadership.masters.get(event.job)
    if master is None or master.term.epoch != event.epoch:
        return
    key = (master.term.manifest.qualified, master.term.manifest.incarnation)
    term = (event.job, event.epoch)
    for number, record, rows in sorted(master.term.early._lines.since(emitted.get(term, 0))):
        emitted[term] = max(number, emitted.get(term, 0))
        found.setdefault(key, []).append((record, rows))
