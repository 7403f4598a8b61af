"""Seeds that once showed a bug of the product, by its name. They run in the suite for ever."""

from __future__ import annotations

REGRESSIONS: dict[int, str] = {
    100: "late records that were counted in an open interval were forgotten by a restart",
}
