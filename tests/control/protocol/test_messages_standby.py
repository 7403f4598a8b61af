"""Deltas of open panes: what makes one sound."""

from __future__ import annotations

import pytest

from elfmesh.control.protocol.messages_standby import PANES_MAX, Delta, PaneDelta, is_sound_delta


@pytest.mark.parametrize(
    ("panes", "nbytes", "sound"),
    [
        ([(1, 7, 2), (1, 8, 3)], 5, True),
        ([(1, 7, 2), (2, 7, 3)], 5, True),
        ([], 0, True),
        ([(1, 7, 2)], 3, False),
        ([(1, 7, 2), (1, 7, 3)], 5, False),
        ([(1, pane, 0) for pane in range(PANES_MAX + 1)], 0, False),
    ],
)
def test_the_sizes_add_up_and_no_pane_is_twice_in_a_delta(
    panes: list[tuple[int, int, int]], nbytes: int, sound: bool
) -> None:
    found = tuple(PaneDelta(version, pane, 1, 0, size) for version, pane, size in panes)
    assert is_sound_delta(Delta(b"j" * 20, "i", b"m" * 20, 1, 1, 0, 0, 0, found), nbytes) is sound
