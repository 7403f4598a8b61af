"""The hot operations of the tree behind one seam: a module with the functions of `protocol.Kernel`.

The rest of the room calls `kernel.active.<function>`, looked up at each call, so that a test or a start-up
check can put another module in its place.
"""

from __future__ import annotations

from elfmesh.cbt.kernel import numpy_twin
from elfmesh.cbt.kernel.protocol import Kernel

active: Kernel = numpy_twin
"""The implementation in use."""
