"""The value of a register is read across releases."""

from __future__ import annotations

import msgspec

from tests.control.register.support import VALUE


def test_values_of_a_release_without_grants_have_none() -> None:
    data = msgspec.msgpack.decode(msgspec.msgpack.encode(VALUE))
    del data["grant"]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(data), type=type(VALUE)) == VALUE
