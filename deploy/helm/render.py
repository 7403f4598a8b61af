"""The chart as plain manifests: `python deploy/helm/render.py > deploy/helm/daemonset.yaml`.

By `helm template` where helm is; else by render/main.go, which needs Go and Sprig (on Debian: golang-go and
golang-github-masterminds-sprig-dev). Values are checked by values.schema.json first.

    python deploy/helm/render.py [--release NAME] [--namespace NS] [--values FILE]... [--no-helm]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import yaml

HERE = Path(__file__).parent
CHART = HERE / "elfmesh"
GOPATH = "/usr/share/gocode"


def main() -> None:
    """Render to stdout."""
    parser = argparse.ArgumentParser(description="Render the chart.")
    parser.add_argument("--release", default="elfmesh")
    parser.add_argument("--namespace", default="elfmesh")
    parser.add_argument("--values", type=Path, action="append", default=[])
    parser.add_argument("--no-helm", action="store_true", help="use render/main.go even where helm is")
    given = parser.parse_args()
    try:
        values = checked(given.values)
    except jsonschema.ValidationError as error:
        sys.exit(f"{'.'.join(map(str, error.absolute_path)) or 'values'}: {error.message}")
    if shutil.which("helm") and not given.no_helm:
        command = ["helm", "template", given.release, str(CHART), "--namespace", given.namespace]
        command += [word for path in given.values for word in ("--values", str(path))]
        sys.exit(subprocess.run(command, check=False).returncode)
    if reason := lacking():
        sys.exit(reason)
    sys.stdout.write(rendered(values, given.release, given.namespace))


def lacking() -> str:
    """Why the chart cannot be rendered without helm; "" if it can."""
    if shutil.which("go") is None:
        return "neither helm nor go is here"
    if not Path(GOPATH, "src/github.com/Masterminds/sprig").is_dir():
        return "go has no Sprig (Debian: golang-github-masterminds-sprig-dev)"
    return ""


def checked(paths: list[Path]) -> dict[str, Any]:
    """The chart's values with those of files laid over them.

    Raises:
        jsonschema.ValidationError: they are not what the schema allows.
    """
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in paths:
        values = merged(values, yaml.safe_load(path.read_text()) or {})
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))
    return dict(values)


def merged(below: Any, above: Any) -> Any:
    """Objects by key, all else replaced: as helm does."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: merged(below.get(key), value) for key, value in above.items()}


def rendered(values: dict[str, Any], release: str, namespace: str) -> str:
    """The manifests, by render/main.go."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    data = {
        "Values": values,
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
        "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
    }
    done = subprocess.run(
        ["go", "run", str(HERE / "render" / "main.go"), str(CHART)],
        input=json.dumps(data), capture_output=True, text=True, check=False,
        env={"GO111MODULE": "off", "GOPATH": GOPATH, "GOFLAGS": "-buildvcs=false"} | os.environ,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout


if __name__ == "__main__":
    main()
