"""The state log: the state of the control machine in one append-only file, with one sync for many changes.

  file  = header, one frame per change of the rewritten part, then one frame per `apply`
  frame = framescan frame of msgpack [[kind, key, data], ...]; data b"" forgets; the last is END
  header = frame of one change: HEADER, data: 20 owner | u64 boot | u64 sequence | u64 bytes rewritten

`apply` returns when all its changes are durable; after a crash, either all changes of a frame exist or none.
The rewritten part got its name when it was durable, so a bad frame in it is damage, and so is a bad frame
before a good one. Only the end of the appended part may be torn: the file ends within a frame, or blocks of
the frame are zeros. A torn frame was never answered for and is ignored. If there is damage, all votes are
forgotten, because some may be missing, the loss is recorded instead, and the damaged file is kept beside the
new one. A file without a header is from an earlier release; its first frame is the rewritten part. The file
is at most about three times as long as its content.
"""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from elfmesh.control.protocol.events import Persist
from elfmesh.control.register.lost_votes import KIND as LOST
from elfmesh.control.register.lost_votes import Loss, encode_loss
from elfmesh.errors import DiskFull, StorageError
from elfmesh.safeguards import safeguard
from elfmesh.storage import framescan
from elfmesh.storage.storage import Storage

NAME = "state.log"
DAMAGED = f"{NAME}.damaged"
"""Prefix of the names under which damaged files are kept; the boot that found the damage follows."""

SLACK_BYTES = 1 << 20
"""Bytes besides twice the live bytes beyond which the file is rewritten."""

HEADER = "header"
_HEAD = struct.Struct(">20sQQQ")
VOTE = "vote"

Change = tuple[str, bytes, bytes]
END: Change = ("end", b"", b"\xff")
"""Last change of every frame, so that a frame ends with a byte that is not zero, unlike a block that was
never written."""

