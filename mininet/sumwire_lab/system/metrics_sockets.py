# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Creates sockets for the metrics of a run's programs, at loopback ports of the machine itself.

Hosts have separate network namespaces, and the run measures their links. A socket stays in the namespace in which it
was created. So the lab creates the sockets and passes them to the programs, and reading metrics does not use the links.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

# What programs are told: how long to wait for a last scrape.
LAST_S: Final = 4.0


class MetricsSockets:
    """Creates sockets, and keeps the list of targets at ``path`` up to date until it is closed. Also a context
    manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts: dict[str, list[str]] = {}
        self._write()

    @contextmanager
    def handed_over(self, part: str) -> Iterator[int]:
        """Yield the descriptor of a new listening socket, for a program that is started inside the block.

        ``part``: the part of the run, which is the target's label.
        """
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address, port = listening.getsockname()
            yield listening.fileno()
        self._parts.setdefault(part, []).append(f"{address}:{port}")
        self._write()

    def _write(self) -> None:
        groups = [{"targets": targets, "labels": {"part": part}} for part, targets in self._parts.items()]
        # Whoever reads it finds one list or the next, and no half of one.
        fresh = self._path.with_name(f".{self._path.name}.new")
        fresh.write_text(json.dumps(groups, indent=1) + "\n")
        fresh.replace(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.clear()
        self._write()
