"""Room: srt.

Shared reducer trees: joining, barrier, merging, multicast with acknowledgements (ELF 2.3, 3). The epoch of a
tree is the roster epoch of its job.
"""

from elfmesh.srt.coverage import bitmap_of, bits_of
from elfmesh.srt.events import (
    Attached,
    BecameRoot,
    Collected,
    Contribute,
    Delivered,
    Detached,
    Hasten,
    LostRoot,
    Merged,
    MergeRequest,
    MulticastAnswer,
    PartsDropped,
    Publish,
    PublishDone,
    Recollect,
    Recollecting,
    Release,
    Retire,
    Subscribe,
    TreeInfo,
    Unsubscribe,
)
from elfmesh.srt.forest import Forest
from elfmesh.srt.messages import FIRST, MESSAGES, Segment, SegmentEntry

__all__ = [
    "FIRST",
    "MESSAGES",
    "Attached",
    "BecameRoot",
    "Collected",
    "Contribute",
    "Delivered",
    "Detached",
    "Forest",
    "Hasten",
    "LostRoot",
    "MergeRequest",
    "Merged",
    "MulticastAnswer",
    "PartsDropped",
    "Publish",
    "PublishDone",
    "Recollect",
    "Recollecting",
    "Release",
    "Retire",
    "Segment",
    "SegmentEntry",
    "Subscribe",
    "TreeInfo",
    "Unsubscribe",
    "bitmap_of",
    "bits_of",
]
