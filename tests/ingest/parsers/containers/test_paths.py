"""The namespace, the pod and the container of a log, from its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.ingest.parsers.containers import container_of
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig

ID = "0123456789abcdef" * 4
UID = "8f5e3b1c-2c7b-4c7e-9f3a-0f8a1c2d3e4f"
CRI_LINES = (
    "2016-10-06T00:17:09.669794202Z stdout P the first part and\n"
    "2016-10-06T00:17:09.669794203Z stderr F something else\n"
    "2016-10-06T00:17:09.669794204Z stdout F  the last\n"
)


def named(namespace: str, pod: str, container: str) -> dict[str, str]:
    return {"namespace": namespace, "pod": pod, "container": container}


@pytest.mark.parametrize(
    ("path", "about"),
    [
        (f"/var/log/pods/shop_web-7d9-x2_{UID}/nginx/0.log", named("shop", "web-7d9-x2", "nginx")),
        (f"/var/log/pods/kube-system_etcd-node.a_{ID[:32]}/etcd/12.log.20260101-000000",
         named("kube-system", "etcd-node.a", "etcd")),
        (f"pods/shop_web_{UID}/side-car/0.log", named("shop", "web", "side-car")),
        (f"/var/log/containers/web-7d9-x2_shop_side-car-{ID}.log", named("shop", "web-7d9-x2", "side-car")),
        (f"/var/lib/docker/containers/{ID}/{ID}-json.log", {"container": ID}),
        (f"/var/lib/docker/containers/{ID}/{ID}-json.log.1", {"container": ID}),
        (f"/var/lib/docker/containers/{ID}/{ID[::-1]}-json.log", {}),
        (f"/var/log/containers/web_shop_nginx-{ID[:63]}.log", {}),
        ("/var/log/pods/shop_web/nginx/0.log", {}),
        (f"/var/log/pods/Shop_web_{UID}/nginx/0.log", {}),
        ("/var/log/app.log", {}),
        ("-", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_paths_of_kubernetes_and_docker_name_the_container(path: str, about: dict[str, str]) -> None:
    assert container_of(path) == about


def test_one_stream_over_many_files_has_the_container_of_each(tmp_path: Path) -> None:
    pods = {"shop_web_u1/nginx": 2, "shop_web_u1/php": 2, "ops_cron_u2/job": 2}
    for name in pods:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "0.log").write_text(CRI_LINES)
    config = StreamConfig(path=str(tmp_path / "*/*/*.log"), format="cri")
    form = format_of(config)
    assert form.static_schema is not None
    assert {"namespace", "pod", "container"} <= set(form.static_schema.names)
    reader = StreamReader(config.path, form)
    wanted = ("namespace", "pod", "container", "message")
    reader.add("job", wanted)
    rows = [row for each in reader.poll() for row in each.parsed.select(wanted).to_pylist()]
    reader.close()
    assert len(rows) == sum(pods.values())
    found = {(row["namespace"], row["pod"], row["container"]) for row in rows}
    assert found == {("shop", "web", "nginx"), ("shop", "web", "php"), ("ops", "cron", "job")}
    assert {row["message"] for row in rows} == {"the first part and the last", "something else"}


def test_other_paths_have_nulls(tmp_path: Path) -> None:
    parser = format_of(StreamConfig(path="-", format="cri")).parser("app.log")
    parsed = parser.parse(CRI_LINES.encode(), ("pod", "ts"))
    assert parsed.arrays["pod"].to_pylist() == [None, None]
