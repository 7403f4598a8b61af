"""Text of lists, structs and maps as CAST AS STRING writes it: [1, null], {1, a}, {k -> 1}."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.values.columns import entries_of, list_cuts
from elfmesh.ql.values.types import STRING, is_list, is_map, is_nested

_NULL = "null"
_SEPARATOR = ", "


def nested_text(array: pa.Array, plain_text: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return the text of each value, null for null; `plain_text` returns that of plain values."""
    kind = array.type
    if is_list(kind):
        joined = _joined(list_cuts(array), _inner(array.flatten(), plain_text))
        made = pc.binary_join_element_wise("[", joined, "]", "")
    elif is_map(kind):
        entries = entries_of(array)
        pairs = [_inner(pc.struct_field(entries.flatten(), at), plain_text) for at in range(2)]
        joined = _joined(list_cuts(entries), pc.binary_join_element_wise(*pairs, " -> "))
        made = pc.binary_join_element_wise("{", joined, "}", "")
    else:
        parts = [_inner(pc.struct_field(array, at), plain_text) for at in range(kind.num_fields)]
        made = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*parts, _SEPARATOR), "}", "")
    return pc.if_else(array.is_valid(), made, pa.scalar(None, STRING)) if array.null_count else made


def _joined(cuts: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(cuts, texts), _SEPARATOR)


def _inner(array: pa.Array, plain_text: Callable[[pa.Array], pa.Array]) -> pa.Array:
    texts = nested_text(array, plain_text) if is_nested(array.type) else plain_text(array)
    return pc.fill_null(texts, _NULL)
