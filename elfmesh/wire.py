"""Frames: how a message and its payload become bytes, and back, with every length checked first.

    u32 length of the rest | u32 length of the header | header (msgpack map, tagged "t") | payload (raw)

Owns nothing but bytes: no sockets. The header is decoded by msgpack under explicit limits and then
converted to the typed message by msgspec, so an unknown tag, a missing field or a wrong type is a
`ProtocolError` before any handler sees it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgpack
import msgspec

from elfmesh.errors import ProtocolError
from elfmesh.limits import CONTROL_FRAME_BYTES_MAX, DATA_FRAME_BYTES_MAX
from elfmesh.machine import Message

_LENGTHS = struct.Struct(">II")
ITEMS_MAX = 200_000
"""Elements of one list or map in a header: bounds what a hostile header can make us allocate."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not what they should be; for text that is not UTF-8 and for deep
nesting it is none of its own errors."""


class Codec:
    """Encodes and decodes the messages of a fixed set of types.

    Args:
        kinds: message classes, each with its own tag.
    """

    def __init__(self, kinds: Sequence[type[Message]]) -> None:
        self.kinds = tuple(kinds)
        # By tag: to convert to a union, msgspec looks at all its types again for every message.
        self._by_tag: dict[Any, type[Message]] = {kind.__struct_config__.tag: kind for kind in kinds}
        if len(self._by_tag) < len(self.kinds):
            raise ValueError("two kinds of messages have the same tag")
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, message: Message, payload: bytes = b"") -> bytes:
        """One frame. Cost: one copy of the payload.

        Raises:
            ValueError: our own message is over a limit (the peer would refuse it).
        """
        header = self._encoder.encode(message)
        if len(header) > CONTROL_FRAME_BYTES_MAX:
            raise ValueError(f"header of {type(message).__name__} has {len(header)} bytes, over the limit")
        if len(payload) > DATA_FRAME_BYTES_MAX:
            raise ValueError(f"payload of {type(message).__name__} has {len(payload)} bytes, over the limit")
        return b"".join((_LENGTHS.pack(4 + len(header) + len(payload), len(header)), header, payload))

    def decode_header(self, header: bytes | memoryview) -> Message:
        """The typed message of a header.

        Raises:
            ProtocolError: not msgpack, over a limit, unknown tag, or fields of a wrong type.
        """
        try:
            raw = msgpack.unpackb(
                header,
                raw=False,
                max_str_len=CONTROL_FRAME_BYTES_MAX,
                max_bin_len=CONTROL_FRAME_BYTES_MAX,
                max_array_len=ITEMS_MAX,
                max_map_len=ITEMS_MAX,
                max_ext_len=0,
            )
            kind = self._by_tag.get(raw.get("t")) if isinstance(raw, dict) else None
            if kind is None:
                raise ProtocolError("malformed message: no known tag")
            message: Message = msgspec.convert(raw, kind)
        except (
            ValueError,
            msgspec.ValidationError,
            msgpack.UnpackException,
            RecursionError,
            TypeError,
        ) as error:
            raise ProtocolError(f"malformed message: {error}") from None
        return message

    def decode(self, frame: bytes | bytearray | memoryview) -> tuple[Message, bytes]:
        """The message and payload of one whole frame. Cost: one copy of the payload.

        Raises:
            ProtocolError: the stated lengths do not fit the frame or the limits, or the header is malformed.
        """
        if len(frame) < _LENGTHS.size:
            raise ProtocolError(f"frame of {len(frame)} bytes is shorter than its lengths")
        total, header = _LENGTHS.unpack_from(frame)
        if total + 4 != len(frame) or header > min(CONTROL_FRAME_BYTES_MAX, total - 4):
            raise ProtocolError(f"frame of {len(frame)} bytes states {total} with a header of {header}")
        if total - 4 - header > DATA_FRAME_BYTES_MAX:
            raise ProtocolError(f"payload of {total - 4 - header} bytes is over the limit")
        end = _LENGTHS.size + header
        view = frame if type(frame) is bytes else memoryview(frame)
        return self.decode_header(bytes(view[_LENGTHS.size : end])), bytes(view[end:])
