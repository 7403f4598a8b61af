"""The function `vowels(text)`: how many of the letters a, e, i, o and u a text has."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class Vowels:
    """Counts letters; its result depends on its argument alone, so its label is CR."""

    api_version = 1
    takes = ("STRING",)
    gives = "BIGINT"
    label = "CR"

    def __call__(self, texts: pa.Array) -> pa.Array:
        """Return one count per row; null for null."""
        return pc.count_substring_regex(texts, "[aeiou]", ignore_case=True)
