"""The size of an order for the rows of intervals."""

from __future__ import annotations

from dataclasses import replace

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol.events_results import Finalise

MANIFEST = Manifest(namespace="shop", name="words", creator="me", text="SELECT", version=1, job_id=bytes(20))


def test_an_order_is_as_large_as_what_is_merged_for_all_its_intervals() -> None:
    order = Finalise(bytes(20), 1, MANIFEST, 7, ((b"ab", b"c"), (b"d",)))
    assert order.nbytes == 4
    assert replace(order, open=b"xyz", inputs=(("shop/other", 3, b"rows"),)).nbytes == 4 + 3 + 4
    assert replace(order, then=(order, replace(order, then=(order,)))).nbytes == 16
