"""Floats as integers of the same order, so that one comparison of integers does for both.

Owns: this order. Refuses to know: who compares, what is null.
"""

from __future__ import annotations

import numpy as np

_MAGNITUDE = np.int64(np.iinfo(np.int64).max)


def float_rank(bits: np.ndarray) -> np.ndarray:
    """Between float bits and integers of the same order, its own inverse; canonical NaN is above infinity.

    Args:
        bits: int64, those of float64 values.
    """
    rank: np.ndarray = bits ^ ((bits >> np.int64(63)) & _MAGNITUDE)
    return rank
