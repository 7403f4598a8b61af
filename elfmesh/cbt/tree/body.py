"""Body of a tree for one form of its keys: the root, and the members below it.

Accepted rows are never lost: a later error of a store is reported (`suffer`), and the merge that it prevented
is repeated later.

Paper: ELF 2.2 ("when a buffer reaches some threshold, it is flushed into the buffers of nodes in the next
level").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from elfmesh.cbt.budget import BlobStore
from elfmesh.cbt.kernel import Keys
from elfmesh.cbt.keys import KeyForm
from elfmesh.cbt.laws import State
from elfmesh.cbt.laws.base import Values
from elfmesh.cbt.limits import TreeLimits
from elfmesh.cbt.rows import Layout, Types
from elfmesh.cbt.sorted_rows import SortedRows, reform
from elfmesh.cbt.tree.hot import HotRoot, slices
from elfmesh.cbt.tree.node import BufferNode, Shared
from elfmesh.cbt.tree.snapshot import Snapshot, freeze
from elfmesh.errors import StorageError

KEPT_BYTES_MAX = 1 << 20
"""Maximum number of bytes of a root that is kept after `empty`, because growing one costs as much as filling
it."""


class Body:
    """Root and members of a tree. `suffer` receives the errors of a store."""

    __slots__ = (
        "_hot",
        "_layout",
        "_limits",
        "_root_bytes_max",
        "_seed",
        "_shared",
        "_spilled_up_to",
        "_suffer",
        "_top",
        "form",
        "state_types",
    )

    def __init__(
        self,
        layout: Layout,
        form: KeyForm,
        state_types: Types,
        *,
        limits: TreeLimits,
        root_bytes_max: int,
        seed: int,
        suffer: Callable[[StorageError], None],
    ) -> None:
        self.form, self.state_types = form, state_types
        self._layout, self._limits, self._seed, self._suffer = layout, limits, seed, suffer
        self._root_bytes_max = min(root_bytes_max, limits.root_bytes_max)
        self._hot: HotRoot | None = None
        self._top: BufferNode | None = None
        self._shared = Shared(limits)
        self._spilled_up_to = 0

    @property
    def types(self) -> Types:
        return (*self.form.types, *self.state_types)

    @property
    def nbytes(self) -> int:
        return self.open_bytes + self._shared.nbytes

    @property
    def open_bytes(self) -> int:
        return 0 if self._hot is None else self._hot.nbytes

    @property
    def rows(self) -> int:
        """Return the number of PAO rows; a key counts once per buffer that contains it."""
        return self._shared.rows + (0 if self._hot is None else self._hot.rows)

    @property
    def depth(self) -> int:
        return 1 + (self._top.depth if self._top else 0)

    def promote(self, form: KeyForm, state_types: Types) -> None:
        """Switch to a form with equal key bytes and wider types. Buffers are promoted when they are read."""
        self.form, self.state_types = form, state_types
        if self._hot is not None:
            self._hot.promote(form, state_types)

    def add(self, keys: Keys, values: Sequence[Values]) -> None:
        for start, piece in slices(keys):
            self._root().add(piece, values, start)
            self._push_down_if_full()

    def merge(self, keys: Keys, states: Sequence[State]) -> None:
        for start, piece in slices(keys):
            self._root().merge(piece, states, start)
            self._push_down_if_full()

    def hang(self, rows: SortedRows) -> None:
        if self._top is None:
            self._top = BufferNode(self._shared)
        try:
            self._top.insert(reform(rows, self.form, self.types))
        except StorageError as error:
            self._suffer(error)
        self._shared.rest()

    def clear(self) -> bool:
        """Remove all rows and keep the root's memory; False if there is more than a small root."""
        if self._hot is None or self._top is not None or self._hot.nbytes > KEPT_BYTES_MAX:
            return False
        self._hot.clear()
        return True

    def push_down(self) -> None:
        """Move the root's rows into the buffers below, and free its memory."""
        self._push_down()
        self._hot = None

    def spill(self, store: BlobStore, goal_bytes: int) -> None:
        """Spill buffers until at most `goal_bytes` are in memory. Raises StorageError; nothing is lost.

        Members take turns, so that it is not always the first ones that are read back and written again.
        """
        members = [] if self._top is None else list(self._top.members())
        for _ in range(len(members)):
            if self.nbytes <= goal_bytes:
                return
            self._spilled_up_to = (self._spilled_up_to + 1) % len(members)
            members[self._spilled_up_to].spill(store)

    def snapshot(self) -> Snapshot:
        hot = self._hot.freeze() if self._hot is not None and self._hot.rows else None
        top = None if self._top is None else freeze(self._top)
        return Snapshot(self._layout, self.form, self.types, hot, top, self.rows)

    def _root(self) -> HotRoot:
        if self._hot is None:
            self._hot = HotRoot(
                self._layout,
                self.form,
                self.state_types,
                rows=self._limits.root_rows,
                rows_max=self._limits.root_rows_max,
                bytes_max=self._root_bytes_max,
                seed=self._seed,
            )
        return self._hot

    def _push_down_if_full(self) -> None:
        hot = self._hot
        if hot is None or not hot.is_full:
            return
        outgrown = hot.nbytes > hot.bytes_max
        self._push_down()
        if outgrown:
            self._hot = None  # its memory must be freed

    def _push_down(self) -> None:
        hot, shared = self._hot, self._shared
        if hot is None or not hot.rows:
            return
        if self._top is None:
            self._top = BufferNode(shared)
        top = self._top
        try:
            if not top.children and shared.rows + hot.rows > 2 * self._limits.leaf_rows_max:
                top.split()
        except StorageError as error:
            self._suffer(error)  # an unsplit leaf can take the rows too
        parts = chain.from_iterable(hot.packed(top.child_bits if top.children else 0))
        try:
            if top.children:
                prepared = top.prepare(parts)
                hot.clear()
                top.hang(prepared)
            else:
                (packed,) = parts
                hot.clear()
                top.take(packed)
        except StorageError as error:
            self._suffer(error)
        shared.rest()
