"""The heavy work on partials: merging them on their way up a tree, and the last steps of a query at its root.

Plain functions for a thread; keeps nothing but the compiled queries of the jobs that are finalised here, and
the contents of small partials made here a moment ago: where the next one to read them is this agent itself
(a root that is its own contributor, a merge that is finalised), they are not decoded.

Invariant: what is kept says what its bytes say; whether it is still there makes no difference but in time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from elfmesh.cbt import Content, SortedContent, encode_known, encode_parts, finish_parts, merge_known
from elfmesh.control import ql
from elfmesh.control.events import Finalise
from elfmesh.control.manifest import Manifest
from elfmesh.control.records import table_to_ipc

QUERIES_MAX = 256
"""Compiled queries kept: one per job mastered here, and nobody masters so many."""

KNOWN_BYTES_MAX = 4 << 20
"""Contents kept, with the bytes of their partials: those of the intervals that all jobs seal at once."""


class KnownPartials:
    """Contents of partials by their bytes; each is taken once. May be used by several threads."""

    def __init__(self, bytes_max: int = KNOWN_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._held: OrderedDict[bytes, Mapping[str, SortedContent]] = OrderedDict()
        self.nbytes = 0

    def keep(self, partial: bytes, tables: Mapping[str, SortedContent]) -> None:
        """Hold what a partial says; what was held longest goes."""
        if not partial or not tables:
            return
        with self._lock:
            if partial not in self._held:
                self._held[partial] = tables
                self.nbytes += _bytes_of(partial, tables)
            while self.nbytes > self._bytes_max:
                self.nbytes -= _bytes_of(*self._held.popitem(last=False))

    def take(self, partials: Sequence[bytes]) -> dict[bytes, Mapping[str, SortedContent]]:
        """What is held of these; it is held no longer."""
        with self._lock:
            found = {partial: self._held.pop(partial) for partial in partials if partial in self._held}
            self.nbytes -= sum(_bytes_of(partial, tables) for partial, tables in found.items())
        return found


class PartialCompute:
    """`Compute` of the pump, and how the workers encode."""

    def __init__(self) -> None:
        self._queries: OrderedDict[tuple[bytes, str, int], ql.Query] = OrderedDict()
        self._known = KnownPartials()

    def encode(self, tables: Mapping[str, Content], partitions: int) -> list[bytes]:
        """The partial of each partition.

        Raises:
            PartialTooLarge: receivers would refuse one.
        """
        if partitions > 1:
            return encode_parts(tables, partitions)
        partial, known = encode_known(tables)
        self._known.keep(partial, known)
        return [partial]

    def merge(self, parts: Sequence[bytes]) -> bytes:
        """One partial of several.

        Raises:
            ProtocolError: a part is damaged.
            TypeConflict: a column has types without a common one.
        """
        partial, known = merge_known(parts, self._known.take(parts))
        self._known.keep(partial, known)
        return partial

    def finalise(self, effect: Finalise) -> bytes:
        """The rows of an interval as an Arrow IPC stream. Partitions hold different keys."""
        query = self._query(effect.manifest)
        window = query.statement.window
        assert window is not None, "a job has intervals"
        start = effect.interval * window.slide_us
        parts = [part for partition in effect.parts for part in partition]
        tables = finish_parts(parts, self._known.take(parts))
        return table_to_ipc(query.finalise_parts(tables, (start, start + window.size_us)))

    def _query(self, manifest: Manifest) -> ql.Query:
        key = (manifest.job_id, manifest.incarnation, manifest.version)
        if key not in self._queries:
            self._queries[key] = ql.Query(ql.parse(manifest.text))
            if len(self._queries) > QUERIES_MAX:
                self._queries.popitem(last=False)
        self._queries.move_to_end(key)
        return self._queries[key]


def _bytes_of(partial: bytes, tables: Mapping[str, SortedContent]) -> int:
    return len(partial) + sum(content.nbytes for content in tables.values())
