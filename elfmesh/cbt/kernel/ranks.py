"""Ranks of floats: integers with the same order, so that integer comparisons order floats.

Owns this order. Does not depend on its use or on nulls.
"""

from __future__ import annotations

import numpy as np

_MAGNITUDE = np.int64(np.iinfo(np.int64).max)


def float_rank(bits: np.ndarray) -> np.ndarray:
    """Convert between float bits and integers of the same order; its own inverse.

    Canonical NaN is above infinity.

    Args:
        bits: int64, those of float64 values.
    """
    rank: np.ndarray = bits ^ ((bits >> np.int64(63)) & _MAGNITUDE)
    return rank
