"""Room: cbt. Partial aggregates (PAOs) as columns with laws, their compressed buffer tree, panes, encodings.

Public names are imported when they are first used, because commands that only ask need no numpy.

Paper: ELF 2.2. Imports only the shared modules; does not depend on the network, clocks or query texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elfmesh.lazy import lazy_names

if TYPE_CHECKING:
    from elfmesh.cbt.errors import NotInvertible, PartialTooLarge, TypeConflict
    from elfmesh.cbt.laws import LAWS
    from elfmesh.cbt.limits import TreeLimits
    from elfmesh.cbt.partial.contents import Content, SortedContent
    from elfmesh.cbt.partial.partial import (
        Encode,
        decode_partial,
        encode_known,
        encode_partial,
        encode_parts,
        finish,
        finish_blocks,
        finish_parts,
        merge_known,
        merge_partials,
        merged_parts,
        split_partial,
        subtract,
    )
    from elfmesh.cbt.tree.tree import CompressedBufferTree
    from elfmesh.cbt.windows.panes import Panes, TableSpec
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "partial.contents": "Content SortedContent",
            "errors": "NotInvertible PartialTooLarge TypeConflict",
            "laws": "LAWS",
            "limits": "TreeLimits",
            "windows.panes": "Panes TableSpec",
            "partial.partial": "Encode decode_partial encode_known encode_partial encode_parts finish"
            " finish_blocks finish_parts merge_known merge_partials merged_parts split_partial subtract",
            "tree.tree": "CompressedBufferTree",
        },
    )

__all__ = [
    "LAWS",
    "CompressedBufferTree",
    "Content",
    "Encode",
    "NotInvertible",
    "Panes",
    "PartialTooLarge",
    "SortedContent",
    "TableSpec",
    "TreeLimits",
    "TypeConflict",
    "decode_partial",
    "encode_known",
    "encode_partial",
    "encode_parts",
    "finish",
    "finish_blocks",
    "finish_parts",
    "merge_known",
    "merge_partials",
    "merged_parts",
    "split_partial",
    "subtract",
]
