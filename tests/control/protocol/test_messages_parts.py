"""Claims and orders name the roster epoch only where it is not the epoch."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.control.protocol.messages_parts import PartRoot, TreeOrder
from tests.control.register.support import JOB, A


@pytest.mark.parametrize(
    "message",
    [PartRoot(JOB, 1, A, 7, 40), TreeOrder(JOB, 1, 7, 4, 5, 1, recollect=True)],
    ids=["root", "order"],
)
def test_an_absent_roster_epoch_is_the_epoch(message: PartRoot | TreeOrder) -> None:
    assert message.roster_epoch == 7
    assert "roster_epoch" not in msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    kept = msgspec.structs.replace(message, stated_roster_epoch=5)
    sent = msgspec.msgpack.encode(kept)
    assert msgspec.msgpack.decode(sent)["roster_epoch"] == 5
    assert msgspec.msgpack.decode(sent, type=type(message)).roster_epoch == 5
