"""kll: approximate quantiles of numbers, with the levels and the format of Apache DataSketches' KLL.

A group stores up to k values unchanged. Beyond that, values are on levels; one on level h represents 2**h
values. A full level is sorted, and every second value moves up; the others are dropped. A coin decides which
half. The library's coin is random, so equal inputs give different bytes. Here the coin is a hash of the
level's content: equal states merged in the same way give equal bytes, in either order.

The result still depends on the shape of the tree: (a + b) + c and a + (b + c) may drop different values. n,
the least and the greatest value are exact; up to k values everything is. Otherwise the rank of a quantile is
within the sketch's error (1.65 % for k = 200 with 99 % confidence).

Owns the levels of all groups. Does not read quantiles (`sketches.kll_quantiles`).

Paper: Karnin, Lang, Liberty, "Optimal quantile approximation in streams" (FOCS 2016).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import byte_layout, to_int64, type_name, valid_mask
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.kernel.ranks import float_rank
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.laws.blobs import check_binary, pack_words, unpack_words
from elfmesh.errors import DataError

K_DEFAULT, K_MIN, K_MAX = 200, 8, 4096
LEVELS_MAX = 60
_LEVEL_MIN = 8
_ITEM_BYTES = 8
_PENDING_MIN = 1 << 16
_INT64 = np.iinfo(np.int64)
_FAMILY, _VERSION, _VERSION_SINGLE = 15, 1, 2
_EMPTY, _SORTED, _SINGLE = 1, 2, 4


class Kll(Law):
    """Quantiles of int64, float64 and decimals, all as float64. NaN is ignored, as in the library.

    Args:
        k: accuracy: the error is about 3.3 / k.
    """

    def __init__(self, k: int = K_DEFAULT) -> None:
        if not K_MIN <= k <= K_MAX:
            raise ValueError(f"the k of a kll is from {K_MIN} to {K_MAX}, not {k}")
        self.k = k
        self.kind = "kll" if k == K_DEFAULT else f"kll:{k}"

    def value_type(self, values: Values, name: str) -> pa.DataType:
        data_type = one_column(values).type
        if data_type in (pa.null(), pa.int64(), pa.float64()) or pa.types.is_decimal(data_type):
            return pa.float64()
        raise DataError(
            f"kll {name!r} is over {type_name(data_type)} values, which are not numbers",
            hint="Cast them in the query, for example CAST(x AS DOUBLE).",
        )

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with up to about 3 k values of 17 bytes per group."""
        return KllAccumulator(self.kind, self.k)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return sketches in Apache DataSketches' format (kll_doubles), binary."""
        levels, owners = unpack_words(state.parts["levels"], np.dtype(np.uint8))
        values, _ = unpack_words(state.parts["items"], np.dtype("<f8"))
        cuts = np.searchsorted(owners, np.arange(rows + 1)).tolist()
        counts = state.parts["n"].tolist()
        extremes = [float_rank(state.parts[name]).view("<f8") for name in ("least", "greatest")]
        return pa.array(
            [
                _sketch(self.k, counts[row], levels[a:b], values[a:b], [ends[row] for ends in extremes])
                for row, (a, b) in enumerate(pairwise(cuts))
            ],
            pa.binary(),
        )

    def check(self, state: State, rows: int) -> None:
        """Check that values are sorted within levels and fit them, and that their weights add up to n."""
        if set(state.parts) != {"n", "least", "greatest", "levels", "items"} or state.type != pa.float64():
            raise ValueError(f"a kll has columns {sorted(state.parts)}")
        for name in ("n", "least", "greatest"):
            if not isinstance(state.parts[name], np.ndarray):
                raise ValueError(f"the {name} of a kll is not made of integers")
        columns = [check_binary(state.parts[name], f"kll {name}") for name in ("levels", "items")]
        held, item_bytes = (np.diff(byte_layout(column)[0]).astype(np.int64) for column in columns)
        # Checked before anything is unpacked, which takes far more memory than the one byte of a level.
        if (held > _capacities(self.k)[-1]).any() or (held * _ITEM_BYTES != item_bytes).any():
            raise ValueError("a kll's items do not fit its levels")
        levels, owners = unpack_words(columns[0], np.dtype(np.uint8))
        values, _ = unpack_words(columns[1], np.dtype("<f8"))
        if np.isnan(values).any():
            raise ValueError("a kll's items do not fit its levels")
        if len(levels) and int(levels.max()) > LEVELS_MAX:
            raise ValueError("a kll has too many levels")
        segment = owners * (LEVELS_MAX + 1) + levels
        ranks = float_rank(values.view("<i8"))
        in_order = (segment[1:] > segment[:-1]) | ((segment[1:] == segment[:-1]) & (ranks[1:] >= ranks[:-1]))
        tops = np.zeros(rows, np.int64)
        np.maximum.at(tops, owners, levels.astype(np.int64) + 1)
        if not in_order.all() or (np.bincount(owners, minlength=rows) > _capacities(self.k)[tops]).any():
            raise ValueError("a kll is out of order, or has more than its levels hold")
        weights = np.zeros(rows, np.int64)
        np.add.at(weights, owners, np.int64(1) << levels.astype(np.int64))
        if (weights != state.parts["n"]).any() or (weights < 0).any():
            raise ValueError("the weights of a kll do not add up to its n")


