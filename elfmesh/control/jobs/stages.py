"""Stages: which version of a job an interval belongs to (D-16).

Owns pure functions on stages; the terms contain the stages.

Invariants: stages ascend by their first interval. Every interval belongs to exactly one stage, the last one
that begins at or before it. An interval contains only contributions that were evaluated by its stage's
version.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh.control.jobs.terms import Stage, Terms
from elfmesh.safeguards import safeguard

STAGES_MAX = 8
"""Maximum number of stages; further changes of the version wait until intervals are closed."""

KEPT = 2
"""Minimum number of stages that are kept, because a user may restore the last version."""


def stage_at(stages: Sequence[Stage], interval: int) -> Stage:
    return next((stage for stage in reversed(stages) if stage.start <= interval), stages[0])


@safeguard("version-fence")
def valid_until(stages: Sequence[Stage], evaluated: int, start: int, stop: int) -> int:
    at = max(start, stages[0].start)  # older versions have no open intervals
    while at < stop and stage_at(stages, at).evaluated == evaluated:
        at = min((stage.start for stage in stages if stage.start > at), default=stop)
    return min(at, stop)


def evaluations(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages at which the evaluated version changes, without stages that have no interval."""
    kept: list[Stage] = []
    for stage, following in zip(stages, [*stages[1:], None], strict=True):
        empty = following is not None and following.start <= stage.start
        if not empty and (not kept or kept[-1].evaluated != stage.evaluated):
            kept.append(stage)
    return tuple(kept)


def differs_at(old: Sequence[Stage], new: Sequence[Stage], closed: int) -> int | None:
    """Return the first interval from `closed` on whose evaluated version differs, if there is one."""
    points = sorted({closed, *(stage.start for stage in (*old, *new) if stage.start > closed)})
    return next((at for at in points if stage_at(old, at).evaluated != stage_at(new, at).evaluated), None)


def followed(stages: Sequence[Stage], following: Stage) -> tuple[Stage, ...]:
    """Return the stages with a new version; the newest earlier one stays, because it may be restored."""
    *others, newest = stages
    kept = [stage for stage in others if stage.start < following.start]
    newest = replace(newest, start=min(newest.start, following.start))
    return (*kept, newest, following)


def trimmed(older: Sequence[Stage], effective: int, closed: int) -> tuple[Stage, ...]:
    """Return the earlier stages to keep: those of open intervals, and the last one."""
    ends = [*(stage.start for stage in older), effective][1:]
    needed = sum(end > closed for end in ends)
    return tuple(older[-max(needed, KEPT - 1) :])


def reverted(terms: Terms) -> Terms | None:
    """Return the terms without their newest version, whose change was not chosen; None: there is no other."""
    if not terms.older:
        return None
    *older, before = terms.older
    return replace(
        terms,
        manifest=before.manifest,
        effective=before.start,
        evaluated=before.evaluated,
        older=tuple(older),
        rollout=None,
    )
