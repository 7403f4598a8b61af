from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.cli.demo.traffic import ShopTraffic, write_bulk
from elfmesh.local.embedded import answers
from elfmesh.ql import parse_many
from tests.tooling.shared_data import DATA

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.elfql"))
APACHE = DATA / "access_logs/apache_logs"


CAMPAIGNS = """
{"ts": 1, "campaign": "c1", "id": "a", "event": "click"}
{"ts": 2, "campaign": "c1", "id": "b", "event": "click"}
{"ts": 3, "campaign": "c1", "event": "campaign_end", "server": "s1", "servers": 2, "total": 1}
{"ts": 4, "campaign": "c1", "event": "campaign_end", "server": "s2", "servers": 2, "total": 1}
"""


def test_there_are_examples() -> None:
    assert {path.parent.name for path in EXAMPLES} == {"shop", "access", "coordination"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_an_example_is_one_statement_with_a_line_of_explanation_and_gives_rows(
    path: Path, tmp_path: Path
) -> None:
    text = path.read_text()
    assert text.startswith("-- ")
    assert len(parse_many(text)) == 1
    log, format = APACHE, "combined"
    if path.parent.name == "shop":
        log, format = tmp_path / "clicks.ndjson", "json"
        write_bulk(log, 5_000, ShopTraffic(), start_us=1_767_225_600_000_000, rate_per_s=50)
    elif path.parent.name == "coordination":
        log, format = tmp_path / "clicks.ndjson", "json"
        log.write_text(CAMPAIGNS)
    elif not log.exists():
        pytest.skip("needs the shared access logs")
    results = answers(text, str(log), format=format)
    assert sum(result.table.num_rows for result in results) > 0
