"""Which version of a job an interval belongs to (D-16).

Owns the arithmetic of stages; the stages themselves are part of the terms. Pure.

Invariants: stages ascend by their first interval; every interval belongs to exactly one, the last that begins
at or before it. What was evaluated by another version than an interval's stage says is never part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh.control.jobs.terms import Stage, Terms
from elfmesh.safeguards import safeguard

STAGES_MAX = 8
"""Versions known at a time; more changes than that within what is open have to wait."""

KEPT = 2
"""Versions kept though all their intervals are closed: the last one may be wanted back."""


def stage_at(stages: Sequence[Stage], interval: int) -> Stage:
    return next((stage for stage in reversed(stages) if stage.start <= interval), stages[0])


@safeguard("version-fence")
def valid_until(stages: Sequence[Stage], evaluated: int, start: int, stop: int) -> int:
    at = max(start, stages[0].start)  # of older versions nothing is open
    while at < stop and stage_at(stages, at).evaluated == evaluated:
        at = min((stage.start for stage in stages if stage.start > at), default=stop)
    return min(at, stop)


def evaluations(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages at which agents evaluate something else than before; those without an interval are none."""
    kept: list[Stage] = []
    for stage, following in zip(stages, [*stages[1:], None], strict=True):
        empty = following is not None and following.start <= stage.start
        if not empty and (not kept or kept[-1].evaluated != stage.evaluated):
            kept.append(stage)
    return tuple(kept)


def differs_at(old: Sequence[Stage], new: Sequence[Stage], closed: int) -> int | None:
    """The first interval from `closed` on that another version evaluates than before, if there is one."""
    points = sorted({closed, *(stage.start for stage in (*old, *new) if stage.start > closed)})
    return next(
        (at for at in points if stage_at(old, at).evaluated != stage_at(new, at).evaluated),
        None,
    )


def followed(stages: Sequence[Stage], following: Stage) -> tuple[Stage, ...]:
    """The stages when another version follows; the newest of them stays, if only to come back."""
    *others, newest = stages
    kept = [stage for stage in others if stage.start < following.start]
    newest = replace(newest, start=min(newest.start, following.start))
    return (*kept, newest, following)


def trimmed(older: Sequence[Stage], effective: int, closed: int) -> tuple[Stage, ...]:
    """Earlier stages that may still be wanted: of open intervals, and the last one."""
    ends = [*(stage.start for stage in older), effective][1:]
    needed = sum(end > closed for end in ends)
    return tuple(older[-max(needed, KEPT - 1) :])


def reverted(terms: Terms) -> Terms | None:
    """The terms without their newest version: those of a change that was never chosen."""
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
