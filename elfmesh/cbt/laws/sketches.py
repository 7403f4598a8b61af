"""Reading finished sketches: estimates, quantiles, frequent values.

Sketches are built and merged without the library; only what reads an estimate out of HLL registers or a
quantile out of levels is left to Apache DataSketches, so that it equals what Spark reads out of them.

Owns: the use of the optional package `datasketches`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from elfmesh.errors import ConfigError


def _library() -> Any:
    try:
        import datasketches
    except ImportError:
        raise ConfigError(
            "reading sketches needs the package datasketches, which is not installed",
            hint="Install it with: pip install 'elfmesh[sketches]'",
        ) from None
    return datasketches


def hll_estimates(sketches: pa.Array) -> pa.Array:
    """float64: about how many distinct values each finished hll has seen.

    Raises:
        ConfigError: the package is missing.
    """
    hll = _library().hll_sketch
    return pa.array([hll.deserialize(held).get_estimate() for held in sketches.to_pylist()], pa.float64())


def kll_quantiles(sketches: pa.Array, ranks: Sequence[float]) -> pa.Array:
    """list<float64>: of each finished kll the values at these ranks in [0, 1]; null without values.

    Raises:
        ConfigError: the package is missing.
    """
    kll = _library().kll_doubles_sketch
    held = [kll.deserialize(sketch) for sketch in sketches.to_pylist()]
    out = [None if sketch.is_empty() else [sketch.get_quantile(rank) for rank in ranks] for sketch in held]
    return pa.array(out, pa.list_(pa.float64()))
