"""`elf agent`: command line of the agent of a host.

The module owns the options and the ready line; `runtime/host_agent.py` runs the agent. The module checks the
configuration before it imports anything large.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from functools import partial
from pathlib import Path

import click

from elfmesh.agent.runtime.log_lines import JsonLine, TextLine
from elfmesh.agent.service.journal import JournalLine, is_journal
from elfmesh.agent.service.notify import notifier_of
from elfmesh.agent.settings import config as configuration
from elfmesh.agent.settings.security import check_join
from elfmesh.errors import ConfigError, UsageError
from elfmesh.ingest.stream_settings import parse_stream
from elfmesh.lazy import loading


@click.command("agent")
@click.option("-c", "--config", "config_path", type=click.Path(), help="Configuration file (agent.toml).")
@click.option(
    "--listen", metavar="HOST:PORT", help="Address on which other agents connect. [default: 127.0.0.1:7400]"
)
@click.option(
    "--advertise", metavar="HOST:PORT", help="Address that other agents use, if it differs from --listen."
)
@click.option(
    "--api", metavar="HOST:PORT", help="Address of the HTTP API. [default: 127.0.0.1:7401, or a free port]"
)
@click.option(
    "--join",
    multiple=True,
    metavar="HOST:PORT",
    help="Address of an agent of the overlay to join; repeatable.",
)
@click.option("--join-timeout", metavar="DURATION", help="Time limit for joining. [default: 30 s]")
@click.option("--data-dir", metavar="DIR", help="Directory for the agent's state; each agent needs its own.")
@click.option(
    "--stream",
    "streams",
    multiple=True,
    metavar="NAME=PATH[,format=F][,read_from=R][,idle=D][,ts=FIELD]",
    help="Log to read; repeatable. R is beginning or end. Write \\, for a comma of PATH.",
)
@click.option(
    "--lookup",
    "lookups",
    multiple=True,
    metavar="NAME=PATH[,format=F]",
    help="Table that queries join as lookup.NAME; repeatable.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Label by which jobs select agents; repeatable.",
)
@click.option("--name", help="Name of this agent in results. [default: host name and id]")
@click.option("--cluster", help="Name of the overlay; all its agents use the same name. [default: elf]")
@click.option(
    "--tls",
    "tls_dir",
    metavar="DIR",
    help="Directory that contains cert.pem, key.pem and ca.pem. [default: none]",
)
@click.option(
    "--token",
    metavar="FILE",
    help=(
        "File that contains a join token. The agent uses it to get its certificates if the "
        "directory of --tls [default: DATA_DIR/tls] has none."
    ),
)
@click.option(
    "--dangerously-insecure-network",
    is_flag=True,
    help=(
        "Allow non-loopback addresses without certificates. The agent then trusts every host "
        "that can reach it."
    ),
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    help=("Log format on standard error. [default: text; with level prefixes if systemd's journal reads it]"),
)
def agent_command(
    config_path: str | None,
    listen: str | None,
    advertise: str | None,
    api: str | None,
    join: tuple[str, ...],
    join_timeout: str | None,
    data_dir: str | None,
    streams: tuple[str, ...],
    lookups: tuple[str, ...],
    labels: tuple[str, ...],
    name: str | None,
    cluster: str | None,
    tls_dir: str | None,
    token: str | None,
    dangerously_insecure_network: bool,
    log_format: str | None,
) -> int:
    """Run the agent of this host.

    The agent reads the host's logs and computes results together with the other agents. When it has
    joined the overlay and serves requests, it prints one line "ready api=HOST:PORT overlay=HOST:PORT
    id=HEX". It logs to standard error. SIGTERM stops it cleanly. SIGHUP makes it read the limits again.
    Port 0 selects a free port.

    Exit codes: 1 if an address is in use or a disk failed, 69 if no agent answers at the --join
    addresses, 78 if the configuration is wrong.
    """
    if token and not tls_dir and data_dir:
        tls_dir = str(Path(data_dir) / "tls")
    read = partial(
        configuration.load_config,
        config_path,
        listen=listen,
        advertise=advertise,
        api=api,
        join=join,
        join_timeout=join_timeout,
        data_dir=data_dir,
        streams=dict(parse_stream(text) for text in streams),
        lookups=dict(parse_stream(text, "--lookup") for text in lookups),
        labels=dict(configuration.parse_label(text) for text in labels),
        name=name,
        cluster=cluster,
        tls={"dir": tls_dir} if tls_dir else None,
        dangerously_insecure_network=dangerously_insecure_network or None,
    )
    try:
        config = read()
        if not token:
            check_join(config, config_path or "")
        if token:
            _enrol(token, config.tls.dir)
        notifier = notifier_of(os.environ)
        _log_to_stderr(log_format)
        with loading():
            # aiohttp reads the certificates of the host without the interpreter lock
            threading.Thread(target=importlib.import_module, args=("aiohttp",)).start()
            from elfmesh.agent.runtime import host_agent
            from elfmesh.storage import failpoints

        failpoints.arm_from(os.environ)
        return host_agent.run(config, ready=_say_ready, notifier=notifier, read=read)
    except ConfigError as error:
        raise _placed(error, config_path) from None


def _placed(error: ConfigError, path: str | None) -> ConfigError:
    from elfmesh.cli.host.validation import validate

    checked = list(validate([path] if path else []))
    problems = [found for each in checked for found in each.problems]
    for found in (*problems, *(found for each in checked for found in each.warnings)):
        if found.line and (found.message.endswith(error.message) or error.message.startswith(found.message)):
            others = f" `elf validate {path}` lists {len(problems)} errors." if len(problems) > 1 else ""
            where = f"{found.file}:{found.line}:{found.column}"
            return ConfigError(found.message, where=where, hint=f"{found.hint}{others}".lstrip())
    return error


def _enrol(token: str, place: str) -> None:
    """Get certificates for this host if it has none, so that a restart with a used token succeeds."""
    from elfmesh.cli.host.ca import token_text
    from elfmesh.control.jobs.signing import check_cryptography

    if not place:
        raise UsageError("--token needs a directory for the certificates", hint="--tls DIR, or --data-dir.")
    if (Path(place) / "cert.pem").exists():
        return
    check_cryptography()
    from elfmesh.api.identity.enrolment import enrol
    from elfmesh.api.identity.joining import parse_token

    enrol(parse_token(token_text(token)), Path(place))


def _say_ready(api: str, overlay: str, agent: bytes) -> None:
    print(f"ready api={api} overlay={overlay} id={agent.hex()}", flush=True)


def _log_to_stderr(log_format: str | None) -> None:
    from elfmesh.cli import entry as cli

    level = {-1: logging.ERROR, 0: logging.INFO}.get(cli.verbosity, logging.DEBUG)
    handler = logging.StreamHandler(sys.stderr)
    journal = log_format is None and is_journal(sys.stderr.fileno(), os.environ)
    formats = {"json": JsonLine, "text": TextLine, None: JournalLine if journal else TextLine}
    handler.setFormatter(formats[log_format]())
    logging.getLogger("elf").addHandler(handler)
    logging.getLogger("elf").setLevel(level)
    logging.getLogger("elf").propagate = False
    logging.captureWarnings(True)
