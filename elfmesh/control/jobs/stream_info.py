"""Description of a stream of an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream of this agent.

    Attributes:
        name: its name in FROM.
        format: "json", "combined", ...
        columns: names of its columns if the format fixes them, else empty.
        arrow: the columns with their types, as a schema of Arrow IPC; b"" if the format does not fix them.
    """

    name: str
    format: str
    columns: tuple[str, ...] = ()
    arrow: bytes = b""

    @classmethod
    def of(cls, name: str, format_name: str, schema: pa.Schema | None) -> StreamInfo:
        if schema is None:
            return cls(name, format_name)
        return cls(name, format_name, tuple(schema.names), schema.serialize().to_pybytes())

    @property
    def schema(self) -> pa.Schema | None:
        """The columns with their types; None if the format does not fix them."""
        return pa.ipc.read_schema(pa.py_buffer(self.arrow)) if self.arrow else None
