"""Rewrites damaged results logs: keeps valid records, and inserts fetched records into holes.

The original content of a file is kept under `kept_name` until the job is deleted. While a hole is not filled,
the files contain a mark that shows it to the next reader.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from elfmesh.control.jobs.pages import encode_frame
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.storage.results.salvage import Hole, Salvaged, describe_log, record_at, segment_paths
from elfmesh.storage.results.segment import Meta, ResultSegment, cut, replace_file, write_meta
from elfmesh.storage.starving import content

Results = Sequence[tuple[ResultRecord, bytes]]
MARK = bytes(16)
"""Bytes that are not a record, at the place of missing records."""


def kept_name(path: Path) -> Path:
    """Return the name under which the original content of a file is kept."""
    return path.with_name(path.name + ".damaged")


def keep_beside(path: Path) -> None:
    """Keep the content of a file, unless an earlier one is kept. Durable after a directory sync."""
    if path.exists() and not kept_name(path).exists():
        replace_file(kept_name(path), content(path))


def place_for(
    directory: Path,
    segments: Sequence[ResultSegment],
    results: Results,
    is_full: Callable[[ResultSegment], bool],
) -> ResultSegment | None:
    """Return the segment that receives records for a hole, an existing or a new one; None without records."""
    if not results:
        return None
    start = results[0][0].index
    before = [segment for segment in segments if segment.indices[0] < start]
    if before and (before[-1].indices[-1] > start or not is_full(before[-1])):
        return before[-1]
    path = directory / f"{start:+020d}.seg"
    return next((segment for segment in segments if segment.path == path), ResultSegment(path))


def epoch_before(segments: Sequence[ResultSegment], index: int) -> int:
    """Return the epoch of the last valid record before an index, or 0 if there is none."""
    for segment in reversed(segments):
        if place := bisect_left(segment.indices, index):
            found = record_at(content(segment.path), segment.starts[place - 1])
            return 0 if found is None else found[0].epoch
    return 0


def of_epoch(epoch: int, results: Results) -> Results:
    """Give the epoch to records that declare a loss and have none, because epochs never decrease in a log."""
    return [
        (replace(record, epoch=epoch) if record.lost and not record.epoch else record, rows)
        for record, rows in results
    ]


def rewrite_file(
    segments: Sequence[ResultSegment], target: ResultSegment | None, results: Results, holes: Sequence[Hole]
) -> None:
    """Write the damaged segments and the one that receives `results`. `holes` are the remaining ones."""
    order = list(segments)
    if target is not None and target not in order:
        order = sorted(
            [*order, target], key=lambda each: each.indices[0] if each.indices else results[0][0].index
        )
    firsts = {segment.path: min(segment.indices, default=None) for segment in order}
    previous: int | None = None
    for at, segment in enumerate(order):
        following = next((firsts[each.path] for each in order[at + 1 :]), None)
        if segment.dirty or segment is target:
            data, last = _composed(segment, results if segment is target else (), holes, previous, following)
            keep_beside(segment.path)
            replace_file(segment.path, data)
        else:
            last = segment.indices[-1]
        previous = last


def _composed(
    segment: ResultSegment,
    results: Results,
    holes: Sequence[Hole],
    previous: int | None,
    following: int | None,
) -> tuple[bytes, int]:
    data = content(segment.path) if segment.indices else b""
    frames = {index: data[segment.starts[at] : segment.ends[at]] for at, index in enumerate(segment.indices)}
    for record, rows in results:
        frames.setdefault(record.index, encode_frame(record, rows))
    parts: list[bytes] = []

    def mark_before(index: int) -> None:
        if any((previous is None or start > previous) and start < index for start, _ in holes):
            parts.append(MARK)

    for index in sorted(frames):
        mark_before(index)
        parts.append(frames[index])
        previous = index
    if following is not None:
        mark_before(following)
    assert previous is not None, "a segment without records is not written"
    return b"".join(parts), previous


def described(directory: Path, damaged: Callable[[Path, int, str], None]) -> Meta:
    """Return the description of a log. Records without a known job are set aside."""
    meta, is_whole = describe_log(directory, damaged)
    if meta is not None:
        if not is_whole:
            with contextlib.suppress(OSError):  # one copy suffices
                write_meta(directory, meta)
        return meta
    for path in segment_paths(directory):
        damaged(path, 0, "the log has no description: it is set aside, and fetched from other agents")
        path.replace(kept_name(path))
    return Meta("")


def cut_end(found: Salvaged) -> None:
    """Cut off everything after the last valid record of a log. Bytes that are not a torn write are kept."""
    segment = found.segments[-1] if found.segments else None
    torn = {each.path for each in found.damage if each.torn}
    for path in [each for each in found.empty if segment is None or int(each.stem) > int(segment.path.stem)]:
        if path not in torn:
            keep_beside(path)
        found.empty.remove(path)
        path.unlink()
    if segment is not None and segment.end > segment.ends[-1]:
        if segment.path not in torn:
            keep_beside(segment.path)
        cut(segment.path, segment.ends[-1])
        segment.end = segment.ends[-1]