_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(list[Change])
log = logging.getLogger("elf.agent")


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a state log.

    `boot` is the start of the agent that has rewritten the log. `sequence` is the number of changes before
    that since the first start. `length` is the length of the rewritten part.
    """

    owner: bytes
    boot: int
    sequence: int
    length: int


class StateLog:
    """The state log of one agent.

    `rewritten` is the last boot that is known to have rewritten the file (0: none). `loss` is the damage that
    this start has found, or None. `sequence` is the number of changes since the agent's first start.
    """

    def __init__(self, storage: Storage, owner: bytes = b"", boot: int = 0, rewritten: int = 0) -> None:
        self._storage = storage
        self._owner, self._boot = owner, boot
        self._live: dict[tuple[str, bytes], bytes] = {}
        self._live_bytes = 0
        self.sequence = 0
        self.loss: Loss | None = None
        absent = storage.read(NAME) is None
        self._file = storage.open(NAME)
        problem = self._recover(rewritten)
        if problem:
            self._give_up_votes("is not there" if absent else problem)
        # A sync that failed before this start may have lost bytes that still read well, so the file is
        # rewritten.
        self._rewrite_file()

    def _recover(self, rewritten: int) -> str:
        end, bad_at, damaged = self._file.size(), -1, False
        header: Header | None = None
        for found in framescan.scan(self._file, end):
            if found.body is None:
                bad_at = found.offset if bad_at < 0 else bad_at
                continue
            changes = self._decoded(found.offset, found.body)
            if found.offset == 0:
                header = _header_of(changes)
            if header is None or found.offset >= header.length:
                self.sequence += 1
            damaged |= bad_at >= 0
            self._note(changes)
        if header is None:
            if not end:  # an earlier release had no state to store, or this is the first start
                return "is empty" if rewritten else ""
            header = Header(b"", 0, 0, 1)
        self.sequence += header.sequence
        if bad_at >= 0 and (
            damaged or bad_at < header.length or not framescan.is_torn(self._file, bad_at, end)
        ):
            return f"is damaged at byte {bad_at}"
        return self._not_ours(header, rewritten, end)

    def _decoded(self, offset: int, body: bytes) -> list[Change]:
        try:
            return _UNPACK.decode(body)
        except msgspec.MsgspecError:
            raise StorageError(f"is of another version at byte {offset}", where=NAME) from None

    def _not_ours(self, header: Header, rewritten: int, end: int) -> str:
        if end < header.length:
            return f"ends at byte {end} of {header.length}"
        if self._owner and header.owner.strip(b"\0") and header.owner != self._owner:
            self._live.clear()
            self._live_bytes = 0
            return f"is that of agent {header.owner.hex()}"
        if header.boot < rewritten:
            return f"is older than start {rewritten} of this agent, which has written it since"
        return ""

    @safeguard("rot-of-votes")
    def _give_up_votes(self, problem: str) -> None:
        path, kept, content = self._storage.where(NAME), "", self._file.read()
        if content:
            self._storage.write(f"{DAMAGED}-{self._boot}", content)
            kept = self._storage.where(f"{DAMAGED}-{self._boot}")
        self.loss = Loss(self._boot, path, problem, kept)
        for place in [place for place in self._live if place[0] == VOTE]:
            self._live_bytes -= len(self._live.pop(place))
        self._note([(LOST, b"", encode_loss(self.loss))])
        log.error(
            "%s %s: this agent has lost its votes. It does not vote on a job until the job's master has"
            " replaced its vote%s",
            path,
            problem,
            f". The damaged file is kept as {kept}" if kept else "",
        )

    def items(self) -> tuple[Change, ...]:
        """Return the whole state, ordered by kind and key."""
        return tuple((kind, key, data) for (kind, key), data in sorted(self._live.items()))

    def apply(self, effects: Sequence[Persist]) -> None:
        """Store or forget values durably. Cost: one append and one sync."""
        changes = [(effect.kind, effect.key, effect.data) for effect in effects]
        self._file.append(_frame(changes))
        self._file.sync()
        self.sequence += 1
        self._note(changes)
        if self._file.size() > 2 * self._live_bytes + SLACK_BYTES:
            with contextlib.suppress(DiskFull):  # the old file is equivalent, only longer
                self._rewrite_file()

    def forget(self, kind: str) -> list[bytes]:
        """Forget all values of a kind, and return them ordered by key. Cost: no sync.

        Until the file is rewritten, each start finds the kind again.
        """
        keys = sorted(place for place in self._live if place[0] == kind)
        data = [self._live.pop(place) for place in keys]
        self._live_bytes -= sum(map(len, data))
        return data

    def close(self) -> None:
        self._file.close()

    def _note(self, changes: Sequence[Change]) -> None:
        for kind, key, data in changes:
            if kind in (HEADER, END[0]):
                continue
            self._live_bytes -= len(self._live.pop((kind, key), b""))
            if data:
                self._live[kind, key] = data
                self._live_bytes += len(data)

    def _rewrite_file(self) -> None:
        """Rewrite the file without forgotten values. The old file is valid until the new one is durable."""
        body = b"".join(_frame([change]) for change in self.items())
        length = len(_header(Header(self._owner, self._boot, self.sequence, 0))) + len(body)
        self._storage.write(NAME, _header(Header(self._owner, self._boot, self.sequence, length)) + body)
        self._file.close()
        self._file = self._storage.open(NAME)


def _frame(changes: Sequence[Change]) -> bytes:
    return framescan.pack(_PACK.encode([*changes, END]))


def _header(header: Header) -> bytes:
    data = _HEAD.pack(header.owner, header.boot, header.sequence, header.length)
    return _frame([(HEADER, b"", data)])


def _header_of(changes: list[Change]) -> Header | None:
    if len(changes) != 2 or changes[0][0] != HEADER or len(changes[0][2]) != _HEAD.size:
        return None
    return Header(*_HEAD.unpack(changes[0][2]))


def header_of(storage: Storage) -> Header | None:
    """Return the header of the state log in a storage, or None if it cannot be read."""
    if storage.read(NAME) is None:
        return None
    file = storage.open(NAME)
    try:
        body = framescan.unpack(file, 0, file.size())
        return None if body is None else _header_of(_UNPACK.decode(body))
    except msgspec.MsgspecError:
        return None
    finally:
        file.close()
