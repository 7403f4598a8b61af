"""Arrow's kernels, `pc` in the modules that call them: loaded when one is first called.

`pyarrow.compute` makes a function with a signature and a documentation for each of its 300 kernels when it is
imported, which takes as long as to load pyarrow itself. Many queries call none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.lazy import lazy_functions

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_functions("pyarrow.compute")

__all__ = ["integers", "pc", "taken"]


def integers(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return int64 values as an array without nulls, without a copy if they are contiguous.

    `pa.array` asks of each numpy array whether it is masked, which loads `numpy.ma`.
    """
    return pa.Array.from_buffers(
        pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))]
    )


def taken(arrays: Iterable[pa.Array], places: pa.Array) -> list[pa.Array]:
    """Return the rows at some places of arrays, as `Array.take` does, which loads `pyarrow.compute`."""
    from pyarrow._compute import TakeOptions, call_function

    options: Any = TakeOptions()
    return [call_function("take", [array, places], options) for array in arrays]
