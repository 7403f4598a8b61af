"""Damage to each file of a data directory: what the agent does, what `elf check` and `elf repair` do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from elfmesh.agent.data_directory.examine import examine
from elfmesh.cli.host.check import check_command, repair_command
from elfmesh.storage.results.page_files import PageFiles
from tests.reliability import PAGE
from tests.storage.rot.cases import (
    CASES,
    DAMAGES,
    META,
    OLDER,
    OTHER,
    SEGMENT,
    Case,
    changes,
)
from tests.storage.rot.small import (
    AUDIT,
    SMALL,
)
from tests.storage.rot.station import (
    HOOK,
    LETTER,
    POSITIONS,
    RESULTS,
    SAVEPOINT,
    record,
    start,
)
from tests.storage.rot.table import page

ROWS = [(case, damage) for case in CASES for damage in case.damages]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent's directory, what it was before its last start, and another agent's."""
    root = tmp_path_factory.mktemp("rot")
    record(root / "own", root / "older")
    record(root / "other", first=20)
    return root


def damaged(recorded: Path, tmp_path: Path, file: str, damage: str) -> list[tuple[str, Path]]:
    """A directory for each way in which the damage is done."""
    found = []
    for number, (label, change) in enumerate(changes(file, damage)):
        root = tmp_path / str(number)
        shutil.copytree(recorded / "own", root)
        data = (root / file).read_bytes()
        if damage == OTHER:
            name = file.replace("+0000000000000000000", "+0000000000000000020")
            data = (recorded / "other" / name).read_bytes()
        elif damage == OLDER:
            data = (recorded / "older" / file).read_bytes()
        (root / file).write_bytes(change(data))
        found.append((label, root))
    return found


@pytest.mark.parametrize(("case", "damage"), ROWS, ids=[f"{case.file[-14:]}-{what}" for case, what in ROWS])
def test_a_damaged_file_has_the_outcome_in_the_matrix(
    recorded: Path, tmp_path: Path, case: Case, damage: str
) -> None:
    for label, root in damaged(recorded, tmp_path, case.file, damage):
        findings = examine(root)
        found = start(root, case.file)
        assert found.outcome == case.outcome, label
        reported = [
            line
            for line in (found.errors + found.refused).splitlines()
            if str(root) in line or case.file in line
        ]
        assert bool(reported) == case.error, (label, found)
        assert bool(findings) == case.found, (label, findings)
        assert all(str(each.path).startswith(str(root)) for each in findings)


def test_the_matrix_has_every_damage_of_every_file() -> None:
    assert {(case.file, damage) for case, damage in ROWS} == {
        (file, damage)
        for file in (
            "id",
            "state.log",
            "frames.log",
            SEGMENT,
            META,
            LETTER,
            POSITIONS,
            HOOK,
            SAVEPOINT,
            *SMALL,
        )
        for damage in DAMAGES
    }
    assert len(ROWS) == len(set(ROWS))


def test_the_page_shows_what_is_tested() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "run python -m tests.storage.rot.table"


def test_a_directory_without_damage_is_clean_and_stays_as_it_is(recorded: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(recorded / "own", root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    done = CliRunner().invoke(check_command, [str(root)])
    assert (done.exit_code, done.stdout) == (0, "")
    done = CliRunner().invoke(repair_command, [str(root), "--yes"])
    assert done.exit_code == 0
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_check_writes_no_log_line_of_an_agent(
    recorded: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for file in ("state.log", "frames.log", "audit.log", SEGMENT, META):
        ((_, root), *_) = damaged(recorded, tmp_path / Path(file).name, file, DAMAGES[0])
        caplog.clear()
        assert examine(root)
        assert caplog.records == [], file


def test_check_finds_a_page_of_rows_that_differs_from_the_digest_in_its_name(
    recorded: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(recorded / "own", root)
    pages = PageFiles(root / RESULTS)
    pages.keep(7, b"rows")
    assert examine(root) == []
    (path,) = (root / RESULTS / "pages").glob(f"{7:+020d}-*")
    path.write_bytes(b"rowS")
    assert [each.path for each in examine(root)] == [path]


def test_check_takes_what_a_crash_has_left_of_an_audit_log_for_no_damage(
    recorded: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(recorded / "own", root)
    with (root / AUDIT).open("ab") as file:
        file.write(b'{"seq":9,"at"')
    assert examine(root) == []
    shutil.copy(recorded / "own" / AUDIT, root / AUDIT)
    shutil.copy(root / AUDIT, root / f"{AUDIT}.1")  # rotated, and not yet cut
    assert examine(root) == []
