"""What the tests of sketches share."""

from __future__ import annotations

from typing import Any

import datasketches
import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.hll import LOG_REGISTERS

ZEROS = np.zeros(1 << 20, np.int64)


def sketch(kind: str, values: Any) -> bytes:
    """One group's finished sketch."""
    column = normalise(values if isinstance(values, pa.Array) else pa.array(values), "x")
    state = LAWS[kind].lift(column, ZEROS[: len(column)], 1)
    LAWS[kind].check(state, 1)
    return bytes(LAWS[kind].finish(state, 1)[0].as_py())


def library_hll(values: list[Any]) -> Any:
    held = datasketches.hll_sketch(LOG_REGISTERS, datasketches.HLL_8)
    for value in values:
        held.update(value)
    return held
