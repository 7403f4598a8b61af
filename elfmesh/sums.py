"""Checksums of small files that are replaced whole: an entry at the end, which earlier releases pass over.

    JSON object: ...,"crc":"<CRC-32 in hex of all before the comma>"}
    JSON object that earlier releases take no entry of: 32 blanks behind it, a tab for each 1 of the CRC-32
    msgpack map: its last entry is "crc", a 32-bit number: the CRC-32 of all before it

A file without such an entry is an earlier release's, and is taken as it is.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

import msgspec

from elfmesh.errors import ProtocolError

_JSON_END = re.compile(rb',"crc":"(.{8})"}\s*\Z', re.S)
_BLANK_END = re.compile(rb"}([^}]{2,})\Z")
_BLANKS = re.compile(rb"[ \t]{32}\n")
_PACKED_END = b"\xa3crc\xce"
"""Key and type of the last entry: a 32-bit number follows."""


def json_with_sum(data: bytes) -> bytes:
    """A JSON object with entries, with its checksum."""
    body = data[:-1]
    return b'%s,"crc":"%08x"}' % (body, zlib.crc32(body))


def json_with_blank_sum(data: bytes) -> bytes:
    """A JSON object with its checksum in white space, which every reader of JSON passes over."""
    bits = f"{zlib.crc32(data):032b}".replace("0", " ").replace("1", "\t")
    return b"%s%s\n" % (data, bits.encode())


def json_checked(data: bytes) -> bytes:
    """The JSON object without its checksum.

    Raises:
        ProtocolError: the checksum is wrong.
    """
    if (blank := _BLANK_END.search(data)) is not None:
        body = data[: blank.start(1)]
        bits = blank[1].strip(b"\n").replace(b" ", b"0").replace(b"\t", b"1")
        if _BLANKS.fullmatch(blank[1]) is None or zlib.crc32(body) != int(bits, 2):
            raise ProtocolError("it has a wrong checksum")
        return body
    found = _JSON_END.search(data)
    if found is None:
        return data
    body = data[: found.start()]
    if found[1] != b"%08x" % zlib.crc32(body):
        raise ProtocolError("it has a wrong checksum")
    return body + b"}"


def packed_with_sum(value: Mapping[str, object]) -> bytes:
    """A map as msgpack, with its checksum."""
    body = msgspec.msgpack.encode({**value, "crc": 0xFFFFFFFF})[:-4]
    return body + zlib.crc32(body).to_bytes(4)


def packed_checked(data: bytes) -> bytes:
    """The same bytes, if their checksum is right or there is none.

    Raises:
        ProtocolError: the checksum is wrong.
    """
    if data[-9:-4] == _PACKED_END and zlib.crc32(data[:-4]) != int.from_bytes(data[-4:]):
        raise ProtocolError("it has a wrong checksum")
    return data
