"""The examples of programs, each run by its one command, and compared with a plain computation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.apart

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"


def play(name: str, directory: Path) -> list[dict[str, Any]]:
    """Run an example; what it printed. Nothing that it started is left."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--directory", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert left_over(str(directory)) == []
    return [json.loads(line) for line in done.stdout.splitlines()]


def left_over(directory: str) -> list[str]:
    """Processes that name a directory on their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if directory in command and path.parent.name != str(os.getpid()):
            found.append(command)
    return found


def test_wordcount(tmp_path: Path) -> None:
    directory = tmp_path / "played"
    printed = play("wordcount", directory)
    expected = Counter(" ".join(path.read_text() for path in directory.glob("host*.txt")).split())
    assert {row["word"]: row["count"] for row in printed} == expected
    assert sum(expected.values()) == 6000
    assert [row["count"] for row in printed] == sorted(expected.values(), reverse=True)


def shop(directory: Path) -> list[dict[str, Any]]:
    """What was done with games in the shop, all hosts."""
    lines = [line for log in directory.glob("web*.ndjson") for line in log.read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    assert len(records) == 3 * 1800
    return [record for record in records if record["directory"] == "Video Games"]


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def tops(directory: Path) -> dict[float, list[dict[str, Any]]]:
    """The ten most clicked games of every 300 s, by when these begin."""
    clicks: dict[float, Counter[str]] = defaultdict(Counter)
    for record in shop(directory):
        if record["user"]["location"] != "test":
            clicks[seconds(record["ts"]) // 300 * 300][record["product"]] += record["clicks_count"]
    found = {}
    for start, counter in clicks.items():
        ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:10]
        found[start] = [{"product": name, "clicks": number} for name, number in ordered if number > 1]
    return found


def check_promotion(printed: list[dict[str, Any]], directory: Path) -> None:
    """Every batch is right, and every host shows, and has inserted once, the coupons of what it sells."""
    expected = tops(directory)
    batches = {row["batch"]: row for row in printed if "top" in row}
    assert {seconds(row["start"]): row["top"] for row in batches.values()} == expected
    discounts = {
        number: {row["product"]: max(10, 30 - 10 * place) for place, row in enumerate(batch["top"])}
        for number, batch in batches.items()
    }
    shown: dict[str, Counter[tuple[str, str, int]]] = defaultdict(Counter)
    for row in printed:
        if "coupons" in row:
            wanted = discounts[row["batch"]]
            assert row["coupons"].items() <= wanted.items()
            for product, discount in row["coupons"].items():
                shown[row["host"]][batches[row["batch"]]["start"], product, discount] += 1
    assert sorted(shown) == ["web0", "web1", "web2"]
    assert sum(map(len, shown.values())) < 3 * sum(map(len, discounts.values())), "no host sells everything"
    for host, coupons in shown.items():
        lines = (directory / host / "spool" / "coupons" / "spool.log").read_text().splitlines()
        inserted = Counter(
            (record["ts"], record["product"], record["discount"]) for record in map(json.loads, lines)
        )
        assert inserted == coupons
        assert set(inserted.values()) == {1}


def bundles(directory: Path, start: float, end: float) -> list[list[str]]:
    """Games that hang together by the users who liked or bought them between two times."""
    near: dict[str, set[str]] = defaultdict(set)
    for record in shop(directory):
        if start <= seconds(record["ts"]) < end and record["likes_count"] + record["buys_count"] > 0:
            user, product = f"user {record['user']['id']}", f"product {record['product']}"
            near[user].add(product)
            near[product].add(user)
    found, left = [], set(near)
    while left:
        reached, border = set[str](), [left.pop()]
        while border:
            name = border.pop()
            reached.add(name)
            border += near[name] - reached
        left -= reached
        found.append(sorted(name.removeprefix("product ") for name in reached if name.startswith("product")))
    return sorted(bundle for bundle in found if len(bundle) > 1)


def check_bundling(printed: list[dict[str, Any]], directory: Path) -> None:
    windows = {tuple(map(seconds, row["window"])): row for row in printed if "window" in row}
    first = min(start for start, _ in windows)
    assert sorted(windows) == [(first + 300 * number, first + 300 * number + 600) for number in range(4)]
    for (start, end), row in windows.items():
        assert row["bundles"] == bundles(directory, start, end)
        assert row["bundles"]
        assert row["epochs"] > 1, "one look at the edges would not do"


@pytest.mark.exhaustive  # `sale_prediction` asks this one and the next
def test_micro_promotion(tmp_path: Path) -> None:
    directory = tmp_path / "played"
    check_promotion(play("micro_promotion", directory), directory)


@pytest.mark.exhaustive
def test_product_bundling(tmp_path: Path) -> None:
    directory = tmp_path / "played"
    check_bundling(play("product_bundling", directory), directory)


def test_sale_prediction_asks_the_other_two(tmp_path: Path) -> None:
    directory = tmp_path / "played"
    printed = play("sale_prediction", directory)
    check_promotion(printed, directory)
    check_bundling(printed, directory)
    last = max(seconds(row["window"][1]) for row in printed if "window" in row)
    newest = bundles(directory, last - 600, last)
    expected_tops = tops(directory)
    popular = {row["product"]: row["clicks"] for row in expected_tops[max(expected_tops)]}
    predictions = [row["prediction"] for row in printed if "prediction" in row]
    assert len(predictions) == 3
    for prediction in predictions:
        product = prediction["product"]
        peers = next((bundle for bundle in newest if product in bundle), [product])
        assert prediction["peers"] == len(peers)
        assert prediction["popular"] == {peer: popular[peer] for peer in peers if peer in popular}
        assert prediction["score"] == round(len(prediction["popular"]) / len(peers), 3)


def test_social_spam_is_found_and_looked_at_closely(tmp_path: Path) -> None:
    directory = tmp_path / "played"
    printed = play("social_spam", directory)
    posts = [json.loads(line) for log in directory.glob("*.ndjson") for line in log.read_text().splitlines()]
    (found,) = [row for row in printed if "suspect" in row]
    assert found["suspect"] == "buy_now"
    compared = Counter[int]()
    for row in printed:
        if "rows" not in row or row["late"] or not row["complete"]:
            continue
        start, end = map(seconds, row["interval"])
        field = "name" if row["version"] == 1 else "place"
        counts = Counter(
            post[field]
            for post in posts
            if start <= seconds(post["ts"]) < end and (row["version"] == 1 or post["name"] == "buy_now")
        )
        top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
        assert row["rows"] == [{"what": what, "posts": number} for what, number in top]
        assert (row["version"] == 1) == (int(start) < found["from"]), "from one interval on, for all"
        compared[row["version"]] += 1
    assert set(compared) == {1, 2}
