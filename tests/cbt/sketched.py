"""What a law takes: of those that merge sketches, a sketch of each value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.merging import Merging


def is_merging(kind: str) -> bool:
    return isinstance(LAWS[kind], Merging)


def taken(kind: str, values: pa.Array) -> pa.Array:
    """The values, or as many sketches."""
    law = LAWS[kind]
    if not isinstance(law, Merging):
        return values
    if len(values) == 0:
        return pa.array([], pa.binary())
    return law.inner.finish(law.inner.lift(values, np.arange(len(values)), len(values)), len(values))
