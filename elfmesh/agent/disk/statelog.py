"""What the control machine remembers, in one file that grows: many changes, one sync.

    frame (framescan) = msgpack [[kind, key, data], ...], one frame per `apply`; data b"" forgets

Owns the file and the newest data of each key. Knows no kind's meaning.

Invariants: `apply` returns when all its changes are durable; a crash keeps all changes of a frame or none,
and those of earlier frames; a torn frame at the end was never answered for and is left out; damage before a
good frame is an error: what was promised there cannot be guessed. The file is at most about three times as
long as what it holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from elfmesh.agent.disk import framescan
from elfmesh.agent.disk.storage import Storage
from elfmesh.control.events import Persist
from elfmesh.errors import DiskFull, StorageError

NAME = "state.log"
SLACK_BYTES = 1 << 20
"""What may lie in the file beside twice what is live, before it is written anew."""

Change = tuple[str, bytes, bytes]
_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(list[Change])


class StateLog:
    """The state of one agent.

    Args:
        storage: where the file is.

    Raises:
        StorageError: the file is damaged before its end, or cannot be read.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._live: dict[tuple[str, bytes], bytes] = {}
        self._live_bytes = 0
        if storage.read(NAME) is None:
            storage.write(NAME, b"")  # with its name in the directory, durably
        self._file = storage.open(NAME)
        self._recover()

    def _recover(self) -> None:
        end, torn_at = self._file.size(), -1
        for found in framescan.scan(self._file, end):
            if found.body is None:
                torn_at = found.offset
                continue
            if torn_at >= 0:
                raise StorageError(
                    f"is damaged at byte {torn_at}",
                    where=NAME,
                    hint="What this agent promised stood there. Move its data directory away to begin anew.",
                )
            try:
                self._note(_UNPACK.decode(found.body))
            except msgspec.MsgspecError:
                raise StorageError(f"is of another version at byte {found.offset}", where=NAME) from None
        if end:
            # A sync that failed before this start may have lost what still reads well: it is written again.
            self._write_anew()

    def items(self) -> tuple[Change, ...]:
        """Everything that is remembered, by kind and key."""
        return tuple((kind, key, data) for (kind, key), data in sorted(self._live.items()))

    def apply(self, effects: Sequence[Persist]) -> None:
        """Remember or forget; durable when it returns. Cost: one append and one sync.

        Raises:
            StorageError: the disk refuses.
        """
        changes = [(effect.kind, effect.key, effect.data) for effect in effects]
        self._file.append(framescan.pack(_PACK.encode(changes)))
        self._file.sync()
        self._note(changes)
        if self._file.size() > 2 * self._live_bytes + SLACK_BYTES:
            with contextlib.suppress(DiskFull):  # the old file is as good, only longer
                self._write_anew()

    def forget(self, kind: str) -> list[bytes]:
        """Remember nothing of a kind any more, from when the file is written anew; what it was, by key.

        Until then it is found again at every start. Cost: no sync.
        """
        keys = sorted(place for place in self._live if place[0] == kind)
        data = [self._live.pop(place) for place in keys]
        self._live_bytes -= sum(map(len, data))
        return data

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _note(self, changes: Sequence[Change]) -> None:
        for kind, key, data in changes:
            self._live_bytes -= len(self._live.pop((kind, key), b""))
            if data:
                self._live[kind, key] = data
                self._live_bytes += len(data)

    def _write_anew(self) -> None:
        """Leave out what is forgotten. The old file is in force until the new one is durable."""
        self._storage.write(NAME, framescan.pack(_PACK.encode(list(self.items()))))
        self._file.close()
        self._file = self._storage.open(NAME)
