"""Compares the labels of an analysis with those of an earlier one, as `elf blazes -o json` has printed it.

The earlier output is a file of the user: every mistake in it is a DataError with its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from elfmesh.control.coordination.labels import LABELS, Severity
from elfmesh.errors import DataError

Cases = tuple[Severity, Severity]
"""Label of an output, and its label where the conditions of the first one do not hold."""
Labels = Mapping[tuple[str, str], Cases]
"""By variant and output."""


def read_baseline(text: str, file: str) -> Labels:
    """Return the labels of an earlier analysis: one JSON object in each line.

    Raises:
        DataError: the text is not the output of `elf blazes -o json`.
    """
    found: dict[tuple[str, str], Cases] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found |= labels_of(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise DataError(
                "not an output of `elf blazes -o json`", where=f"{file}:{number}",
                hint="Write one: elf blazes PATH... -o json > FILE",
            ) from None  # fmt: skip
    return found


def labels_of(values: Mapping[str, Any]) -> Labels:
    """Return the labels of the final outputs in the plain values of an analysis."""
    found: dict[tuple[str, str], Cases] = {}
    for each in values["outputs"]:
        label = LABELS[each["label"]]
        if not each["provisional"]:
            second = label if each["otherwise"] is None else LABELS[each["otherwise"]]
            found[str(values.get("variant", "")), str(each["name"])] = (label, second)
    return found


def worse(before: Labels, now: Labels) -> Iterator[str]:
    """Yield a line for each output of both analyses whose label has become higher, in one of its cases."""
    for (variant, name), cases in now.items():
        old = before.get((variant, name), cases)
        if any(new > was for was, new in zip(old, cases, strict=True)):
            within = f" (variant {variant})" if variant else ""
            yield f"{name}{within} was {_shown(old)} and is {_shown(cases)}"


def _shown(cases: Cases) -> str:
    return " | ".join(dict.fromkeys(map(str, cases)))
