"""What a version of a job has read since its last report, by pane, for the standby of its open panes.

Rows that the panes have taken are inserted into a second set of panes, the tail, which a report empties. The
merged reports equal the panes themselves, because merging has no order. In memory only: a restarted agent
reads its open panes again.

Paper: PPA II-B, where a replica receives the same input. Deviation: it receives partial aggregates of it.
"""

from __future__ import annotations

from elfmesh.cbt import Panes, encode_parts
from elfmesh.control.protocol.events_standby import CutPane
from elfmesh.errors import DataError
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ingest.worker.tally import Tally
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.ql import Prepared, Statement


class PaneTail:
    """The tail of one version's panes.

    Args:
        statement: statement of the version.
        evaluated: number of the version.
        seed: seed of the tables of keys.

    Attributes:
        broken: whether a row of the panes is not in the tail.
    """

    def __init__(self, statement: Statement, evaluated: int, seed: int) -> None:
        window = statement.window
        assert window is not None, "a job has intervals"
        self._rows = Panes(statement.tables, window.pane_us, seed=seed)
        self._evaluated = evaluated
        self._counts: dict[int, list[int]] = {}
        self.broken = False

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def insert(self, prepared: Prepared) -> None:
        """Add the rows and the counts of records that the panes have taken."""
        try:
            self._rows.insert_all(batches_of(prepared))
        except DataError:
            self.broken = True
        for bucket, panes in enumerate((prepared.kept, prepared.filtered)):
            for pane, number in panes.items():
                self._counts.setdefault(pane, [0, 0])[bucket] += number

    def drop_below(self, pane: int) -> None:
        self._rows.drop_below(pane)
        self._counts = {index: each for index, each in self._counts.items() if index >= pane}

    def take(self) -> list[CutPane]:
        """Return the records since the last call, by pane. Raises PartialTooLarge."""
        found = [
            cut_pane(self._evaluated, pane, self._counts[pane], self._rows) for pane in sorted(self._counts)
        ]
        if panes := self._rows.panes():
            self._rows.drop_below(panes[-1] + 1)
        self._counts.clear()
        return found


def whole_panes(evaluated: int, tally: Tally, panes: Panes) -> list[CutPane]:
    """Return all open panes of a version. Raises PartialTooLarge."""
    return [cut_pane(evaluated, pane, tally.of_pane(pane), panes) for pane in tally.panes()]


def cut_pane(evaluated: int, pane: int, counts: tuple[int, int] | list[int], panes: Panes) -> CutPane:
    contributed, filtered = counts
    (payload,) = encode_parts(panes.pane(pane), 1, DATA_FRAME_BYTES_MAX)
    return CutPane(evaluated, pane, contributed, filtered, payload)
