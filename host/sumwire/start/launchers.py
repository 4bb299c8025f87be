# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that Slurm's srun or an mpirun has started: what torchrun would have told them, and an allocation's hosts.

Used by `sumwire.init()`, which makes a process group of it, and by `sumwire up`. torchrun's own variables go first.

Example: in a step of srun with two tasks on node[1-2], SLURM_PROCID=1 becomes RANK=1, and MASTER_ADDR is node1.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from commonlib.untrusted import shown

from sumwire.start.errors import PlaceError

RENDEZVOUS: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torch makes a process group of."""
# Below Linux's ephemeral ports, and above those of services. Each job has its own, so that two may share a machine.
PORTS: Final = range(15_000, 25_000)
# Of srun alone. `sbatch` and `salloc` set SLURM_PROCID and SLURM_NTASKS as well, for scripts that are no rank.
_SRUN: Final = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_STEP_NUM_TASKS", "LOCAL_RANK": "SLURM_LOCALID"}
# Open MPI's variables, and those of Hydra, which MPICH and Intel MPI start ranks with.
_MPIRUNS: Final = (
    {
        "RANK": "OMPI_COMM_WORLD_RANK", "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
        "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK", "local size": "OMPI_COMM_WORLD_LOCAL_SIZE",
    },
    {"RANK": "PMI_RANK", "WORLD_SIZE": "PMI_SIZE", "LOCAL_RANK": "MPI_LOCALRANKID", "local size": "MPI_LOCALNRANKS"},
)  # fmt: skip
# What tells jobs of a launcher apart. MPICH has nothing of the kind.
_JOBS: Final = ("SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE")
_LOOPBACK: Final = "127.0.0.1"
# What an int of C holds, as torch counts ranks.
_RANKS_MAX: Final = (1 << 31) - 1
_HOSTS_MOST: Final = 100_000
# More than any list of Slurm has: digits of a number, and brackets of a name.
_DIGITS_MOST: Final = 9
_BRACKETS_MOST: Final = 8


def torchrun_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT of a rank of srun or mpirun, {} for any other.

    ``environment``: the rank's. Variables that it has already are as they are. Raises PlaceError where ranks of an
    mpirun are on several machines, since only the user knows which address of the first one the others reach.
    """
    theirs = next((names for names in (_SRUN, *_MPIRUNS) if all(name in environment for name in names.values())), None)
    if theirs is None:
        return {}
    found = {name: environment[theirs[name]] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    found["MASTER_ADDR"] = environment.get("MASTER_ADDR") or _master(environment, theirs)
    found["MASTER_PORT"] = _port([environment.get(name, "") for name in _JOBS])
    return {**found, **{name: environment[name] for name in found if name in environment}}


def allocated_hosts(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of the Slurm allocation around this program; () outside of one. Raises PlaceError."""
    text = environment.get("SLURM_JOB_NODELIST")
    return () if text is None else hosts(text)


def hosts(text: str) -> tuple[str, ...]:
    """Return the names in a host list as Slurm writes it. Raises PlaceError.

    Example: "gpu[08-10,12],login" has gpu08, gpu09, gpu10, gpu12 and login.
    """
    found: list[str] = []
    for word in _words(text):
        for name in _expanded(word, text):
            if len(found) == _HOSTS_MOST:
                raise _no_hosts(text, f"names more than {_HOSTS_MOST} hosts")
            found.append(name)
    if not found:
        raise _no_hosts(text, "names no host")
    return tuple(found)


def _master(environment: Mapping[str, str], names: Mapping[str, str]) -> str:
    if names is _SRUN:
        return hosts(environment.get("SLURM_STEP_NODELIST", ""))[0]
    if environment[names["local size"]] == environment[names["WORLD_SIZE"]]:
        return _LOOPBACK
    raise PlaceError(
        "mpirun has started ranks on several machines, and no MASTER_ADDR is in the environment: give all ranks an "
        "address of rank 0's machine that the others reach: `mpirun -x MASTER_ADDR=10.0.0.1` with Open MPI, "
        "`mpirun -genv MASTER_ADDR 10.0.0.1` with MPICH"
    )


def _port(job: Sequence[str]) -> str:
    """A port that all ranks of a launcher's job draw, and those of another one most often not."""
    return str(PORTS[zlib.crc32("/".join(job).encode()) % len(PORTS)])


def _words(text: str) -> Iterator[str]:
    """Split at the commas that are in no bracket."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    if text[begin:]:
        yield text[begin:]


def _expanded(word: str, text: str) -> Iterator[str]:
    before, opened, rest = word.partition("[")
    if not opened:
        yield word
        return
    inside, closed, after = rest.partition("]")
    if not closed or word.count("[") > _BRACKETS_MOST:
        raise _no_hosts(text, f"has a bracket that is not closed, or more than {_BRACKETS_MOST} in a name")
    for part in inside.split(","):
        first, _, last = part.partition("-")
        last = last or first
        are_numbers = all(one.isascii() and one.isdecimal() and len(one) <= _DIGITS_MOST for one in (first, last))
        if not are_numbers or int(first) > int(last):
            raise _no_hosts(text, f"has {shown(part)} in brackets, which is no number and no range")
        for number in range(int(first), int(last) + 1):
            yield from _expanded(f"{before}{number:0{len(first)}d}{after}", text)


def _no_hosts(text: str, why: str) -> PlaceError:
    return PlaceError(
        f"the host list {shown(text)} of Slurm's environment {why}: start the ranks by srun, or set MASTER_ADDR; "
        "with `sumwire up`, name the hosts: --hosts A,B"
    )


def check_numbers() -> None:
    """Raises PlaceError for numbers of the environment that no torchrun has set."""
    ranks = _number("WORLD_SIZE", 1, _RANKS_MAX)
    _number("RANK", 0, ranks - 1)
    _number("MASTER_PORT", 0, 65535)


def _number(name: str, least: int, most: int) -> int:
    text = os.environ[name]
    number = int(text) if text.isascii() and text.isdecimal() else -1
    if not least <= number <= most:
        raise PlaceError(
            f"{name} = {shown(text)} in the environment: must be a whole number in {least}..{most}: start the script "
            "by torchrun, which sets it, or correct it"
        )
    return number
