# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A function in a process of its own, forked by the server that has loaded torch once (helpers.gloo.ranks)."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from helpers.gloo.ranks import fork_context

TIMEOUT_S = 300.0


def _serve(function: Callable[..., Any], arguments: tuple[Any, ...], environ: dict[str, str], pipe: Connection) -> None:
    os.environ.update(environ)
    try:
        pipe.send((True, function(*arguments)))
    except Exception:  # noqa: BLE001 - travels to the test process
        pipe.send((False, traceback.format_exc()))


def in_child(function: Callable[..., Any], *arguments: Any, **environ: str) -> Any:
    """What a function of a helper module returns in a fresh process with these variables in its environment."""
    context = fork_context()
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(function, arguments, environ, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(TIMEOUT_S), "no answer"
        good, result = ours.recv()
    finally:
        process.kill()
        process.join()
    assert good, result
    return result
