"""The heavy work on partials: merging them on their way up a tree, and the last steps of a query at its root.

Plain functions for a thread; keeps nothing but the compiled queries of the jobs that are finalised here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from elfmesh.cbt import finish_parts, merge_partials
from elfmesh.control import ql
from elfmesh.control.events import Finalise
from elfmesh.control.manifest import Manifest
from elfmesh.control.records import table_to_ipc

QUERIES_MAX = 256
"""Compiled queries kept: one per job mastered here, and nobody masters so many."""


class PartialCompute:
    """`Compute` of the pump."""

    def __init__(self) -> None:
        self._queries: OrderedDict[tuple[bytes, str, int], ql.Query] = OrderedDict()

    def merge(self, parts: Sequence[bytes]) -> bytes:
        """One partial of several.

        Raises:
            ProtocolError: a part is damaged.
            TypeConflict: a column has types without a common one.
        """
        return merge_partials(parts)

    def finalise(self, effect: Finalise) -> bytes:
        """The rows of an interval as an Arrow IPC stream. Partitions hold different keys."""
        query = self._query(effect.manifest)
        window = query.statement.window
        assert window is not None, "a job has intervals"
        start = effect.interval * window.slide_us
        tables = finish_parts([part for partition in effect.parts for part in partition])
        return table_to_ipc(query.finalise_parts(tables, (start, start + window.size_us)))

    def _query(self, manifest: Manifest) -> ql.Query:
        key = (manifest.job_id, manifest.incarnation, manifest.version)
        if key not in self._queries:
            self._queries[key] = ql.Query(ql.parse(manifest.text))
            if len(self._queries) > QUERIES_MAX:
                self._queries.popitem(last=False)
        self._queries.move_to_end(key)
        return self._queries[key]
