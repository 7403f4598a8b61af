"""What the opening of a frame log finds out: the frames that count, and the losses of the jobs.

Owns the order of the frames of a job, and the rule by which a gap in the file becomes a loss that the agent
declares (D-1, D-8). Reads no file.

Invariant: no loss is named for a job whose frames follow each other, wherever the file is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from elfmesh.storage.frames import Forgotten, Frame, Sealed


@dataclass
class LogRecovery:
    """Result of opening the log.

    Attributes:
        frames: number of valid frames.
        cut_bytes: length of the torn end that was cut off.
        gaps: (offset, length) of damaged ranges that are followed by valid frames.
        holes: interval ranges whose contributions a gap removed, by job; None: from the beginning of the job.
        torn: jobs of which a gap removed revisions, with the number of the last one.
        rotten: whether the end that was cut off was not a torn frame, so that an agent may have seen it.
    """

    frames: int = 0
    cut_bytes: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    holes: dict[str, list[tuple[int | None, int]]] = field(default_factory=dict)
    torn: dict[str, int] = field(default_factory=dict)
    rotten: bool = False


class Continuity:
    """Checks that the frames of each job follow each other.

    Args:
        recovery: receives the losses; its `gaps` are those before the next frame.
    """

    def __init__(self, recovery: LogRecovery) -> None:
        self._recovery = recovery
        self._ends: dict[str, tuple[int, int]] = {}

    def fits(self, frame: Frame) -> bool:
        """Whether a frame continues its job's last one. A duplicated block contains old frames."""
        if isinstance(frame, Forgotten):
            self._ends.pop(frame.job, None)
        if not isinstance(frame, Sealed):
            return True
        before, seq = self._ends.get(frame.job, (None, 0))
        if before is not None and frame.annuls is not None:
            before = min(before, frame.annuls)
        reported = len(frame.revised) + (frame.annuls is not None)
        if before is not None and (frame.start < before or (reported and frame.seq <= seq)):
            return False
        fresh = before is None and frame.start == frame.stop
        if self._recovery.gaps and not fresh:
            if frame.start != before:
                self._recovery.holes.setdefault(frame.job, []).append((before, frame.start))
            if frame.seq - reported != seq:
                self._recovery.torn[frame.job] = frame.seq - reported
        self._ends[frame.job] = (frame.stop, frame.seq)
        return True
