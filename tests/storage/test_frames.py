"""Shapes of the frame log: what is left of a contribution when another version evaluates a part of it."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.storage.frames import Forgotten, Frame, Released, RevisedInterval, Sealed, SealedInterval

FRAME = Sealed(
    "shop/top", 2, 3, 8,
    entries=[SealedInterval(at, [at], [b"p"]) for at in (3, 5, 7)],
    revised=[RevisedInterval(at, 2, [at], [b"r"], [1, 1], 9, 2) for at in (1, 2)],
    once=[(3, "x"), (7, "y")],
    seq=4,
)  # fmt: skip


@pytest.mark.parametrize(
    ("void_from", "start", "stop", "left", "valid"),
    [
        (99, 3, 8, [3, 5, 7], [1, 2]),
        (8, 3, 8, [3, 5, 7], [1, 2]),
        (7, 3, 7, [3, 5], [1, 2]),
        (4, 3, 4, [3], [1, 2]),
        (3, 3, 3, [], [1, 2]),
        (2, 2, 2, [], [1]),
        (0, 0, 0, [], []),
    ],
)
def test_below_an_interval_the_contribution_stays_as_it_was(
    void_from: int, start: int, stop: int, left: list[int], valid: list[int]
) -> None:
    rest = FRAME.below(void_from)
    assert (rest.start, rest.stop) == (start, stop)
    assert [entry.interval for entry in rest.entries] == left
    assert [each.interval for each in rest.revised if each.counts] == valid
    assert [at for at, _ in rest.once] == [at for at in (3, 7) if at < void_from]
    assert (rest.job, rest.version, rest.seq) == (FRAME.job, FRAME.version, FRAME.seq)


def test_a_void_revision_keeps_its_number_and_adds_nothing() -> None:
    first, second = FRAME.below(2).revised
    assert first == FRAME.revised[0]
    assert (second.interval, second.rev, second.seq) == (2, 2, 9)
    assert (second.counts, second.payloads, second.added) == ([], [], [0, 0])


@pytest.mark.parametrize(
    "frame", [FRAME, Released("shop/top", 4, 2), Forgotten("")], ids=lambda each: type(each).__name__
)
def test_a_frame_is_read_as_what_it_was_written(frame: Frame) -> None:
    data = msgspec.msgpack.encode(frame)
    again = msgspec.msgpack.decode(data, type=Frame)
    assert msgspec.msgpack.encode(again) == data
    assert type(again) is type(frame)


@pytest.mark.parametrize("frame", [FRAME, Released("shop/top", 4, 2)], ids=["sealed", "released"])
def test_a_frame_does_not_end_with_a_byte_that_was_never_written(frame: Frame) -> None:
    assert msgspec.msgpack.encode(frame)[-1] != 0