class _Items(Struct, frozen=True):
    """Values with their level and group, ordered by group, level, value.

    Attributes:
        owners: int64[n] groups.
        levels: int64[n].
        ranks: int64[n], float bits in the order of the values.
    """

    owners: np.ndarray
    levels: np.ndarray
    ranks: np.ndarray

    def __len__(self) -> int:
        return len(self.owners)

    def take(self, rows: np.ndarray) -> _Items:
        return _Items(self.owners[rows], self.levels[rows], self.ranks[rows])


def _ordered(parts: list[_Items]) -> _Items:
    owners = np.concatenate([part.owners for part in parts])
    levels = np.concatenate([part.levels for part in parts])
    ranks = np.concatenate([part.ranks for part in parts])
    order = np.lexsort((ranks, owners * (LEVELS_MAX + 1) + levels))
    return _Items(owners[order], levels[order], ranks[order])


class KllAccumulator(Accumulator):
    """Levels of all groups in one sorted list, and a tail of new values."""

    def __init__(self, kind: str, k: int) -> None:
        self.type = pa.float64()
        self._kind = kind
        self._k = k
        self._counts = Growing()
        self._least, self._greatest = Growing(_INT64.max), Growing(_INT64.min)
        self._empty()

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add values to the tail; occasionally it is sorted and full levels drop every second value."""
        column = one_column(values)
        if (valid := valid_mask(column)) is not None:
            column, ids = column.filter(pa.array(valid)), ids[valid]
        if pa.types.is_null(column.type):
            return
        bits = to_int64(column.cast(pa.float64(), safe=False))[0]
        nan = np.isnan(bits.view(np.float64))
        if nan.any():
            bits, ids = bits[~nan], ids[~nan]
        ranks = float_rank(bits)
        kernel.active.count(ids, self._counts.reach(groups))
        kernel.active.least(ids, ranks, self._least.reach(groups))
        kernel.active.greatest(ids, ranks, self._greatest.reach(groups))
        self._append(_Items(ids, np.zeros(len(ids), np.int64), ranks))

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        some = np.flatnonzero(state.parts["n"])
        kernel.active.add(ids, state.parts["n"], self._counts.reach(groups))
        kernel.active.least(ids[some], state.parts["least"][some], self._least.reach(groups))
        kernel.active.greatest(ids[some], state.parts["greatest"][some], self._greatest.reach(groups))
        levels, owners = unpack_words(state.parts["levels"], np.dtype(np.uint8))
        values, _ = unpack_words(state.parts["items"], np.dtype("<i8"))
        self._append(_Items(ids[owners], levels.astype(np.int64), float_rank(values)))

    def freeze(self, groups: int) -> State:
        """Return copies. Cost: a sort of new values."""
        self._settle()
        held = self._held
        counts = self._counts.head(groups).copy()
        least, greatest = self._least.head(groups), self._greatest.head(groups)
        return State(
            self._kind,
            self.type,
            {
                "n": counts,
                "least": np.where(counts > 0, least, 0),
                "greatest": np.where(counts > 0, greatest, 0),
                "levels": pack_words(held.levels.astype(np.uint8), held.owners, groups),
                "items": pack_words(float_rank(held.ranks).view("<f8"), held.owners, groups),
            },
        )

    def clear(self) -> None:
        for column in (self._counts, self._least, self._greatest):
            column.clear()
        self._empty()

    def promote(self, data_type: pa.DataType) -> None:
        """Keep float64."""

    @property
    def nbytes(self) -> int:
        columns = (self._counts, self._least, self._greatest)
        return sum(column.nbytes for column in columns) + 24 * (len(self._held) + self._pending_count)

    def _empty(self) -> None:
        nothing = np.zeros(0, np.int64)
        self._held = _Items(nothing, nothing, nothing)
        self._pending: list[_Items] = []
        self._pending_count = 0

    def _append(self, items: _Items) -> None:
        if len(items) == 0:
            return
        self._pending.append(items)
        self._pending_count += len(items)
        if self._pending_count > max(_PENDING_MIN, len(self._held)):
            self._settle()

    def _settle(self) -> None:
        if self._pending:
            self._held = compact(_ordered([self._held, *self._pending]), self._k)
            self._pending, self._pending_count = [], 0


def compact(items: _Items, k: int) -> _Items:
    """Reduce levels until no group exceeds its capacity. Cost: a sort of the groups that do, per level."""
    done: list[_Items] = []
    while True:
        starts = np.flatnonzero(np.diff(items.owners, prepend=-1))
        held = np.diff(starts, append=len(items))
        tops = items.levels[starts + held - 1] if len(starts) else starts
        over = held > _capacities(k)[tops + 1]
        full = np.repeat(over, held)
        done.append(items.take(np.flatnonzero(~full)))
        if not over.any():
            return done[0] if len(done) == 1 else _ordered(done)
        items = _halve(items.take(np.flatnonzero(full)), np.repeat(tops[over], held[over]), k)


def _halve(items: _Items, tops: np.ndarray, k: int) -> _Items:
    """In every group, move half of the lowest full level up; tops[n] is the group's highest level."""
    segment = items.owners * (LEVELS_MAX + 1) + items.levels
    starts = np.flatnonzero(np.diff(segment, prepend=-1))
    sizes = np.diff(starts, append=len(items))
    is_full = sizes >= _level_capacity(k, tops[starts] + 1, items.levels[starts])
    # The first full level of each group, because levels ascend within a group.
    owners = items.owners[starts]
    full = np.flatnonzero(is_full)
    full = full[np.diff(owners[full], prepend=-1) != 0]
    first, size = starts[full], sizes[full]
    chosen = np.zeros(len(starts), np.bool_)
    chosen[full] = True
    inside = np.repeat(chosen, sizes)
    odd = size & 1
    coin = _coins(items.ranks[first], items.ranks[first + size - 1], size)
    place = np.arange(len(items)) - np.repeat(starts, sizes)
    parity = np.repeat(_spread(coin + odd, full, len(starts)), sizes)
    stays = np.repeat(_spread(odd, full, len(starts)), sizes) > place
    up = inside & ~stays & (((place - parity) & 1) == 0)
    rising = items.take(np.flatnonzero(up))
    rising = _Items(rising.owners, rising.levels + 1, rising.ranks)
    return _ordered([items.take(np.flatnonzero(~inside | stays)), rising])


