"""How late records are handled without their safeguards; see `ablations`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from elfmesh.control.jobs.records import FIRST
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.ablations.names import Patch, always, instead, original
from tests.sim.swarm.shapes import Shape, lines, small


def _pending_revisions_forgotten() -> list[Patch]:
    """Frames are written without what came late up to their positions."""
    found = original("late-with-positions")

    def revise(self: Any, now_us: int, room: int) -> list[Any]:
        held = self._worker.late
        return found(self, now_us, room) if held is None or held.is_due(now_us) else []

    return instead("late-with-positions", revise)


def _same_revision() -> list[Patch]:
    """What came late changes a contribution that goes by its old name."""
    found = original("late-revises")

    def parts(self: Any, entries: list[Any]) -> Any:
        return found(self, [each._replace(rev=1) for each in entries])

    return instead("late-revises", parts)


def _by_the_newest_version() -> list[Patch]:
    found = original("late-by-version")

    def init(self: Any, evaluations: Any, **options: Any) -> None:
        query = evaluations[-1].query
        found(self, [replace(each, query=query) for each in evaluations], **options)

    return instead("late-by-version", init)


def _reported_for_all_that_is_sealed() -> list[Patch]:
    found = original("told-below")

    def read_up_to_by(frame: Any, below: int) -> Any:
        return tuple((to, below) for to, _ in found(frame, below))

    return instead("told-below", read_up_to_by)


def _evaluated_interval_forgotten() -> list[Patch]:
    """What was late for an interval that is evaluated again stays counted as late."""
    found = original("late-at-home")

    def count_once(
        self: Any, bucket: int, number: int, index: Any, home: int = FIRST, **options: Any
    ) -> None:
        found(self, bucket, number, index, FIRST, **options)

    return instead("late-at-home", count_once)


LATE = lines(small(kinds.CRASH, job={"lateness_s": 4}, trouble_s=2.0), late=0.2, late_s=5.0)
_OPEN = {"lateness_s": 1, "straggler": "wait", "slide_s": 1, "size_s": 1}
"""Who is away keeps intervals open, so that what others have sealed of them is made again by an undo."""

CHANGED = lines(
    small(kinds.JOB_UPDATE, kinds.CRASH, job=_OPEN, trouble_s=1.5, changing=True), late=0.3, late_s=6.0
)


def _remade(compute_s: float, rate: float) -> Shape:
    """Versions come and are taken back, agents die in what they read again, two lines at a time."""
    faults = (kinds.CRASH, kinds.JOB_UPDATE, kinds.BAD_LINES)
    shape = small(*faults, job=_OPEN, trouble_s=1.0, changing=True, read_bytes=200, compute_s=compute_s)
    return lines(shape, late=0.3, late_s=6.0, broken=0.1, rate=rate)


REMADE, HOMELESS = _remade(0.15, 2.0), _remade(0.03, 1.5)
AHEAD = lines(
    small(*[kinds.JOB_UPDATE] * 3, job=_OPEN, trouble_s=2.0, clock_offset_s=6.0, changing=True),
    late=0.3,
    late_s=4.0,
)
"""No agent dies: one that is behind keeps open what the others have sealed, revised and make again."""

SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "carried-counts": (
        "what no replay counts goes with every frame",
        "D-1",
        always(("carried-counts", property(lambda self: ()))),
        LATE,
    ),
    "sealed-once": (
        "what no replay counts is counted again when its frame is annulled",
        "D-1",
        always(("sealed-once", lambda self, stop: ())),
        REMADE,
    ),
    "late-with-positions": (
        "a frame has what came late up to its positions",
        "D-1",
        _pending_revisions_forgotten,
        REMADE,
    ),
    "late-revises": ("a revision is another contribution, not the old one", "D-7", _same_revision, LATE),
    "revisions-on": (
        "no revision of an interval is used twice, whichever version makes it",
        "D-7",
        always(("revisions-on", lambda annulled, at: {})),
        AHEAD,
    ),
    "late-by-version": (
        "what comes late is evaluated by its interval's version",
        "D-16",
        _by_the_newest_version,
        CHANGED,
    ),
    "told-positions": (
        "a frame does not forget how far lives before it had read, and what of it they count",
        "D-1",
        always(("told-positions", lambda self: ())),
        REMADE,
    ),
    "told-below": (
        "what lives before had read is counted only as far as they had sealed",
        "D-1",
        _reported_for_all_that_is_sealed,
        REMADE,
    ),
    "annulled-parts": (
        "of a frame with intervals of two versions the other one's are void",
        "D-16",
        always(("annulled-parts", lambda self, void_from: self)),
        REMADE,
    ),
    "late-at-home": (
        "what was late for an interval that is evaluated again is not late for it",
        "D-1",
        _evaluated_interval_forgotten,
        HOMELESS,
    ),
    "post-awaited": (
        "the watermark waits for a post that has its time and is not in the spool yet",
        "D-12",
        always(("post-awaited", lambda self: contextlib.nullcontext())),
        LATE,
    ),
    "greatest-time": (
        "a time index compares the greatest time of a stretch, not the last one",
        "D-1",
        always(("greatest-time", lambda times: (int(times.values[0]), int(times.values[-1])))),
        LATE,
    ),
    "index-of-this-file": (
        "a time index is followed only in a file that has what the index describes",
        "D-2",
        always(("index-of-this-file", lambda file, index, over: True)),
        LATE,
    ),
}
"""What each is, the promise that it serves, what is replaced by its absence, what a seed is asked."""

ELSEWHERE = {
    **dict.fromkeys(("late-at-home", "revisions-on"), "tests/ingest/worker/test_late_versions.py"),
    "post-awaited": "tests/ingest/inputs/test_spool_reader.py",
    **dict.fromkeys(("greatest-time", "index-of-this-file"), "tests/ingest/sources/test_stream_times.py"),
}
"""Simulated agents have room for all that comes late. What does not fit is lost for an interval that another
version may evaluate again. And since nothing is taken from a worker that has not heard of a change
(`elfmesh.control.member.worker_generations`), no seed has two contributions of one name without it."""
