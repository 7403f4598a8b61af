"""A real Chromium over its DevTools protocol: open a page, look, type, take a picture.

Owns the process and its profile; leaves neither behind. Everything is one call at a time: events are kept
while an answer is awaited.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from tests.patience import PATIENCE_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
LISTENING = b"DevTools listening on "
FLAGS = (
    *(
        "--headless=new",
        "--remote-debugging-port=0",
        "--no-first-run",
        "--disable-gpu",
        "--disable-extensions",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--mute-audio"),
)


def chromium() -> str | None:
    """The browser of this machine, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page; a context manager."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        """Uncaught exceptions, and what the browser itself says is wrong, such as a breach of the policy."""

    def __enter__(self) -> Browser:
        path = chromium()
        assert path is not None
        self._profile = tempfile.mkdtemp(prefix="elf-chromium-")
        # Root has no user namespace sandbox; elsewhere the browser keeps its own.
        flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else []), f"--user-data-dir={self._profile}"]
        self._log = Path(self._profile, "stderr").open("w+b")
        self._process = subprocess.Popen(
            [path, *flags, "about:blank"], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        self._loop = asyncio.new_event_loop()
        self._ids = itertools.count(1)
        try:
            self._loop.run_until_complete(self._attach(self._address()))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "_session"):
            self._loop.run_until_complete(self._detach())
        self._loop.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def _address(self) -> str:
        end = time.monotonic() + PATIENCE_S
        reported = Path(self._log.name)
        while not (found := reported.read_bytes().partition(LISTENING))[1] or b"\n" not in found[2]:
            assert self._process.poll() is None, f"Chromium ended: {reported.read_text(errors='replace')}"
            assert time.monotonic() < end, "Chromium does not listen"
            time.sleep(0.05)
        return found[2].split()[0].decode().split("/")[2]

    async def _attach(self, address: str) -> None:
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://{address}/json/list") as answer:
            pages = [each for each in await answer.json() if each["type"] == "page"]
        self._socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._call(f"{domain}.enable", {})

    async def _detach(self) -> None:
        if hasattr(self, "_socket"):
            await self._socket.close()
        await self._session.close()

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """One command of the protocol."""
        return self._loop.run_until_complete(self._call(method, values))

    async def _call(self, method: str, values: dict[str, Any]) -> dict[str, Any]:
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": values})
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == number:
                    assert "error" not in message, f"{method}: {message['error']}"
                    result: dict[str, Any] = message["result"]
                    return result
                self._event(message.get("method", ""), message.get("params", {}))

    def _event(self, method: str, values: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            entry = values["entry"]
            if entry["source"] != "network":  # answers like 400 are part of the page's life
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    # -- what a person does ----------------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Go to an address; what is on it is waited for by `until`."""
        self.call("Page.navigate", url=url)

    def size(self, width: int, height: int = 900, *, phone: bool = False, scale: float = 1) -> None:
        """The window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=phone,
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        """Whether the page is light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"].get("exception", {}).get("description"))
        return found["result"].get("value")

    def until(self, script: str, what: str = "", timeout_s: float = PATIENCE_S) -> Any:
        """The first true value of an expression."""
        end = time.monotonic() + timeout_s
        plain = (
            f"(async () => {{ const found = await ({script}); return found instanceof Node || found; }})()"
        )
        while True:
            try:
                value = self.run(plain)
            except AssertionError as error:  # the page is not there yet
                value, last = None, error
            else:
                last = value
            if value:
                return value
            if time.monotonic() > end:
                text = self.run("document.body.innerText.slice(0, 3000)")
                raise AssertionError(f"{what or script} did not come; last: {last!r}; {self.errors}\n{text}")
            self._loop.run_until_complete(asyncio.sleep(0.1))

    def click(self, selector: str, text: str = "") -> None:
        """Click the first element, with this text if one is given."""
        wanted = json.dumps([selector, text])
        script = """(([selector, text]) => {
          const fits = (each) => (!text || each.textContent.trim() === text) && !each.disabled;
          const all = [...document.querySelectorAll(selector)];
          const found = all.find((each) => fits(each) && each.checkVisibility());
          found?.click();
          return Boolean(found);
        })"""
        self.until(f"{script}({wanted})", f"{text or selector} to click")

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, *, control: bool = False) -> None:
        """One key; `code` is its number on Windows."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind, key=key, windowsVirtualKeyCode=code, modifiers=2 if control else 0,
            )  # fmt: skip

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse at a point of the window, and release it at another."""
        steps = [("mouseMoved", start, 0), ("mousePressed", start, 1)]
        steps += [("mouseMoved", end, 1), ("mouseReleased", end, 0)]
        for kind, (x, y), buttons in steps:
            self.call(
                "Input.dispatchMouseEvent",
                type=kind, x=x, y=y, buttons=buttons, clickCount=1,
                button="none" if kind == "mouseMoved" and not buttons else "left",
            )  # fmt: skip

    def picture(self, path: Path, *, kind: str = "webp", quality: int = 82) -> None:
        """What is visible, as a file."""
        found = self.call("Page.captureScreenshot", format=kind, quality=quality)
        path.write_bytes(base64.b64decode(found["data"]))
