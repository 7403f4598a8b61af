"""What `elf repair` does with a damaged data directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from elfmesh.agent.data_directory.examine import examine
from elfmesh.cli.host.check import check_command, repair_command
from tests.storage.rot.cases import (
    CUT,
    DAMAGES,
    LAST_BIT,
    OLDER,
    OTHER,
    SEGMENT,
    changes,
)
from tests.storage.rot.small import (
    ARCHIVE,
    AUDIT,
    DEATHS,
    FUNCTIONS,
    HEAD,
    KAFKA,
    REFUSED,
    open_archive,
)
from tests.storage.rot.station import (
    HOOK,
    LETTER,
    POSITIONS,
    record,
    start,
    started,
)


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


@pytest.mark.parametrize("damage", [DAMAGES[0], DAMAGES[1], "empty", "zeros"])
def test_repair_prints_its_steps_and_takes_them_only_with_yes(
    recorded: Path, tmp_path: Path, damage: str
) -> None:
    """The stream that did not start does, without the damaged lines; the file is kept as it was."""
    for _, root in damaged(recorded, tmp_path, POSITIONS, damage):
        path, data = root / POSITIONS, (root / POSITIONS).read_bytes()
        assert start(root, POSITIONS).outcome == "does not start"
        done = CliRunner().invoke(repair_command, [str(root)])
        assert done.exit_code == 1
        assert f"{path}: would " in done.stdout
        assert path.read_bytes() == data
        done = CliRunner().invoke(repair_command, [str(root), "--yes"])
        assert done.exit_code == 0, done.output
        assert path.with_name(path.name + ".damaged").read_bytes() == data
        assert CliRunner().invoke(check_command, [str(root)]).exit_code == 0
        with started(root) as stores:
            assert stores.spool.positions is not None


def test_repair_of_results_keeps_the_file_and_leaves_the_gap_to_the_agent(
    recorded: Path, tmp_path: Path
) -> None:
    for _, root in damaged(recorded, tmp_path, SEGMENT, DAMAGES[1]):
        data = (root / SEGMENT).read_bytes()
        done = CliRunner().invoke(repair_command, [str(root), "--yes"])
        assert done.exit_code == 0, done.output
        kept = (root / SEGMENT).with_name("+0000000000000000000.seg.damaged")
        assert not kept.exists() or kept.read_bytes() == data
        findings = examine(root)
        assert [each.what for each in findings] == [
            "the results end with interval 6, and this agent voted on 7"
        ]
        with started(root) as stores:
            (log,) = stores.results.found()
            assert log.latest == 6


@pytest.mark.parametrize("name", [KAFKA, ARCHIVE, FUNCTIONS, AUDIT, HEAD, HOOK, DEATHS, REFUSED])
def test_repair_moves_a_small_file_aside_and_the_agent_starts(
    recorded: Path, tmp_path: Path, name: str
) -> None:
    for _, root in damaged(recorded, tmp_path, name, LAST_BIT):
        data = (root / name).read_bytes()
        done = CliRunner().invoke(repair_command, [str(root), "--yes"])
        assert done.exit_code == 0, done.output
        kept = f"{Path(name).parent}.damaged/{Path(name).name}" if name == ARCHIVE else f"{name}.damaged"
        assert (root / kept).read_bytes() == data
        assert CliRunner().invoke(check_command, [str(root)]).exit_code == 0
        if name == ARCHIVE:
            open_archive(root).close()
        elif name in (AUDIT, HEAD):
            assert start(root, name).refused == ""


def test_a_damaged_audit_log_is_not_cut(recorded: Path, tmp_path: Path) -> None:
    ((_, root),) = damaged(recorded, tmp_path, AUDIT, CUT)
    data = (root / AUDIT).read_bytes()
    assert start(root, AUDIT).outcome == "does not start"
    assert (root / AUDIT).read_bytes() == data


def test_repair_moves_an_unreadable_dead_letter_aside(recorded: Path, tmp_path: Path) -> None:
    ((_, root),) = damaged(recorded, tmp_path, LETTER, "zeros")
    done = CliRunner().invoke(repair_command, [str(root), "--yes"])
    assert done.exit_code == 0
    assert not (root / LETTER).exists()
    assert (root / f"{LETTER}.damaged").exists()
    assert CliRunner().invoke(check_command, [str(root)]).exit_code == 0
