"""Examines the data directory of a stopped agent: damage, consequences, possible repairs.

Each file is parsed by the code that normally reads it. `examine` changes nothing; a repair keeps the old
file.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from elfmesh.agent.data_directory.backup import ReadOnlyFile
from elfmesh.agent.data_directory.examine_small import audit_log, small_files
from elfmesh.agent.data_directory.repair import (
    Finding,
    Repair,
    aside,
    begin_journal,
    without_lines,
)
from elfmesh.control.register.stored_vote import vouched_by
from elfmesh.errors import ConfigError, DataError, StorageError
from elfmesh.ingest.inputs.positions import FILE_NAME as POSITIONS
from elfmesh.ingest.inputs.positions import check_journal, damaged_lines
from elfmesh.storage import framelog, framescan, identity, statelog
from elfmesh.storage.deadletters import DIRECTORY as LETTERS
from elfmesh.storage.deadletters import SUFFIX, read_dead_letter
from elfmesh.storage.frames import Frame, Sealed
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.results.page_files import PageFiles
from elfmesh.storage.results.rewrite import kept_name
from elfmesh.storage.results.salvage import describe_log, salvage
from elfmesh.storage.results.segment import META_COPY
from elfmesh.storage.storage import MemoryStorage
from elfmesh.wire import UNREADABLE

_AT = re.compile(r"at byte (\d+)")
_FRAME = msgspec.msgpack.Decoder(Frame)


def examine(root: Path) -> list[Finding]:
    """Return all damage in a data directory. Raises ConfigError if it is not one, or its agent is running."""
    _check_offline(root)
    try:
        return [
            finding
            for look in (_identity, _state, _frames, _results, _letters, _positions, small_files, audit_log)
            for finding in look(root)
        ]
    except OSError as error:
        raise StorageError(f"cannot read it: {error.strerror}", where=error.filename or str(root)) from None


def _check_offline(root: Path) -> None:
    known = (identity.IDENTITY_FILE, identity.RESTORED_FILE, statelog.NAME, framelog.FILE_NAME, "lock")
    if not any((root / name).exists() for name in known):
        raise ConfigError(
            "is not the data directory of an agent", where=str(root), hint="Name the data_dir of an agent."
        )
    if not (root / "lock").exists():
        return
    handle = os.open(root / "lock", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        hint = "Stop the agent first. A running agent reports damage itself."
        raise ConfigError("an agent is using it", where=f"data_dir {root}", hint=hint) from None
    finally:
        os.close(handle)


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _copy_of(root: Path, *names: str) -> MemoryStorage:
    storage = MemoryStorage()
    for name in names:
        if (root / name).exists():
            storage.write(name, (root / name).read_bytes())
    return storage


# -- identity and votes ------------------------------------------------------------------------------


def _identity(root: Path) -> Iterator[Finding]:
    path = root / identity.IDENTITY_FILE
    storage = _copy_of(root, identity.IDENTITY_FILE, statelog.NAME)
    if not path.exists():
        return
    try:
        identity.identity_of(path.read_bytes())
    except StorageError as error:
        header = statelog.header_of(storage)
        if header is None or not header.owner.strip(b"\0"):
            yield Finding(path, 0, error.message, f"it does not start. {error.hint}")
        else:
            reported = f"takes the id, {header.owner.hex()}, from {statelog.NAME} and rewrites the file"
            yield Finding(path, 0, error.message, reported)


def _owner(root: Path) -> bytes:
    try:
        return identity.identity_of((root / identity.IDENTITY_FILE).read_bytes())
    except (OSError, StorageError):
        return b""


def _rewritten(root: Path) -> int:
    """Return the number of the newest start that has written the agent's files, or 0 if it is unknown."""
    try:
        return identity.rewritten_by(_copy_of(root, identity.IDENTITY_FILE, statelog.NAME))
    except StorageError:
        return 0


def _state(root: Path) -> Iterator[Finding]:
    path, owner = root / statelog.NAME, _owner(root)
    storage, rewritten = _copy_of(root, statelog.NAME), _rewritten(root)
    if not path.exists() and not rewritten:
        return
    try:
        with _silent("elf.agent"):
            loss = statelog.StateLog(storage, owner, rewritten, rewritten).loss
    except StorageError as error:
        yield Finding(path, 0, error.message, "it does not start. Start it with the release that wrote it.")
        return
    if loss is not None:
        place = _AT.search(loss.reason)
        reported = (
            "keeps the damaged file, uses all valid data except votes, and does not vote on a job until"
        )
        offset = int(place[1]) if place else 0
        yield Finding(path, offset, loss.reason, f"{reported} the job's master has replaced its vote")


