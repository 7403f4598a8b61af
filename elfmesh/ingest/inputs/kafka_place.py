"""Up to where a Kafka topic has been read: `kafka.place` beside the spool that the messages go to.

The file is replaced before each batch goes to the spool, so the spool ends in front of the batch, within it
or behind it; where it ends elsewhere, the file is of an earlier time. See guarantees D-1.
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


class Place(msgspec.Struct, frozen=True):
    """What is written before a batch.

    Attributes:
        offsets: by partition, the first offset that is not in the spool in front of the batch.
        inode: of the spool's file that the batch goes to; 0: an earlier release has not said.
        begin: length of that file in front of the batch.
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
        """Whether a spool whose newest file is so long can be what was written after this.

        The spool begins another, empty file only behind a batch. A file with another inode that is not empty
        is the batch's in a copied directory.
        """
        if self.inode == 0 or (inode != self.inode and size == 0):
            return True
        return self.begin <= size <= self.stop

    def reached(self, inode: int, size: int) -> dict[int, int]:
        """By partition, the first offset that is not in a spool whose newest file is so long."""
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
    """By partition, where reading goes on behind a spool that ends there; None: nothing was read."""
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


def decode_place(data: bytes) -> Place:
    return msgspec.msgpack.decode(packed_checked(data), type=Place)


def encode_place(place: Place) -> bytes:
    return packed_with_sum(msgspec.structs.asdict(place))
