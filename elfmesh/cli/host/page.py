"""`elf page`: opens the live page of an agent in a browser, with the user's certificate or token."""

from __future__ import annotations

import asyncio
import contextlib
import html
import signal
import tempfile
import webbrowser
from pathlib import Path

import click

from elfmesh.api.client.client import Client
from elfmesh.api.identity.bearer import write_private
from elfmesh.api.identity.credentials import default_credentials
from elfmesh.cli.common import api_option
from elfmesh.errors import RuntimeFailure


@click.command("page")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Local port. [default: any free port]")
@click.option("--open/--no-open", "opens", default=True, help="Open the browser, or only print the address.")
@api_option
def page_command(port: int, opens: bool, api: str | None) -> None:
    """Serve the live page of the agent at --api on this host, until Ctrl-C.

    A browser does not have your credentials. This command has them (--cert, --key, --ca, or the token of your
    own agent). It requests the page from the agent and serves it on a local address. Only the printed address
    contains the token that opens it.
    """
    Client(api).health()  # reports a wrong address or certificate at once
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(api, port, opens))


async def _serve(api: str | None, port: int, opens: bool) -> None:
    from elfmesh.api.web.page.relay import PageRelay

    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    try:
        async with PageRelay(api, default_credentials(), port) as relay:
            click.echo(f"page {relay.url}")
            with tempfile.TemporaryDirectory(prefix="elf-page-") as place:
                if opens:
                    await asyncio.to_thread(webbrowser.open, leading_to(relay.url, Path(place)).as_uri())
                await done.wait()
    except OSError as error:
        raise RuntimeFailure(f"cannot listen on port {port}: {error.strerror}", where="--port") from None


def leading_to(url: str, place: Path) -> Path:
    """Write a file that redirects a browser to `url`, because other users can see the arguments of a browser.

    Raises:
        OSError: the file cannot be written.
    """
    path = place / "page.html"
    there = html.escape(url, quote=True)
    refresh = f'<meta http-equiv="refresh" content="0; url={there}">'
    text = f'<!doctype html><meta charset="utf-8">{refresh}<a href="{there}">elf page</a>\n'
    write_private(path, text.encode())
    return path
