"""Position of a Kafka topic: `kafka.place` beside the spool of its messages.

The file is replaced before each batch is written to the spool, so the spool ends before, within or after the
batch. If it ends elsewhere, the file is from another time. See guarantees D-1.
"""

from __future__ import annotations

import logging

import msgspec

from elfmesh.errors import ProtocolError, StorageError
from elfmesh.storage.storage import Storage
from elfmesh.sums import packed_checked, packed_with_sum
from elfmesh.wire import UNREADABLE

log = logging.getLogger("elf.agent")
PLACE = "kafka.place"


class BatchPosition(msgspec.Struct, frozen=True):
    """Position that is written before a batch.

    Attributes:
        offsets: by partition, the first offset that is not in the spool before the batch.
        inode: inode of the spool's file for the batch; 0 in files of an earlier release.
        begin: length of that file before the batch.
        batch: partition, offset and bytes in the spool of each message, in order.
    """

    topic: str
    offsets: dict[int, int]
    inode: int = 0
    begin: int = 0
    batch: tuple[tuple[int, int, int], ...] = ()

    @property
    def stop(self) -> int:
        return self.begin + sum(nbytes for _, _, nbytes in self.batch)

    def fits(self, inode: int, size: int) -> bool:
        """Return whether the spool's newest file, with this size, can be the result of writing the batch.

        The spool starts a new, empty file only after a batch. A non-empty file with another inode is the
        batch's file in a copied directory.
        """
        if self.inode == 0 or (inode != self.inode and size == 0):
            return True
        return self.begin <= size <= self.stop

    def reached(self, inode: int, size: int) -> dict[int, int]:
        """Return, by partition, the first offset that is not in a spool whose newest file has this size."""
        found = dict(self.offsets)
        is_batchs = inode == self.inode or (self.inode != 0 and size > 0)
        left = (size if is_batchs else self.stop) - self.begin
        for partition, offset, nbytes in self.batch:
            left -= nbytes
            if left < 0:
                break
            found[partition] = offset + 1
        return found


def read_place(storage: Storage, topic: str, inode: int, size: int) -> dict[int, int] | None:
    """Return, by partition, the offset at which reading continues; None if nothing was read."""
    data = storage.read(PLACE)
    if data is None:
        return None
    where = storage.where(PLACE)
    try:
        place = decode_place(data)
    except (*UNREADABLE, ProtocolError) as error:
        raise StorageError(f"is damaged: {error}", where=where) from None
    if place.topic != topic:
        return None
    if not place.fits(inode, size):
        log.error(
            "%s does not belong to the spool beside it, which ends at byte %d instead of %d to %d:"
            " messages of %s may be read twice or be left out",
            where, size, place.begin, place.stop, topic,
        )  # fmt: skip
    return place.reached(inode, size)


def decode_place(data: bytes) -> BatchPosition:
    return msgspec.msgpack.decode(packed_checked(data), type=BatchPosition)


def encode_place(place: BatchPosition) -> bytes:
    return packed_with_sum(msgspec.structs.asdict(place))
