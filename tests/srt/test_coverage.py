from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.srt.coverage import Cells, CoverageCell, bitmap_of, bits_of
from elfmesh.srt.messages import FIRST

RANGES = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)


@given(st.integers(0, 2**70))
def test_a_bitmap_has_no_trailing_zeros_and_comes_back(bits: int) -> None:
    assert bits_of(bitmap_of(bits)) == bits
    assert not bitmap_of(bits).endswith(b"\0")


def test_bit_order_is_little_endian() -> None:
    assert bitmap_of(1 << 0 | 1 << 9) == b"\x01\x02"


@given(st.lists(st.tuples(RANGES, st.integers(0, 2), st.integers(0, 3))), st.integers(0, 12))
def test_cells_agree_with_a_plain_table(puts: list[tuple[list[int], int, int]], released: int) -> None:
    cells, model = Cells(), dict.fromkeys(range(13), (0, 0))
    for (start, stop), attempt, known in puts:
        cells.put(CoverageCell(start, stop, attempt, known))
        model.update(dict.fromkeys(range(start, stop), (attempt, known)))
    cells.drop_below(released)
    model.update(dict.fromkeys(range(released), (0, 0)))
    pieces = cells.pieces(0, 13)
    assert [p.start for p in pieces] == [0, *(p.stop for p in pieces)][:-1]
    assert pieces[-1].stop == 13
    got = {n: (p.attempt, p.known) for p in pieces for n in range(p.start, p.stop)}
    assert got == model
    states = [(cell.start, cell.stop, cell.attempt, cell.known) for cell in pieces]
    for left, right in pairwise(states):
        assert left[1] == right[0]
        assert left[2:] != right[2:], "neighbours differ"


def test_astronomic_ranges_cost_nothing() -> None:
    cells = Cells()
    cells.put(CoverageCell(FIRST, 5, 0, 1))
    cells.put(CoverageCell(3, 2**62, 0, 3))
    assert cells.pieces(FIRST, 2**62) == [CoverageCell(FIRST, 3, 0, 1), CoverageCell(3, 2**62, 0, 3)]
