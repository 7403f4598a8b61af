"""`elf doctor`: checks a host and its agent, one line per check, and collects what a maintainer needs."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfmesh.cli.common import api_option, print_json
from elfmesh.errors import ElfError, RuntimeFailure, Unreachable, UsageError
from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.agent.settings.config import AgentConfig
    from elfmesh.cli.host.doctor_checks import HostFinding

TIMEOUT_S = 10.0
COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@click.option("-c", "--config", "path", metavar="FILE", help="agent.toml of this host.")
@click.option(
    "--bundle", metavar="FILE", type=click.Path(path_type=Path),
    help="Also write an archive (tar.gz) for a maintainer, without secrets and log lines.",
)  # fmt: skip
@click.option(
    "--log", metavar="FILE", type=click.Path(path_type=Path),
    help="With --bundle: log of the agent. [default: the journal of elf-agent]",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", help="Output format.")
@api_option
def doctor_command(
    path: str | None, bundle: Path | None, log: Path | None, output: str, api: str | None
) -> int:
    """Check this host and its agent, and print what to do about each problem.

    With -c, the command checks the configuration, the permissions of the data directory and the logs, the
    limits of a process, memory, disk, and certificates. With a running agent, at --api or at the address in
    the configuration, it also checks its health, the clocks, whether the agents answer each other and accept
    connections from this host, their versions and their certificates. The exit code is 1 if a check fails.

    Example: elf doctor -c /etc/elf/agent.toml --bundle elf-bundle.tar.gz
    """
    from elfmesh.cli.host import doctor_checks

    if log is not None and bundle is None:
        raise UsageError("--log needs --bundle")
    findings: list[HostFinding] = []
    config = None
    if path is not None:
        config, findings = doctor_checks.check_configuration(path)
        if config is not None:
            findings += doctor_checks.on_this_host(config)
    answers, reached = _fleet(api, config, alone=path is not None and api is None)
    findings += reached
    if not answers and config is not None:
        findings += doctor_checks.check_joins(config)
    _print(findings, output)
    if bundle is not None:
        _bundle(bundle, path, log, findings, answers)
    return 1 if any(each.status == "fail" for each in findings) else 0


def _fleet(
    api: str | None, config: AgentConfig | None, *, alone: bool
) -> tuple[dict[str, Any], Iterable[HostFinding]]:
    """Return what the agent answers, and the findings; `alone`: the configuration is checked without it."""
    from elfmesh.api.client.client import Client
    from elfmesh.cli.host.doctor_checks import HostFinding
    from elfmesh.cli.host.doctor_fleet import in_the_fleet

    address = api or (config.api or None if config is not None else None)
    try:
        client = Client(address, timeout_s=TIMEOUT_S)
        health, agents = client.health(), client.ask("agents")
        jobs = client.ask("list")
    except Unreachable as error:
        remedy = "Start it, or name it with --api. Without it, clocks, peers and versions are not checked."
        return {}, [HostFinding("agent", "warn" if alone else "fail", printable(error.message), remedy)]
    except ElfError as error:
        remedy = error.hint or "Name a token or a certificate of an operator."
        return {}, [HostFinding("agent", "fail", printable(error.message), remedy)]
    found = in_the_fleet(health, agents, datetime.datetime.now(datetime.UTC))
    return {"health": health, "agents": agents, "jobs": jobs}, found


def _print(findings: Iterable[HostFinding], output: str) -> None:
    if output == "json":
        checks = [each._asdict() for each in findings]
        print_json({"ok": all(each["status"] != "fail" for each in checks), "checks": checks})
        return
    for each in findings:
        status = click.style(f"{each.status:<4}", fg=COLORS[each.status])
        remedy = f". {each.remedy}" if each.remedy else ""
        click.echo(f"{status}  {printable(f'{each.check}: {each.found}{remedy}')}")


def _bundle(
    target: Path,
    config: str | None,
    log: Path | None,
    findings: Iterable[HostFinding],
    answers: dict[str, Any],
) -> None:
    from elfmesh.cli.host.doctor_bundle import agent_log, configuration_of, redacted, versions, write_bundle

    parts: dict[str, Any] = {
        "versions.json": versions(),
        "checks.json": redacted([each._asdict() for each in findings]),
        "agent.log": agent_log(log),
    }
    if config is not None:
        parts["configuration.json"] = configuration_of(Path(config))
    parts |= {f"{name}.json": redacted(answer) for name, answer in answers.items()}
    try:
        listed = write_bundle(target, parts)
    except OSError as error:
        raise RuntimeFailure(f"{target}: {error.strerror or error}") from None
    masked = "what looks like a secret is masked; read it before you send it"
    click.echo(f"{printable(str(target))}: {masked}", err=True)
    for name, size in listed:
        click.echo(f"  {name:<20} {size:>9} bytes", err=True)
