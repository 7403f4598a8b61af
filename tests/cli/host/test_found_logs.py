"""Logs of a host: formats, groups, names, and what is not read."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest

from elfmesh.cli.host import found_logs
from elfmesh.cli.host.found_logs import FoundStream, find_logs

ACCESS = '10.0.0.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 23 "-" "curl"\n'
SYSLOG = "Nov 28 01:02:03 web1 sshd[12]: Accepted publickey\n"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_log", ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_each_log_that_is_recognised_is_a_stream(tmp_path: Path) -> None:
    write(tmp_path, nginx__access_log=ACCESS, syslog=SYSLOG, app__a_log='{"a": 1}\n', notes="x\n")
    assert find_logs([tmp_path]).streams == [
        FoundStream("app_a", f"{tmp_path}/app/a.log", "json", 1),
        FoundStream("nginx_access", f"{tmp_path}/nginx/access.log", "combined", 1),
        FoundStream(f"{tmp_path.name}_syslog".lstrip("_"), f"{tmp_path}/syslog", "syslog", 1),
    ]


def test_many_files_of_one_format_are_one_stream(tmp_path: Path) -> None:
    write(tmp_path, **{f"pods__p{number}_log": '{"a": 1}\n' for number in range(5)})
    write(tmp_path, pods__empty_log="", pods__other=SYSLOG)
    assert find_logs([tmp_path]).streams == [
        FoundStream(f"{tmp_path.name}_pods", f"{tmp_path}/pods/*.log", "json", 5),
    ]


@pytest.mark.parametrize("other", [SYSLOG, "no format\n"])
def test_no_pattern_reads_a_file_of_another_format(tmp_path: Path, other: str) -> None:
    write(tmp_path, **{f"pods__p{number}_log": '{"a": 1}\n' for number in range(5)}, pods__other_log=other)
    found = find_logs([tmp_path]).streams
    assert [each.path for each in found if each.format == "json"] == [
        f"{tmp_path}/pods/p{number}.log" for number in range(5)
    ]


def test_names_without_an_ending_have_no_pattern(tmp_path: Path) -> None:
    write(tmp_path, **dict.fromkeys(("syslog", "messages", "secure", "cron"), SYSLOG), wtmp="\0\1")
    found = find_logs([tmp_path]).streams
    assert [Path(each.path).name for each in found] == ["cron", "messages", "secure", "syslog"]


def test_what_is_left_out_has_a_reason(tmp_path: Path) -> None:
    write(tmp_path, a_log="??\n", b_log="", access_log="")
    (tmp_path / "c.log").write_bytes(gzip.compress(ACCESS.encode()))
    (tmp_path / "[d].log").write_text(ACCESS)
    (tmp_path / os.fsdecode(b"\xff.log")).write_text(ACCESS)
    (tmp_path / "gone.log").symlink_to("/nosuch")
    found = find_logs([tmp_path])
    assert [(each.path, each.format) for each in found.streams] == [(f"{tmp_path}/access.log", "combined")]
    assert {Path(path).name: why for path, why in found.unclear} == {
        "a.log": "its format is not recognised",
        "b.log": "it is empty",
        "c.log": "its format is not recognised",
        "[d].log": "its name has characters of patterns",
        "\\udcff.log": "its name is not UTF-8",
    }


def test_what_may_not_be_read_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a_log=ACCESS, closed__b_log=ACCESS)
    (tmp_path / "a.log").chmod(0o640)
    access, scandir = os.access, os.scandir

    def refused(path: Path) -> os._ScandirIterator[str]:
        if path.name == "closed":
            raise PermissionError
        return scandir(str(path))

    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "a.log" and access(path, mode))
    monkeypatch.setattr(os, "scandir", refused)
    found = find_logs([tmp_path])
    assert [path for path, _ in found.closed] == [f"{tmp_path}/a.log", f"{tmp_path}/closed/"]
    assert found.closed[0][1].endswith(" 0640")
    assert found.streams == []


def test_a_file_is_found_once_and_the_search_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a_log=ACCESS, b_log=ACCESS, c_log=ACCESS)
    (tmp_path / "link.log").symlink_to(tmp_path / "a.log")
    (tmp_path / "self").symlink_to(tmp_path)
    assert len(find_logs([tmp_path, tmp_path / "a.log"]).streams) == 3
    monkeypatch.setattr(found_logs, "FILES_MAX", 2)
    found = find_logs([tmp_path])
    assert len(found.streams) == 2
    assert "the search ends at 2" in found.unclear[0][1]


def test_names_are_unique_and_a_named_file_needs_no_ending(tmp_path: Path) -> None:
    write(tmp_path, x__a="?", **{"x__a-b_log": ACCESS, "x__a.b_log": ACCESS, "y__9": ACCESS})
    found = find_logs([tmp_path / "x", tmp_path / "y/9"])
    assert [each.name for each in found.streams] == ["x_a_b", "x_a_b_2", "y_9"]


def test_a_socket_is_no_log(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.log"))
        assert find_logs([tmp_path / "s.log"]).unclear == [(f"{tmp_path}/s.log", "it is not a regular file")]
