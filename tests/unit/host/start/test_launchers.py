# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the environments of srun and mpirun stand for, and the hosts of a Slurm allocation."""

from __future__ import annotations

import pytest
from helpers.paths import ROOT
from sumwire.start.errors import PlaceError
from sumwire.start.launchers import allocated_hosts, hosts, torchrun_variables

SRUN = {
    "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "gpu[08-09]",
    "SLURM_JOB_ID": "71", "SLURM_STEP_ID": "0",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "743243777",
}  # fmt: skip
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
ON_TWO_MACHINES = OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        (SRUN, {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "gpu08"}),
        (OPEN_MPI, {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1"}),
        (HYDRA | {"MASTER_ADDR": "a"}, {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "a"}),
        # srun's --mpi=pmi2 sets variables of MPI too, and knows the hosts.
        (SRUN | HYDRA, {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "gpu08"}),
        # What the user has set stays.
        (SRUN | {"MASTER_ADDR": "a"}, {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}),
    ],
)
def test_what_torchrun_would_have_told(environment: dict[str, str], found: dict[str, str]) -> None:
    told = torchrun_variables(environment)
    assert 15_000 <= int(told.pop("MASTER_PORT")) < 25_000, "below the ephemeral ports"
    assert told == found
    assert torchrun_variables(environment | {"MASTER_PORT": "4711"})["MASTER_PORT"] == "4711"


def test_no_rank_of_a_launcher() -> None:
    """The script of `sbatch`, and a shell of `salloc`, have SLURM_NTASKS; the script even SLURM_PROCID."""
    batch = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "a[1-4]"}
    for environment in ({}, batch, {"PMI_RANK": "0"}):
        assert torchrun_variables(environment) == {}


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE"])
def test_jobs_of_one_machine_have_ports_of_their_own(name: str) -> None:
    base = SRUN if name.startswith("SLURM") else OPEN_MPI
    ports = {torchrun_variables(base | {name: str(number)})["MASTER_PORT"] for number in range(20)}
    assert len(ports) >= 19, "two of 20 may draw the same"


def test_an_mpirun_over_machines_is_told_the_first_one() -> None:
    with pytest.raises(PlaceError, match=r"several machines, and no MASTER_ADDR .* `mpirun -x MASTER_ADDR=10.0.0.1`"):
        torchrun_variables(ON_TWO_MACHINES)
    assert torchrun_variables(ON_TWO_MACHINES | {"MASTER_ADDR": "10.0.0.1"})["MASTER_ADDR"] == "10.0.0.1"


def test_the_page_has_the_message() -> None:
    with pytest.raises(PlaceError) as error:
        torchrun_variables(ON_TWO_MACHINES)
    assert f"```text\n{error.value}\n```" in (ROOT / "docs" / "clusters.md").read_text()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("vm", ["vm"]),
        ("gpu[08-10,12],login", ["gpu08", "gpu09", "gpu10", "gpu12", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a-1,b-[9-10].x.org", ["a-1", "b-9.x.org", "b-10.x.org"]),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    """As `scontrol show hostnames` prints them."""
    assert list(hosts(text)) == names
    assert list(allocated_hosts({"SLURM_JOB_NODELIST": text})) == names
    assert allocated_hosts({}) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no host"),
        ("a[1-2", "a bracket that is not closed"),
        ("a[x-2]", "has 'x-2' in brackets"),
        ("a[2-1]", "has '2-1' in brackets"),
        ("a[]", "has '' in brackets"),
        (f"a[1-{'9' * 5000}]", "in brackets"),
        ("a" + "[1]" * 2000, "more than 8 in a name"),
        ("a[0-99999]b[0-99999]", "more than 100000 hosts"),
    ],
)
def test_host_lists_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(PlaceError, match="of Slurm's environment") as error:
        hosts(text)
    assert why in str(error.value)
    assert str(error.value).endswith("with `sumwire up`, name the hosts: --hosts A,B")
