"""Plots of a report as SVG: ELF's Figure 11 (throughput and memory over unique keys) from `cbt`'s ladder.

Needs matplotlib (benchmarks/requirements.txt); without it the caller is told, and nothing is drawn.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness import Report

COLOURS = {
    "elfmesh": "#d1495b", "dict": "#8d96a3", "pyarrow": "#00798c", "sparsehash": "#edae49", "absl": "#30638e",
}  # fmt: skip
OURS = "elfmesh"
LADDER = "ladder, "
LABEL_POINTS = 12
"""Least distance of two names."""

SVG_SALT = "elfmesh"
"""Makes the ids in a drawing the same each time."""


def draw(report: Report, directory: Path) -> list[str]:
    """Draw what the report has figures for; says what was drawn, or why not."""
    points = _points(report)
    if not points:
        return [f"{report.benchmark} has no figures that are drawn"]
    if importlib.util.find_spec("matplotlib") is None:
        return ["no plots: matplotlib is not installed (pip install -r benchmarks/requirements.txt)"]
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"], mpl.rcParams["svg.fonttype"] = SVG_SALT, "none"
    directory.mkdir(parents=True, exist_ok=True)
    note = f"{report.machine} · one core · {report.commit}"
    out = []
    for unit, title, name in (
        ("M tuples/s", "Grouping 20 M tuples: throughput", "figure11-throughput.svg"),
        ("MB", "Grouping 20 M tuples: memory held", "figure11-memory.svg"),
    ):
        _chart(points[unit], title, unit, note, directory / name)
        out.append(f"drew {directory / name}")
    return out


def _points(report: Report) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """unit -> contestant -> (keys, value)."""
    points: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for figure in report.figures:
        if figure.name.startswith(LADDER) and not figure.skipped:
            keys, rest = figure.name.removeprefix(LADDER).split(": ")
            contestant = rest.split(", ")[0]
            points.setdefault(figure.unit, {}).setdefault(contestant, []).append((int(keys), figure.value))
    return points


def _chart(lines: dict[str, list[tuple[int, float]]], title: str, unit: str, note: str, path: Path) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    figure, axes = plt.subplots(figsize=(7.2, 4.4))
    for name, values in lines.items():
        keys, heights = zip(*sorted(values), strict=True)
        width = 2.6 if name == OURS else 1.4
        axes.plot(keys, heights, marker="o", markersize=4, linewidth=width, color=COLOURS[name])
    axes.set(xscale="log", yscale="log", xlabel="unique keys", ylabel=unit, title=title)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.03)
    figure.subplots_adjust(left=0.11, right=0.86, top=0.91, bottom=0.17)
    _name_lines(axes, {name: max(values) for name, values in lines.items()})
    figure.text(0.11, 0.02, note, fontsize=7, color="#666666")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _name_lines(axes: Any, ends: dict[str, tuple[int, float]]) -> None:
    """Write each line's name at its right end, far enough from its neighbours to be read."""
    pixels_per_point = axes.figure.dpi / 72
    lowest = float("-inf")
    for name, end in sorted(ends.items(), key=lambda item: item[1][1]):
        height = axes.transData.transform(end)[1] / pixels_per_point
        place = max(height, lowest + LABEL_POINTS)
        lowest = place
        axes.annotate(
            name, end, xytext=(8, place - height), textcoords="offset points", va="center",
            color=COLOURS[name], fontweight="bold" if name == OURS else "normal", fontsize=9,
        )  # fmt: skip


def _short(value: float, _place: Any = None) -> str:
    for factor, letter in ((1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{value / factor:g}{letter}"
    return f"{value:g}"


def main(report: str, directory: str) -> int:
    """`python -m benchmarks.plots REPORT.json DIR`: draw a report that was saved with --json."""
    for line in draw(msgspec.json.decode(Path(report).read_bytes(), type=Report), Path(directory)):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
