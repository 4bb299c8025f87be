# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A real browser without a window: Chromium, by its driver."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

PHONE: Final = (390, 844)
DESKTOP: Final = (1200, 900)
PATIENCE_S: Final = 30.0


class Browser:
    """One window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def resize(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Become a screen of this size in CSS pixels, a phone's if it is narrow."""
        width, height = size
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, address: str | Path) -> None:
        """Load a page."""
        self.driver.get(address.as_uri() if isinstance(address, Path) else address)

    def run(self, script: str, *arguments: object) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, wanted: object) -> None:
        """Return when a script returns what is wanted; fail after some seconds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, PATIENCE_S).until(
            lambda _: self.run(script) == wanted, f"{script} is not {wanted!r}"
        )

    def errors(self) -> list[str]:
        """What the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def width(self) -> int:
        """How wide the page's content is, in CSS pixels."""
        return int(self.run("return document.documentElement.scrollWidth"))

    def picture(self, path: Path) -> None:
        """Write the whole page as a PNG."""
        box = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": box["width"], "height": box["height"], "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for the time of the block."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
