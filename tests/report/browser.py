"""A real browser without a window, driven over a pipe: what a page shows, asks for and complains of.

Speaks the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/) as NUL-terminated JSON.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_LIMIT_S = 120.0
"""A browser that does not answer for so long never will; on a busy machine its start takes many seconds."""


def need_browser() -> str:
    """The browser's path. Skips without one."""
    for name in _NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    pytest.skip("chromium is not installed")


class Browser:
    """One page of a browser; `open` shows a file in it."""

    def __init__(self, profile: Path) -> None:
        path = need_browser()
        # The browser reads commands from descriptor 3 and answers on 4: what we hold must be neither.
        to_read, self._to = (_above_9(fd) for fd in os.pipe())
        self._from, to_write = (_above_9(fd) for fd in os.pipe())
        command = [
            path,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"),
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec 3<&{to_read} 4>&{to_write}; exec "$@"', "bash", *command],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._held = b""
        self._number = 0
        self._session = ""
        self.requests: list[str] = []
        """What it has asked for since `open`, but for the page itself and what lies in it (data:)."""
        self.complaints: list[str] = []
        """What its console shows since `open`: messages of every level, exceptions, violations of the policy."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.write(self._to, b'{"id": 0, "method": "Browser.close"}\0')
        # Until its end it is read from: it does not end while its answers find no reader.
        while select.select([self._from], [], [], _LIMIT_S)[0] and os.read(self._from, 1 << 20):
            pass
        os.close(self._to)
        os.close(self._from)
        with suppress(ProcessLookupError):
            # What is left of the processes below it, which are in its session.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def look_as(self, width: int = 1280, height: int = 900, *, scheme: str = "light", media: str = "screen") -> None:
        """As a window of this size, in this colour scheme; 360 wide is a phone."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, file: Path) -> None:
        self.requests.clear()
        self.complaints.clear()
        self._page = file.as_uri()
        self._is_loaded = False
        self._ask("Page.navigate", url=self._page)
        deadline = time.monotonic() + _LIMIT_S
        while not self._is_loaded:
            self._receive(deadline)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, file: Path, *, is_whole: bool = True) -> None:
        answer = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def print_to_pdf(self) -> bytes:
        """As a person prints: without backgrounds, except where the page insists on them."""
        self._ask("Emulation.setEmulatedMedia", media="", features=[])
        answer = self._ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _LIMIT_S
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._from], [], [], max(deadline - time.monotonic(), 0.0))
            assert ready, f"the browser has not answered for {_LIMIT_S:.0f} s"
            piece = os.read(self._from, 1 << 20)
            assert piece, f"the browser has ended with {self.process.wait()}"
            self._held += piece
        line, _, self._held = self._held.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._is_loaded = True
        elif method == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if not url.startswith("data:") and url.partition("#")[0] != self._page:
                self.requests.append(url)
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"{told['type']}: {told['args']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(f"{told['entry']['level']}: {told['entry']['text']}")
        elif method == "Audits.issueAdded":
            self.complaints.append(str(told["issue"]))


def _above_9(fd: int) -> int:
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved
