"""Packing of runs with few, evenly distributed byte values into few bits; `csrc/bits.c` has the layout."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from elfmesh.cbt.kernel.protocol import Run

_SECTIONS = 3
_GAPS = 3
_BITS_MAX = 7
_SAMPLES = 1024
_TEXT_BYTES = 4
_SECTION_HEAD = 2 + 2 * _GAPS
_HEAD = _TEXT_BYTES + _SECTIONS * _SECTION_HEAD
_WORTH = 1.125


class _Code(NamedTuple):
    """Code of a section's values: `values[code]`, with the number of bits of each code."""

    bits: int
    values: np.ndarray
    head: bytes


def pack_bits(run: Run) -> bytes | None:
    """See `Kernel.pack_bits`. Cost: several passes over the bits."""
    if run.wide:
        return None
    data = np.asarray(run.data)
    sections = [data[: run.rows], data[run.rows : 2 * run.rows], data[2 * run.rows :]]
    for exact in (False, True):
        codes, least, plain = [], 0.0, 0.0
        for section in sections:
            sample = section[:: 1 if exact else len(section) // _SAMPLES + 1]
            code, entropy = _code_of(sample)
            if code is None:
                return None
            codes.append(code)
            least += entropy * (len(section) / max(len(sample), 1))
            plain += float(len(section)) * code.bits
        if plain > least * _WORTH:
            return None
        if all(np.isin(section, code.values).all() for section, code in zip(sections, codes, strict=True)):
            heads = b"".join(code.head for code in codes)
            parts = [_write(section, code) for section, code in zip(sections, codes, strict=True)]
            return len(sections[-1]).to_bytes(_TEXT_BYTES, "little") + heads + b"".join(parts)
    return None


def _code_of(sample: np.ndarray) -> tuple[_Code | None, float]:
    counts = np.bincount(sample, minlength=256)
    values = np.flatnonzero(counts)
    entropy = 0.0
    for count in counts[values].tolist():
        entropy += count * math.log2(len(sample) / count)
    steps = np.diff(values)
    begins = np.flatnonzero(steps > 1) + 1
    bits = max(len(values) - 1, 1 if len(values) else 0).bit_length()
    if len(begins) > _GAPS or bits > _BITS_MAX:
        return None, 0.0
    unused = _GAPS - len(begins)
    head = bytes([bits, int(values[0]) if len(values) else 0, *begins.tolist(), *[255] * unused])
    head += bytes([*(steps[begins - 1] - 1).tolist(), *[0] * unused])
    return _Code(bits, values.astype(np.uint8), head), entropy


def _write(section: np.ndarray, code: _Code) -> bytes:
    codes = np.zeros(-(-len(section) // 8) * 8, np.uint8)
    codes[: len(section)] = np.searchsorted(code.values, section)
    bits = np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, : code.bits]
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_bits(rows: int, packed: bytes | memoryview) -> bytes:
    """See `Kernel.unpack_bits`. Cost: several passes over the bits."""
    data = np.frombuffer(packed, np.uint8)
    heads = data[_TEXT_BYTES:_HEAD].reshape(_SECTIONS, -1) if len(data) >= _HEAD and rows >= 0 else None
    sizes = [rows, rows, int.from_bytes(data[:_TEXT_BYTES].tobytes(), "little")]
    widths = [] if heads is None else heads[:, 0].tolist()
    lengths = [-(-size // 8) * bits for size, bits in zip(sizes, widths, strict=False)]
    if (
        heads is None
        or max(widths) > _BITS_MAX
        or any(size and not bits for size, bits in zip(sizes, widths, strict=True))
        or _HEAD + sum(lengths) != len(data)
    ):
        raise ValueError("not a run in bits: lengths do not fit the bytes")
    out, at = [], _HEAD
    for head, size, length in zip(heads, sizes, lengths, strict=True):
        out.append(_read(head, size, data[at : at + length]))
        at += length
    return b"".join(out)


def _read(head: np.ndarray, size: int, coded: np.ndarray) -> bytes:
    bits = int(head[0])
    if not size:
        return b""
    spread = np.unpackbits(coded, bitorder="little").reshape(-1, bits)
    codes = np.packbits(spread, axis=1, bitorder="little")[:size, 0]
    values: np.ndarray = codes + head[1]
    for begin, gap in zip(head[2 : 2 + _GAPS], head[2 + _GAPS :], strict=True):
        values += np.where(codes >= begin, gap, np.uint8(0))
    return bytes(values)
