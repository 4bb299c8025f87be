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


@contextmanager
def forked_workers(folder: Path) -> Iterator[None]:
    """Within the block, modules of the lab that are started on hosts are forked."""
    path = str(folder / "server")
    command = [sys.executable, preloaded.__file__, "serve", path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        popen = Network.popen

        def start(self: Network, host: Any, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
            if list(command[:2]) == [sys.executable, "-m"] and command[2].startswith(PACKAGE):
                # -S, -E: nothing but the standard library, at once.
                command = [sys.executable, "-S", "-E", preloaded.__file__, "run", path, *command[1:]]
            return popen(self, host, command, **options)

        try:
            assert server.stdout.read(len(preloaded.READY)) == preloaded.READY, "the server of workers does not start"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Network, "popen", start)
                yield
        finally:
            server.stdin.close()
            server.wait(10)