def _spread(values: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros(count, np.int64)
    out[places] = values
    return out


def _coins(first: np.ndarray, last: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return 0 or 1 from the content of a level, well mixed, so that it follows no pattern of the data."""
    mixed = first.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ last.view(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) ^ size.view(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    coins: np.ndarray = (mixed >> np.uint64(63)).view(np.int64)
    return coins


def _level_capacity(k: int, levels: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return a level's capacity in the library: k for the top one, two thirds for the next, at least 8."""
    depth = np.minimum(levels - level - 1, LEVELS_MAX)
    capacities: np.ndarray = _depth_capacities(k)[depth]
    return capacities


@lru_cache(maxsize=64)
def _capacities(k: int) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(_depth_capacities(k))))


@lru_cache(maxsize=64)
def _depth_capacities(k: int) -> np.ndarray:
    exact = [max(_LEVEL_MIN, ((2 * k << depth) // 3**depth + 1) >> 1) for depth in range(LEVELS_MAX + 1)]
    return np.array(exact, np.int64)


def _sketch(k: int, count: int, levels: np.ndarray, values: np.ndarray, ends: list[float]) -> bytes:
    if count == 0:
        return bytes([2, _VERSION, _FAMILY, _EMPTY, *k.to_bytes(2, "little"), _LEVEL_MIN, 0])
    if count == 1:
        head = bytes([2, _VERSION_SINGLE, _FAMILY, _SINGLE | _SORTED, *k.to_bytes(2, "little")])
        return head + bytes([_LEVEL_MIN, 0]) + values.tobytes()
    top = int(levels[-1]) + 1
    head = bytes([5, _VERSION, _FAMILY, _SORTED, *k.to_bytes(2, "little"), _LEVEL_MIN, 0])
    head += count.to_bytes(8, "little") + k.to_bytes(2, "little") + bytes([top, 0])
    first = int(_capacities(k)[top]) - len(values)
    starts = first + np.searchsorted(levels, np.arange(top))
    return head + starts.astype("<u4").tobytes() + np.array(ends, "<f8").tobytes() + values.tobytes()
