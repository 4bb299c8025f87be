# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The common parts of all experiments of the lab: how they report, where they write, and how they are interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from sumwire_lab.errors import OptionError

Say = Callable[[str], None]
"""Tells the user one line of progress."""


def new_folder(results: Path, latest: bool = True) -> Path:
    """Make `results/<time>/`. With `latest`, also point the link `results/latest` to it. Raises OptionError."""
    try:
        return _made_folder(results, latest)
    except OSError as error:
        raise OptionError(f"results={results}: {error.strerror}; name a folder that can be made and written") from error


def _made_folder(results: Path, latest: bool) -> Path:
    results.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    for suffix in ["", *(f"-{n}" for n in range(2, 100))]:
        folder = results / (stamp + suffix)
        if not folder.exists():
            break
    folder.mkdir()
    if not latest:
        return folder
    partial = results / f".latest-{folder.name}"
    partial.symlink_to(folder.name)
    partial.replace(results / "latest")
    return folder


@contextmanager
def interruptible() -> Iterator[None]:
    """Context manager in which SIGTERM raises KeyboardInterrupt, like Ctrl-C. After the first one both are ignored, so
    that the run can clean up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before: dict[int, Any] = {s: signal.signal(s, interrupt) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
