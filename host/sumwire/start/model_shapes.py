# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the shapes of the parameters that a training script trains, without a change to it. Called by `sumwire pays`.

This runs the user's own script, in a child, as a single rank: with the user's environment and rights, and with whatever
it does before its model is ready, such as loading data. It is ended where it first wraps a model in
DistributedDataParallel, makes an optimizer, or gives a model to `sumwire.init`. `python -m sumwire.start.model_shapes
FILE_DESCRIPTOR SCRIPT ARGUMENT...` is that child. It writes the shapes there, as one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from commonlib.untrusted import UntrustedInputError, json_of
from nativelib import programs

from sumwire.errors import ConfigError
from sumwire.start.errors import StartError

TIMEOUT_S: Final = 120.0
# Port 0 is any free one.
_ONE_RANK: Final = {
    "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}  # fmt: skip
_BYTES_MOST: Final = 1 << 24
_PART_BYTES: Final = 1 << 16
_TAIL_LINES: Final = 10
_TAIL_BYTES: Final = 4096
_OTHERWISE: Final = "give --model FILE.py:CALLABLE, which returns the model, or --params and --shapes"


def shapes_of_script(script: Path, arguments: Sequence[str], timeout_s: float) -> list[tuple[int, ...]]:
    """Run a script until its model is ready, and return the shapes of the parameters that it trains.

    Raises ConfigError for a file that is not there, and StartError, with its last lines, for a script that fails, ends
    without a model, or has none after ``timeout_s`` seconds.
    """
    if not script.is_file():
        cure = "name one that is there: sumwire pays train.py"
        raise ConfigError("script", str(script), "must be a Python file", where="pays", cure=cure)
    read, write = os.pipe()
    words = programs.starter(__name__, str(write), str(script), *arguments)
    environment = programs.script_environment(_ONE_RANK)
    with os.fdopen(read, "rb", buffering=0) as pipe, tempfile.TemporaryFile() as output:
        try:
            # In a session of its own, so that processes that the script has started can be ended with it.
            child = subprocess.Popen(
                words, env=environment, pass_fds=[write], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(write)
        try:
            told = _line(pipe, time.monotonic() + timeout_s)
            status = None if told else child.wait(timeout_s)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            text = f"{script}: no DistributedDataParallel model and no optimizer after {timeout_s:g} s"
            raise StartError(f"{text}{_tail(output)}raise --timeout, or {_OTHERWISE}") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if status is not None:
            how = f"has ended with code {status} before" if status else "has ended without"
            text = f"{script}: {how} a DistributedDataParallel model or an optimizer in its own process"
            raise StartError(f"{text}{_tail(output)}mend {shlex.join([str(script), *arguments])}, or {_OTHERWISE}")
    return _read(told, script)


def _line(pipe: IO[bytes], end_s: float) -> bytes:
    """What the child says; empty if it ends without. Raises TimeoutError."""
    found = b""
    while not found.endswith(b"\n") and len(found) <= _BYTES_MOST:
        if not select.select([pipe], [], [], max(0.0, end_s - time.monotonic()))[0]:
            raise TimeoutError
        part = pipe.read(_PART_BYTES)
        if not part:
            return b""
        found += part
    return found


def _read(told: bytes, script: Path) -> list[tuple[int, ...]]:
    try:
        rows = json_of(told.decode())
        found = [tuple(row) for row in rows]
    except (UntrustedInputError, UnicodeDecodeError, TypeError) as error:
        raise StartError(f"{script}: wrote to a file that is not its own ({error}): {_OTHERWISE}") from error
    if not found or not all(type(side) is int and side > 0 for shape in found for side in shape):
        raise StartError(f"{script}: its model has no parameters of known sizes that are trained: {_OTHERWISE}")
    return found


def _tail(output: IO[bytes]) -> str:
    """The last lines of a script's output, to be put into a message."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    lines = output.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
    return ":\n" + "\n".join(lines) + "\n" if lines else ": "


# -- in the child --------------------------------------------------------------------------------------


def _run(told_at: int, script: str, arguments: Sequence[str]) -> None:
    os.set_inheritable(told_at, False)
    _watch(told_at)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")


def _watch(told_at: int) -> None:
    """Let the first model or optimizer end this process."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    def tell(parameters: Iterable[Any]) -> NoReturn:
        trained = [tuple(p.shape) or (1,) for p in parameters if p.requires_grad and p.numel()]
        content = (json.dumps(trained) + "\n").encode()
        while content:
            content = content[os.write(told_at, content) :]
        # Neither handlers of the script nor other threads of it shall go on.
        os._exit(0)

    def wrapped(self: object, module: torch.nn.Module, *rest: object, **options: object) -> None:
        tell(module.parameters())

    def optimizing(self: object, params: Iterable[Any], *rest: object, **options: object) -> None:
        tell(_parameters(params))

    def started(*rest: object, model: torch.nn.Module | None = None, **options: object) -> object:
        # There is no job to find here. A script most often asks for one before it wraps its model.
        return contextlib.nullcontext() if model is None else tell(model.parameters())

    patched: Any = DistributedDataParallel
    patched.__init__ = wrapped
    patched = torch.optim.Optimizer
    patched.__init__ = optimizing
    patched = sys.modules["sumwire"]
    patched.init = started


def _parameters(given: Iterable[Any]) -> Iterable[Any]:
    """Of an optimizer's first argument: tensors, pairs of name and tensor, or groups of them."""
    for one in [given] if hasattr(given, "requires_grad") else given:
        if isinstance(one, dict):
            yield from _parameters(one["params"])
        else:
            yield one[1] if isinstance(one, tuple) else one


if __name__ == "__main__":
    _run(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
