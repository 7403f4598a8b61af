"""The example package of plug-ins: its wheel is built and installed; commands and agents use all three."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elfmesh.errors import RuntimeFailure
from elfmesh.spark_bridge import require_java, require_pyspark
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.plugins.packages import installed

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
JOB = """CREATE JOB plug.vowels AS SELECT path, sum(vowels(path)) AS v, max(ms) AS ms FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), path ORDER BY path"""
LINES = [
    f"2015-05-17T10:00:{second:02}Z | GET | /{path} | {second}"
    for second in range(5)
    for path in ("ae", "xy")
]
LAST = "2015-05-17T11:00:00Z | GET | /end | 1"


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", *words, "--no-index", "--no-deps", "--disable-pip-version-check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the example, installed from its wheel, and with a package of a later release."""
    root = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, root / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    pip("wheel", "-q", "--no-build-isolation", "-w", str(root / "dist"), str(root / "source"))
    (wheel,) = (root / "dist").glob("elf_example-1.0-*.whl")
    pip("install", "-q", "--target", str(root / "site"), str(wheel))
    text = "class Later:\n    api_version = 2\n"
    installed(root / "site", "laterp", text, functions={"later": "laterp:Later"})
    return root / "site"


def ran(packages: Path | None, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(packages or ""), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "elfmesh.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_command_reads_the_format_and_calls_the_function(packages: Path, tmp_path: Path) -> None:
    log = tmp_path / "bars.log"
    log.write_text("\n".join([*LINES, "not of the format"]) + "\n")
    query = "SELECT path, sum(vowels(path)) AS v, max(ms) AS ms FROM log GROUP BY path ORDER BY path"
    found = ran(packages, "run", query, str(log), "--format", "bars", "-o", "json")
    assert found.returncode == 0, found.stderr
    record = json.loads(found.stdout)
    assert record["rows"] == [{"path": "/ae", "v": 10, "ms": 4}, {"path": "/xy", "v": 0, "ms": 4}]
    assert record["counts"]["parse_error"] == 1
    without = ran(None, "run", query, str(log), "--format", "json")
    assert "unknown function vowels" in without.stderr
    without = ran(None, "run", "SELECT 1 AS x FROM log", str(log), "--format", "bars")
    assert "unknown format 'bars'" in without.stderr


@pytest.mark.spark
def test_spark_reads_the_format_and_calls_the_function_on_its_executors(
    packages: Path, tmp_path: Path
) -> None:
    try:
        require_pyspark()
        require_java()
    except RuntimeFailure as missing:
        pytest.skip(str(missing))
    log = tmp_path / "bars.log"
    log.write_text("\n".join(LINES) + "\n")
    query = "SELECT path, sum(vowels(path)) AS v, max(ms) AS ms FROM log GROUP BY path ORDER BY path"
    stream = f"log={log},format=bars"
    found = ran(packages, "spark", "run", query, "--stream", stream, "-o", "json")
    assert found.returncode == 0, found.stderr
    expected = ran(packages, "run", query, str(log), "--format", "bars", "-o", "json")
    rows = json.loads(found.stdout)["rows"]
    assert (
        rows
        == json.loads(expected.stdout)["rows"]
        == [
            {"path": "/ae", "v": 10, "ms": 4},
            {"path": "/xy", "v": 0, "ms": 4},
        ]
    )
    assert found.stderr == ""
    without = ran(None, "spark", "run", query, "--stream", f"log={log},format=json")
    assert "unknown function vowels" in without.stderr


def agent_with(packages: Path, root: Path, sinks: Path) -> Agent:
    directory = root / "agent-0"
    directory.mkdir()
    log = directory / "log.log"
    log.touch()
    config = root / "agent.toml"
    config.write_text(f"""
[sinks.copies]
type = "plugin"
plugin = "lines"
jobs = ["plug/*"]
options = {{ path = "{sinks}" }}
""")
    agent = Agent(directory, 0, [f"log={log},format=bars"], ["-c", str(config)])
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH", ""))))
    agent.environment = {"PYTHONPATH": path}
    return agent


def kept(sinks: Path) -> list[dict[str, object]]:
    lines = [line for file in sinks.glob("plug.vowels-*.ndjson") for line in file.read_text().splitlines()]
    return [record for line in lines for record in json.loads(line)["records"]]


def test_an_agent_uses_all_three_and_another_one_without_them_refuses_the_job(
    packages: Path, tmp_path: Path
) -> None:
    sinks = tmp_path / "copies"
    with Fleet(tmp_path) as fleet:
        agent = agent_with(packages, tmp_path, sinks)
        fleet.agents.append(agent)
        agent.start()
        agent.wait_ready()
        agent.apply(JOB)
        with fleet.log(0).open("a") as file:
            file.write("\n".join([*LINES, LAST]) + "\n")
        results = eventually(lambda: (found := agent.results("plug/vowels"))[4:] and found, what="results")
        assert results[2]["rows"] == [{"path": "/ae", "v": 2, "ms": 2}, {"path": "/xy", "v": 0, "ms": 2}]
        copies = eventually(lambda: (found := kept(sinks))[4:] and found, what="the copies")
        assert [each["rows"] for each in copies[:5]] == [each["rows"] for each in results[:5]]

        warning = "the plug-in later (function) of laterp 1.0 is not used: it is for api_version 2"
        assert warning in agent.errors()
        listed = ran(None, "get", "plugins", "-o", "json", "--api", str(agent.api))
        *usable, later = [json.loads(line) for line in listed.stdout.splitlines()]
        about = {"agent": agent.name, "package": "elf-example", "version": "1.0", "problem": None}
        assert usable == [
            about | {"kind": kind, "plugin": name}
            for kind, name in (("format", "bars"), ("function", "vowels"), ("sink", "lines"))
        ], listed
        assert (later["plugin"], later["problem"]) == (
            "later",
            "not used: it is for api_version 2, and this release has 1",
        )

        fleet.start(1)
        text = JOB.replace("plug.vowels", "plug.again").replace("sum(", "max(")
        with pytest.raises(AssertionError, match="unknown function vowels") as caught:
            agent.apply(text)
        assert fleet[1].name in str(caught.value)


def test_an_agent_refuses_a_sink_that_is_not_installed(packages: Path, tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(
        '[sinks.x]\ntype = "plugin"\nplugin = "lines"\njobs = ["*"]\noptions = { path = "relative" }\n'
    )
    found = ran(None, "agent", "-c", str(config), "--data-dir", str(tmp_path / "data"))
    assert found.returncode == 78
    assert "no sink 'lines' is installed" in found.stderr
    found = ran(packages, "agent", "-c", str(config), "--data-dir", str(tmp_path / "data"))
    assert found.returncode == 78
    assert 'refuses its options: it takes one option, an absolute path = "/..."' in found.stderr
    assert "Traceback" not in found.stderr
