# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays --hosts A,B`: starts `sumwire pays` as a rank on each host, by ssh, or here for this machine.

Nothing is left there: each rank ends with its connection, and rank 0's output is the answer.
"""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import IO, Final

from commonlib.logs import printable_lines
from nativelib import UntrustedError, programs

from sumwire.start import supervisor
from sumwire.start.addresses import as_others_know, is_local, server_address
from sumwire.start.errors import StartError
from sumwire.start.launchers import PORTS

REMOTE_COMMAND: Final = "sumwire"
# Codecs are measured for seconds, on slow machines for many.
_MOST_S: Final = 600.0
_END_S: Final = 5.0
_NOT_FOUND: Final = 127
_OF_SSH: Final = 255
_TAIL_BYTES: Final = 4096


@dataclass(frozen=True)
class _Rank:
    """One that runs. ``output``: what it prints, and ``said``: on stderr."""

    host: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    said: IO[bytes]


def told_by(hosts: Sequence[str], command: str, words: Sequence[str]) -> str:
    """Run `sumwire pays` with these words as a rank on each host, and return what rank 0 prints.

    ``hosts``: names or addresses, as HOST or USER@HOST. ``command``: the program there. Raises StartError for a rank
    that fails, after all others have ended, and ServiceError for a host without an address.
    """
    if len(hosts) < 2:
        raise StartError(f"--hosts {','.join(hosts)}: a path has two ends: name two hosts or more, or give --rate")
    # By the place in the list: two names may be one machine, which the ranks find out.
    found = as_others_know({host: server_address(host.rpartition("@")[2]) for host in hosts})
    together = {
        "WORLD_SIZE": str(len(hosts)), "MASTER_ADDR": found[hosts[0]], "MASTER_PORT": str(random.choice(PORTS)),
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        ranks: list[_Rank] = []
        # First: processes end before their threads are waited for.
        pool = stack.enter_context(ThreadPoolExecutor(len(hosts)))
        stack.callback(lambda: _end(ranks))
        for number, host in enumerate(hosts):
            variables = {**together, "RANK": str(number)}
            given = _here(variables, words) if is_local(found[host]) else _there(host, command, variables, words)
            output, said = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            ranks.append(_Rank(host, _started(*given, output, said), output, said))
        _await([(rank, pool.submit(rank.process.wait)) for rank in ranks], command, together)
        ranks[0].output.seek(0)
        return printable_lines(ranks[0].output.read().decode(errors="replace").rstrip("\n"))


def _here(variables: Mapping[str, str], words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    return programs.module("sumwire.cli", *_pays(words)), dict(variables)


def _there(
    host: str, command: str, variables: Mapping[str, str], words: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    settings = [f"{name}={value}" for name, value in variables.items()]
    ssh = supervisor.over_ssh(host, ["env", *settings, *shlex.split(command), *_pays(words)])
    try:
        return [programs.program(ssh[0]), *ssh[1:]], {}
    except UntrustedError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(
            f"ssh: {error.strerror}: install it, or have torchrun, srun or mpirun start `sumwire pays` on each machine"
        ) from error


def _pays(words: Sequence[str]) -> list[str]:
    return ["pays", "--with-parent", *words]


def _started(
    command: Sequence[str], variables: Mapping[str, str], output: IO[bytes], said: IO[bytes]
) -> subprocess.Popen[bytes]:
    # In a session of its own, since Ctrl-C is for this program, which ends the other.
    return subprocess.Popen(
        command, env=programs.environment(variables), stdin=subprocess.PIPE, stdout=output, stderr=said,
        start_new_session=True,
    )  # fmt: skip


def _await(running: Sequence[tuple[_Rank, Future[int]]], command: str, together: Mapping[str, str]) -> None:
    """Wait for all ranks. Raises StartError for the first one that fails: the others would wait for it."""
    pending = {future for _, future in running}
    while pending:
        done, pending = wait(pending, _MOST_S, FIRST_COMPLETED)
        failed = [(rank, future.result()) for rank, future in running if future in done and future.result()]
        if failed:
            raise StartError(_why(*failed[0], command))
        if not done:
            silent = ", ".join(rank.host for rank, future in running if future in pending)
            raise StartError(
                f"{silent}: not done after {_MOST_S:.0f} s: let TCP pass between the hosts, also to port "
                f"{together['MASTER_PORT']} of {together['MASTER_ADDR']}"
            )


def _why(rank: _Rank, status: int, command: str) -> str:
    size = rank.said.seek(0, os.SEEK_END)
    rank.said.seek(max(0, size - _TAIL_BYTES))
    lines = rank.said.read().decode(errors="replace").splitlines()
    last = lines[-1].removeprefix("sumwire: ") if lines else f"it has ended with {status}"
    if status == _NOT_FOUND:
        return (
            f"{rank.host}: {last}: install Sumwire there: pip install 'sumwire[host]', or name its program: "
            f"--remote-command /path/to/{REMOTE_COMMAND}"
        )
    if status == _OF_SSH:
        return f"{rank.host}: {last}: let `ssh {rank.host} {command} --version` work without a password"
    return f"{rank.host}: {last}; mend that there, and have the same version of Sumwire as here"


def _end(ranks: Sequence[_Rank]) -> None:
    """End what still runs: each rank when its standard input ends, also on another machine."""
    for rank in ranks:
        assert rank.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            rank.process.stdin.close()
    for rank in ranks:
        try:
            rank.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            rank.process.kill()
            rank.process.wait()
