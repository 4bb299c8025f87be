# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The report in Chromium: on a desk, in the dark and on a phone. SUMWIRE_RUN names the folder of a run to show."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.lab import runs
from helpers.lab.browser import DESKTOP, PHONE, Browser, chromium
from sumwire_lab.run.page import render

pytestmark = pytest.mark.chromium

SHOWN = "return [...document.querySelectorAll('data[data-path]')].map((one) => [one.dataset.path, one.value])"
COLOURS = "return ['body', '.card'].map((one) => getComputedStyle(document.querySelector(one)).backgroundColor)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "SUMWIRE_RUN" in os.environ:
        return Path(os.environ["SUMWIRE_RUN"])
    made = tmp_path_factory.mktemp("run")
    render.write(made, runs.summary(), runs.results())
    return made


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    with chromium() as one:
        yield one


def shown_numbers(browser: Browser) -> dict[str, Any]:
    return {path: json.loads(value) for path, value in browser.run(SHOWN)}


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False), (PHONE, True)])
def test_the_page_fits_and_the_console_is_silent(
    browser: Browser, folder: Path, size: tuple[int, int], dark: bool
) -> None:
    browser.resize(size, dark=dark)
    browser.open(folder / "report.html")
    assert browser.errors() == []
    assert browser.width() <= size[0]
    summary = json.loads((folder / "summary.json").read_text())
    found = shown_numbers(browser)
    assert found
    assert found == {path: runs.value_at(summary, path) for path in found}
    channels = [int(one) for colour in browser.run(COLOURS) for one in colour.strip("rgb()").split(",")]
    assert (max(channels) < 80) if dark else (min(channels) > 200)


def test_what_is_under_the_pointer_is_said(browser: Browser, folder: Path) -> None:
    browser.resize(DESKTOP)
    browser.open(folder / "report.html")
    point = """
      const element = document.querySelector(arguments[0]), box = element.getBoundingClientRect();
      const at = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true};
      element.dispatchEvent(new PointerEvent("pointermove", at));
      const tip = document.getElementById("tip");
      return tip.hidden ? "" : tip.textContent;
    """
    assert browser.run(point, ".bar").startswith("gloo: ")
    assert " % at " in browser.run(point, ".plot svg")
    assert browser.run("return document.querySelectorAll('.cursor').length") == 1
    assert "Mbit/s" in browser.run(point, ".network .touch")
    assert browser.run(point, ".span.forward").startswith("worker 0, forward pass")
    assert browser.run(point, ".answer") == ""
    assert browser.errors() == []
