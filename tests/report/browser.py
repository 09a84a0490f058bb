"""A headless Chromium for tests and screenshots, spoken to over a pipe: no driver, no port, no dependency.

with Browser() as browser:
    page = browser.open(path, width=390, height=844, dark=True)
    page.console_errors, page.requests, page.evaluate("document.title"), page.screenshot("report.png")
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe"
)
CHARTS_DRAWN = "!document.querySelector('[data-chart]') || document.documentElement.dataset.charts === 'drawn'"


class BrowserError(Exception):
    """Chromium answered with an error, or not at all."""


def find_chromium() -> str | None:
    """Chromium's path, if it is installed."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Browser:
    """One Chromium process, ended with the `with` block."""

    def __init__(self, *, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._ids = itertools.count(1)
        self._buffer = b""
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        chromium = find_chromium()
        if chromium is None:
            raise BrowserError("chromium is not installed")
        self._profile = tempfile.TemporaryDirectory(prefix="palpate-chromium-", ignore_cleanup_errors=True)
        commands_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()
        line = f'exec "$0" {FLAGS} --user-data-dir="$1" 3<&{commands_out} 4>&{answers_in}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", line, chromium, self._profile.name],
            pass_fds=(commands_out, answers_in),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands_out)
        os.close(answers_in)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.send("Browser.close", timeout=5)
            self._process.wait(timeout=5)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def open(
        self, path: str | Path, *, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True
    ) -> Page:
        """A file in a tab of that size, once it is loaded and its charts are drawn."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session, width, height)
        self._pages[session] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.send("Emulation.setEmulatedMedia", {"features": scheme})
        page.send("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        page.resize(width, height)
        page.send("Page.navigate", {"url": Path(path).resolve().as_uri()})
        page.wait_until("document.readyState === 'complete' && location.protocol === 'file:'")
        if scripts:
            page.wait_until(CHARTS_DRAWN)
        return page

    def send(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        session: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Ask Chromium something (the DevTools protocol) and wait for its answer."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            answer = self._receive(deadline)
            if answer.get("id") != number:
                self._note(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']}")
            else:
                return dict(answer["result"])

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._answers, 1 << 20) if ready else b""
            if not part:
                raise BrowserError("chromium ended" if ready else "chromium did not answer in time")
            self._buffer += part
        first, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(first))

    def _note(self, event: dict[str, Any]) -> None:
        page = self._pages.get(event.get("sessionId", ""))
        if page is not None and "method" in event:
            page.note(event["method"], event["params"])


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str, width: int, height: int) -> None:
        self._browser, self._session = browser, session
        self.width, self.height = width, height
        self.console_errors: list[str] = []
        """Errors and warnings of the console, uncaught exceptions, and what the page's policy refused."""
        self.requests: list[str] = []
        """Every address that the page asked for, its own among them."""

    def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """A command of the DevTools protocol for this tab."""
        return self._browser.send(method, params, session=self._session)

    def note(self, method: str, params: dict[str, Any]) -> None:
        """Keep what a test wants to know of an event."""
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            parts = [str(part.get("value", part.get("description", ""))) for part in params["args"]]
            self.console_errors.append(" ".join(parts))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console_errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.console_errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def resize(self, width: int, height: int) -> None:
        """Give the tab another size; below 600 px it is a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", size)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        options = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.send("Runtime.evaluate", options)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:800])
        return answer["result"].get("value")

    def wait_until(self, script: str, *, timeout: float = 60.0) -> None:
        """Until a JavaScript expression is true."""
        deadline = time.monotonic() + timeout
        while not self.evaluate(f"Boolean({script})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"still not true after {timeout} s: {script}")
            time.sleep(0.05)

    def screenshot(self, path: str | Path, *, full_page: bool = False, selector: str | None = None) -> Path:
        """A PNG of what is in view, of the whole page, or of the first element that a selector finds."""
        options: dict[str, Any] = {"format": "png"}
        if selector is not None or full_page:
            found = f"document.querySelector({json.dumps(selector or 'html')}).getBoundingClientRect()"
            box = self.evaluate(f"(r => [r.x + scrollX, r.y + scrollY, r.width, r.height])({found})")
            clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
            options |= {"captureBeyondViewport": True, "clip": clip}
        data = base64.b64decode(self.send("Page.captureScreenshot", options)["data"])
        Path(path).write_bytes(data)
        return Path(path)

    def pdf(self, path: str | Path) -> Path:
        """The page as it would be printed on A4."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        Path(path).write_bytes(base64.b64decode(self.send("Page.printToPDF", paper)["data"]))
        return Path(path)
