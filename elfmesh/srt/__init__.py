"""Room: srt.

Shared reducer trees: joining, barrier, merging, multicast with acknowledgements (ELF 2.3, 3).
"""

from elfmesh.srt.coverage import bitmap_of, bits_of
from elfmesh.srt.events import (
    Answer,
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
    PartsDropped,
    Publish,
    PublishDone,
    Recollect,
    Recollecting,
    Release,
    Subscribe,
    TreeInfo,
    Unsubscribe,
)
from elfmesh.srt.forest import Forest
from elfmesh.srt.messages import FIRST, MESSAGES, Entry, Segment

__all__ = [
    "FIRST",
    "MESSAGES",
    "Answer",
    "Attached",
    "BecameRoot",
    "Collected",
    "Contribute",
    "Delivered",
    "Detached",
    "Entry",
    "Forest",
    "Hasten",
    "LostRoot",
    "MergeRequest",
    "Merged",
    "PartsDropped",
    "Publish",
    "PublishDone",
    "Recollect",
    "Recollecting",
    "Release",
    "Segment",
    "Subscribe",
    "TreeInfo",
    "Unsubscribe",
    "bitmap_of",
    "bits_of",
]
