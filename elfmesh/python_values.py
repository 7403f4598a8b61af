"""Python values of columns whose times may lie outside the years 1 to 9999, which Python's types lack.

Times are integers there: microseconds since the epoch, and days for dates. Integers have the order and the
equality of the times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


def without_times(kind: pa.DataType, dates: pa.DataType | None = None) -> pa.DataType:
    """Return a type whose times are int64, and whose dates are int32 or the given type, at any depth."""
    types = pa.types
    if types.is_date(kind):
        return pa.int32() if dates is None else dates
    if types.is_timestamp(kind) or types.is_duration(kind):
        return pa.int64()
    if types.is_struct(kind):
        return pa.struct([field.with_type(without_times(field.type, dates)) for field in kind])
    if types.is_map(kind):
        return pa.map_(without_times(kind.key_type, dates), without_times(kind.item_type, dates))
    return pa.list_(without_times(kind.value_type, dates)) if types.is_list(kind) else kind


def python_values(array: pa.Array) -> list[Any]:
    """Return the values of a column of an ELF-QL type, times as integers. Cost: an object for each value."""
    plain = without_times(array.type)
    values: list[Any] = (array if plain == array.type else array.cast(plain)).to_pylist()
    return values


def from_python(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Return the column of a type for values in the form of `python_values`."""
    plain = without_times(kind)
    made = pa.array(values, plain)
    return made if plain == kind else made.cast(kind)
