# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of the lab in this process, whose workers are forked by a server that has imported torch (see preloaded.py)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.lab import preloaded
from sumwire_lab.network.topology import Network

PACKAGE = "sumwire_lab."
# Needs no torch, and starts as fast by itself.
LOAD = "sumwire_lab.load."


def is_forked(module: str) -> bool:
    return module.startswith(PACKAGE) and not module.startswith(LOAD)


class Server:
    """The server, which imports while the first network is built."""

    def __init__(self, path: str) -> None:
        self.path = path
        command = [sys.executable, preloaded.__file__, "serve", path]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._is_ready = False

    def command(self, module: Sequence[str]) -> list[str]:
        """What to start on a host instead of `python -m MODULE ARGUMENT...`, given from `-m` on."""
        assert self._process.stdout is not None
        self._is_ready = self._is_ready or self._process.stdout.read(len(preloaded.READY)) == preloaded.READY
        assert self._is_ready, "the server of workers does not start"
        # -S, -E: nothing but the standard library, at once.
        return [sys.executable, "-S", "-E", preloaded.__file__, "run", self.path, *module]

    def close(self) -> None:
        self._process.communicate(timeout=60)


@contextmanager
def forked_workers(folder: Path) -> Iterator[None]:
    """Within the block, modules of the lab that are started on hosts are forked."""
    server = Server(str(folder / "server"))
    popen = Network.popen

    def start(self: Network, host: Any, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        if list(command[:2]) == [sys.executable, "-m"] and is_forked(command[2]):
            command = server.command(command[1:])
        return popen(self, host, command, **options)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Network, "popen", start)
            yield
    finally:
        server.close()
