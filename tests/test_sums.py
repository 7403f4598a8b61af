"""Checksums of small files: every flipped bit is found or harmless, and files without one are read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import msgspec
import pytest

from elfmesh.errors import ProtocolError
from elfmesh.sums import json_checked, json_with_blank_sum, json_with_sum, packed_checked, packed_with_sum

VALUE = {"next": 4711, "epoch": 12, "name": "a\u00e9"}


def flips(data: bytes) -> list[bytes]:
    return [
        data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]
        for bit in range(8 * len(data))
    ]


@pytest.mark.parametrize("with_sum", [json_with_sum, json_with_blank_sum])
def test_a_json_object_with_a_flipped_bit_is_refused_or_unchanged(
    with_sum: Callable[[bytes], bytes],
) -> None:
    data = with_sum(msgspec.json.encode(VALUE))
    assert msgspec.json.decode(json_checked(data)) == VALUE
    refused = 0
    for wrong in flips(data):
        with contextlib.suppress(ProtocolError, msgspec.MsgspecError, UnicodeDecodeError):
            read = msgspec.json.decode(json_checked(wrong))
            assert {key: read.get(key) for key in VALUE} == VALUE
            continue
        refused += 1
    assert refused > 8 * (len(data) - 20 - 33 * (with_sum is json_with_blank_sum))


def test_a_sum_in_blanks_is_passed_over_by_every_reader_of_json() -> None:
    data = json_with_blank_sum(msgspec.json.encode(VALUE))
    assert json.loads(data) == msgspec.json.decode(data) == VALUE


def test_a_packed_map_with_a_flipped_bit_is_refused_or_unchanged() -> None:
    data = packed_with_sum(VALUE)
    assert msgspec.msgpack.decode(packed_checked(data)) | {"crc": 0} == {**VALUE, "crc": 0}
    refused = 0
    for wrong in flips(data):
        with contextlib.suppress(ProtocolError, msgspec.MsgspecError, UnicodeDecodeError):
            read = msgspec.msgpack.decode(packed_checked(wrong))
            assert {key: read.get(key) for key in VALUE} == VALUE
            continue
        refused += 1
    assert refused > 8 * (len(data) - 6)


@pytest.mark.parametrize("data", [b"{}", b'{"next":1}', b'{"crc":"0"}', b""])
def test_what_has_no_checksum_is_of_an_earlier_release(data: bytes) -> None:
    assert json_checked(data) == data
    assert packed_checked(data) == data
