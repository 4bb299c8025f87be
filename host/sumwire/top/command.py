# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire top`: reads the endpoints every few seconds and shows their values."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from commonlib.shutdown import ShutdownSignal

from sumwire.top.picture import Picture, Scraper, endpoints, picture

try:
    from rich.console import Console
    from rich.live import Live

    from sumwire.top.screen import Screen
except ImportError as error:
    from sumwire.errors import UsageError

    raise UsageError("sumwire top needs the package rich; install it: pip install 'sumwire[top]'") from error


@dataclass(frozen=True)
class TopOptions:
    """Options of `sumwire top`. ``words`` and ``port`` name the endpoints (:mod:`sumwire.top.picture`). ``once``: show
    one picture, with all its rows, and end. ``as_json``: print one JSON object per picture."""

    words: Sequence[str]
    port: int
    interval_s: float
    once: bool = False
    as_json: bool = False


def run(options: TopOptions, console: Console | None = None) -> None:
    """Show pictures until Ctrl-C or SIGTERM, and restore the terminal. Raises UsageError."""
    with Scraper(endpoints(options.words, options.port)) as scraper, ShutdownSignal() as ending:
        pictures = _pictures(scraper, options.interval_s, ending)
        if options.once:
            # Rates need two scrapes.
            next(pictures)
            for last in pictures:
                _show(last, options, console or Console())
                return
        elif options.as_json:
            for one in pictures:
                _show(one, options, console or Console())
        else:
            _follow(pictures, console or Console())


def _pictures(scraper: Scraper, interval_s: float, ending: ShutdownSignal) -> Iterator[Picture]:
    before = scraper.read()
    yield picture(before)
    while not ending.wait(interval_s):
        now = scraper.read()
        yield picture(now, before)
        before = now


def _show(one: Picture, options: TopOptions, console: Console) -> None:
    if options.as_json:
        console.out(json.dumps(one.as_dict()), highlight=False)
    else:
        console.print(Screen(one, _clock(), None))


def _follow(pictures: Iterator[Picture], console: Console) -> None:
    with Live(console=console, screen=True, auto_refresh=False, transient=True) as live:
        for one in pictures:
            live.update(Screen(one, _clock(), console.height), refresh=True)


def _clock() -> str:
    return time.strftime("%H:%M:%S")
