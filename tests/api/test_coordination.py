"""The public API: `from elfmesh import coordination`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elfmesh import coordination
from elfmesh.errors import UsageError
from tests.control.coordination.papers import AD_NETWORK


def test_files_become_labels(tmp_path: Path) -> None:
    file = tmp_path / "ads.yaml"
    file.write_text(AD_NETWORK)
    found = coordination.analyse(coordination.load(str(file), variants={"Report": "POOR"}))
    assert found.label("response") is coordination.severity("Diverge")
    assert [each.rule for each in found.why("response")].count("1") == 1
    assert coordination.repairs(found, "response")[0].label is coordination.Severity.ASYNC
    with pytest.raises(UsageError, match="has variants"):
        coordination.load(str(file))
    assert list(coordination.load_all(str(file))) == ["POOR", "THRESH", "WINDOW", "CAMPAIGN"]


def test_a_label_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="no label 'Bad'"):
        coordination.severity("Bad")
    with pytest.raises(UsageError, match="no file"):
        coordination.load()


def test_the_import_is_lazy_and_reads_no_yaml() -> None:
    script = (
        "import sys, elfmesh; before = 'elfmesh.control.coordination' in sys.modules; "
        "from elfmesh import coordination; print(before, 'yaml' in sys.modules, coordination.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "elfmesh.api.coordination"]