def _frames(root: Path) -> Iterator[Finding]:
    path, owner = root / framelog.FILE_NAME, _owner(root)
    if not path.exists():
        return
    file, good = ReadOnlyFile(path), False
    reported = "uses the other frames, keeps the damaged file, and declares a source_gap for each job"
    try:
        for found in framescan.scan(file, file.size()):
            if found.body is None:
                at_end = found.offset + found.size == file.size()
                if not (at_end and framescan.is_torn(file, found.offset, file.size())):
                    yield Finding(path, found.offset, f"{found.size} bytes contain no frame", reported)
                continue
            good = True
            try:
                frame = _FRAME.decode(found.body)
            except UNREADABLE as error:
                yield Finding(path, found.offset, f"the frame cannot be read: {error}", reported)
                continue
            if owner and isinstance(frame, Sealed) and frame.owner not in (b"", owner):
                yield Finding(path, found.offset, f"the frame is agent {frame.owner.hex()}'s", reported)
        if not good and _rewritten(root):
            yield Finding(
                path,
                0,
                "it contains no frame",
                "starts a new file, and reads records of open intervals again",
            )
    finally:
        file.close()


# -- results -----------------------------------------------------------------------------------------------


def _results(root: Path) -> Iterator[Finding]:
    directory = root / "results"
    vouched = _vouched(root)
    for log in sorted(directory.iterdir()) if directory.exists() else ():
        if log.is_dir():
            yield from _results_log(log, vouched.get(log.name))


def _vouched(root: Path) -> dict[str, tuple[str, int]]:
    """Return the incarnation and the last record that the agent's vote on each job names.

    The keys are names of results log directories.
    """
    try:
        with _silent("elf.agent"):
            items = statelog.StateLog(_copy_of(root, statelog.NAME)).items()
    except StorageError:
        return {}
    votes = ((key.hex(), vouched_by(data)) for kind, key, data in items if kind == statelog.VOTE)
    return {name: vote for name, vote in votes if vote is not None}


def _results_log(log: Path, vouched: tuple[str, int] | None) -> Iterator[Finding]:
    found: list[Finding] = []
    repair = Repair(
        log,
        "rewrite its files without the damaged bytes, and keep each original as .damaged; missing records"
        " remain a gap, which the agent fills",
        lambda: _open_log(log),
    )

    def damaged(path: Path, offset: int, what: str) -> None:
        reported = "uses the other copy of the description, and rewrites both"
        found.append(Finding(path, offset, what, reported, repair))

    for path in PageFiles(log).damaged():
        yield Finding(
            path,
            0,
            "the content of the page does not match its name",
            "fetches it from another agent that has it",
        )
    meta, is_whole = describe_log(log, damaged)
    yield from found
    if meta is None:
        reported = "sets the log aside, and fetches the results from the other voters"
        yield Finding(log, None, "no description of the log can be read", reported)
        return
    # the log of a restored agent has no second copy yet
    if not is_whole and not found and (log / META_COPY).exists():
        yield Finding(log, None, "one copy of the description is missing or older", "rewrites it", repair)
    kept = salvage(log, meta)
    reported = "fetches the records from the other voters, and declares those that none has lost (SKIPPED)"
    for each in kept.damage:
        if not each.torn:
            yield Finding(each.path, each.offset, each.what, reported, repair)
    latest = kept.segments[-1].indices[-1] if kept.segments else None
    incarnation, last = vouched or (None, 0)
    if meta.incarnation in ("", incarnation) and (latest is None or latest < last):
        behind = "nothing" if latest is None else f"interval {latest}"
        yield Finding(log, None, f"the results end with {behind}, and this agent voted on {last}", reported)
    for low, stop in kept.holes:
        yield Finding(log, None, f"records of intervals {low} to {stop - 1} are missing", reported)


def _open_log(log: Path) -> None:
    with _silent("elf.results"):
        ResultsLog(log, None)


# -- other files -------------------------------------------------------------------------------------


def _letters(root: Path) -> Iterator[Finding]:
    for path in sorted((root / LETTERS).rglob(f"*{SUFFIX}")):
        try:
            read_dead_letter(path.read_bytes())
        except DataError as error:
            repair = aside(path, "its records are counted as expired already")
            yield Finding(path, 0, error.message, "leaves it unchanged, and logs a warning", repair)


def _positions(root: Path) -> Iterator[Finding]:
    for path in sorted((root / "spool").glob(f"*/{POSITIONS}")):
        lines = any(each.stat().st_size for each in path.parent.glob("spool.log*"))
        try:
            check_journal(path.parent, has_lines=lines)
        except StorageError as error:
            begin = partial(begin_journal, path)
            repair = Repair(path, "start a new file; inserted records may be accepted twice", begin)
            yield Finding(path, 0, error.message, "does not start", repair)
        bad = damaged_lines(path.read_bytes())
        if not bad:
            continue
        repair = Repair(
            path,
            f"remove {len(bad)} lines, and keep the original as {kept_name(path).name}; their records may be"
            " accepted twice",
            partial(without_lines, path),
        )
        for offset in bad:
            reported = "does not start, because repeated inserts could count twice"
            yield Finding(path, offset, "the line has a wrong checksum", reported, repair)


def repairs(findings: list[Finding]) -> list[Repair]:
    return list({finding.repair.path: finding.repair for finding in findings if finding.repair}.values())
