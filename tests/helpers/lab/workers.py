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
from helpers.gloo.ranks import fork_context
from helpers.lab import preloaded
from sumwire_lab.network.topology import MininetNetwork

PACKAGE = "sumwire_lab."
# Needs no torch, and starts as fast by itself.
LOAD = "sumwire_lab.load."


def is_forked(module: str) -> bool:
    return module.startswith(PACKAGE) and not module.startswith(LOAD)


class Server:
    """The server, forked by the one that forks ranks: a process loads torch once."""

    def __init__(self, path: str) -> None:
        self.path = path
        context = fork_context()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=preloaded.serve, args=(path, theirs), daemon=True)
        self._process.start()
        theirs.close()
        assert self._pipe.recv() == preloaded.READY, "the server of workers does not start"

    def command(self, module: Sequence[str]) -> list[str]:
        """What to start on a host instead of `python -m MODULE ARGUMENT...`, given from `-m` on."""
        # -S, -E: nothing but the standard library, at once.
        return [sys.executable, "-S", "-E", preloaded.__file__, self.path, *module]

    def close(self) -> None:
        self._pipe.close()
        self._process.join(60)


@contextmanager
def forked_workers(folder: Path) -> Iterator[None]:
    """Within the block, modules of the lab that are started on hosts are forked."""
    server = Server(str(folder / "server"))
    popen = MininetNetwork.popen

    def start(self: MininetNetwork, host: Any, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        at = list(command).index("-m") if "-m" in command[:3] else 0
        if at and command[0] == sys.executable and is_forked(command[at + 1]):
            command = server.command(command[at:])
        return popen(self, host, command, **options)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MininetNetwork, "popen", start)
            yield
    finally:
        server.close()
