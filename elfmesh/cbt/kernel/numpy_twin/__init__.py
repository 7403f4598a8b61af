"""Kernel in numpy and Arrow: used without a compiler, and as the oracle of the native kernel in tests.

Contract: `elfmesh.cbt.kernel.protocol.Kernel`. Keys are identified by their bytes; a hash only places them.
numpy's loops and Arrow's kernels release the GIL; the dict of the hot table and the decoding of runs hold it.
"""

from __future__ import annotations

from elfmesh.cbt.kernel.numpy_twin.bits import pack_bits, unpack_bits
from elfmesh.cbt.kernel.numpy_twin.columns import (
    give_back,
    pack_ints,
    scale_floats,
    short_sums,
    short_units,
    unpack_ints,
)
from elfmesh.cbt.kernel.numpy_twin.key_columns import decode_keys, encode_keys
from elfmesh.cbt.kernel.numpy_twin.order import sort_keys
from elfmesh.cbt.kernel.numpy_twin.runs import (
    check_run,
    decode_run,
    front_code,
    merge_runs,
    partition_run,
)
from elfmesh.cbt.kernel.numpy_twin.scatter import (
    add,
    add_fields,
    add_floats,
    count,
    greatest,
    greatest_floats,
    least,
    least_floats,
    span_floats,
    take_rows,
)
from elfmesh.cbt.kernel.numpy_twin.table import table
from elfmesh.cbt.kernel.numpy_twin.words import hash_keys

__all__ = [
    "add",
    "add_fields",
    "add_floats",
    "check_run",
    "count",
    "decode_keys",
    "decode_run",
    "encode_keys",
    "front_code",
    "give_back",
    "greatest",
    "greatest_floats",
    "hash_keys",
    "least",
    "least_floats",
    "merge_runs",
    "pack_bits",
    "pack_ints",
    "partition_run",
    "scale_floats",
    "short_sums",
    "short_units",
    "sort_keys",
    "span_floats",
    "table",
    "take_rows",
    "unpack_bits",
    "unpack_ints",
]
