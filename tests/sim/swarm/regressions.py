"""Seeds that showed a bug of the product, by its name. They run in the suite for ever."""

from __future__ import annotations

REGRESSIONS: dict[int, str] = {
    0: "a job behind in a rotated file was united with one that had finished it: its records were lost",
    1: "blocks reached across what the frames had read before a restart: records were counted once more",
    2: "what was read and open when an agent died, and closed without it, was in no bucket",
    16: "what a failed sync had lost read well until the power went, and the state log then stood damaged",
    100: "late records that were counted in an open interval were forgotten by a restart",
}

OPEN: dict[int, str] = {
    30: "an agent begins a deleted job again after a stale word of it, and seals for nobody until it is told",
}
"""Seeds that fail, and why: the suite says when one of them does no longer."""
