"""Image, compose file and chart: linted, rendered and validated, without a daemon or a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from elfmesh.agent.settings.config import config_of
from elfmesh.ql import parse_many
from tests.patience import PATIENCE_S

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKER, HELM = DEPLOY / "docker", DEPLOY / "helm"
BIN = Path(sys.executable).parent
FROM = "install the extra `deploy`"


def tool(name: str) -> str:
    found = shutil.which(name, path=str(BIN)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: {FROM}")
    return found


def yaml_of(text: str) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason=FROM)
    return [each for each in yaml.safe_load_all(text) if each]


def run(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def render(*words: str | Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("yaml", reason=FROM)
    done = run(sys.executable, HELM / "render.py", *words)
    if "neither helm nor go" in done.stderr or "no Sprig" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done


def test_hadolint_finds_nothing() -> None:
    done = run(tool("hadolint"), DOCKER / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_not_root_checks_its_health_and_keeps_no_compiler() -> None:
    stages = re.split(r"^FROM ", (DOCKER / "Dockerfile").read_text(), flags=re.M)
    last = stages[-1]
    assert last.splitlines()[0].endswith("AS agent")
    assert "gcc" not in last
    (user,) = re.findall(r"^USER (\d+):\d+$", last, re.M)
    assert int(user) > 0
    assert 'CMD ["elf", "health", "-q"]' in last


def test_what_the_build_copies_is_sent_to_it() -> None:
    sent = {
        line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"
    }
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (DOCKER / "Dockerfile").read_text(), re.M)
    assert sent == {name for words in copied for name in words.split()}
    assert all((DEPLOY.parent / name).exists() for name in sent)


def test_the_compose_file_is_one() -> None:
    done = run(
        tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DOCKER / "docker-compose.yml"
    )
    assert done.returncode == 0, done.stdout


def test_three_agents_are_locked_down_and_find_each_other() -> None:
    (compose,) = yaml_of((DOCKER / "docker-compose.yml").read_text())
    raw = tomllib.loads((DOCKER / "agent.toml").read_text())
    agents = [service for name, service in compose["services"].items() if name.startswith("agent-")]
    assert len(agents) == 3
    taken = set()
    for service in agents:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        given = service["environment"]
        notified = {key: given[f"ELF_AGENT_{key.upper()}"] for key in ("name", "listen", "api")}
        joins = [given["ELF_AGENT_JOIN"]] if "ELF_AGENT_JOIN" in given else []
        config_of({**raw, **notified, "join": joins}, "docker-compose.yml")
        taken |= {notified["listen"], notified["api"]}
        assert given.get("ELF_API", "127.0.0.1:7401") == notified["api"], "its health check asks itself"
        assert all(seed == agents[0]["environment"]["ELF_AGENT_LISTEN"] for seed in joins)
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            assert not source.startswith("./agent") or (DOCKER / source).is_file()
    assert len(taken) == 6
    (job,) = parse_many((DOCKER / "job.elfql").read_text())
    assert job.job is not None


def test_the_chart_renders_to_valid_manifests_and_a_valid_configuration(tmp_path: Path) -> None:
    more = tmp_path / "values.yaml"
    more.write_text(
        json.dumps(
            {
                "join": ["10.0.0.5:7400"],
                "labels": {"role": "web"},
                "tolerations": [{"operator": "Exists"}],
                "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
                "networkPolicy": {"apiFrom": [{"namespaceSelector": {}}]},
            }
        )
    )
    done = render("--values", more)
    assert done.returncode == 0, done.stderr
    manifests = {each["kind"]: each for each in yaml_of(done.stdout)}
    assert set(manifests) == {"ConfigMap", "DaemonSet", "NetworkPolicy", "Service", "ServiceMonitor"}
    known = tmp_path / "known.json"
    yaml = pytest.importorskip("yaml", reason=FROM)
    known.write_text(yaml.safe_dump_all([m for kind, m in manifests.items() if kind != "ServiceMonitor"]))
    checked = run(tool("kubernetes-validate"), "--strict", known)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    notified = tomllib.loads(manifests["ConfigMap"]["data"]["agent.toml"])
    assert notified["join"] == ["10.0.0.5:7400"]
    assert notified["labels"] == {"role": "web"}
    assert notified["streams"]["containers"]["path"].startswith("/var/log/pods/")
    pod = manifests["DaemonSet"]["spec"]["template"]["spec"]
    for container in (*pod["containers"], *pod["initContainers"]):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_a_manifest_that_is_wrong_does_not_pass(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(render().stdout.replace("minReadySeconds", "minReadySecond"))
    assert run(tool("kubernetes-validate"), "--strict", wrong).returncode != 0


@pytest.mark.parametrize(
    ("values", "where"),
    [({"apiPort": 80}, "apiPort"), ({"image": {"repo": "x"}}, "image"), ({"join": ["host"]}, "join.0")],
)
def test_wrong_values_are_refused_with_their_place(
    tmp_path: Path, values: dict[str, Any], where: str
) -> None:
    pytest.importorskip("yaml", reason=FROM)
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    done = run(sys.executable, HELM / "render.py", "--values", file)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{where}: ")


def test_the_plain_manifest_is_what_the_chart_renders_to() -> None:
    done = render()
    assert done.stdout == (HELM / "daemonset.yaml").read_text(), "run deploy/helm/render.py again"
