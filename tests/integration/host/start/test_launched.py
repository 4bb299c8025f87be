# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Programs with the three lines, started by Slurm's srun and by mpirun, or with the environment that these give.

SUMWIRE_CRDS names a folder with the CustomResourceDefinitions that Kubernetes' manifests are checked against: the files
`kubeflow.org_pytorchjobs.yaml` of Kubeflow's Training Operator and `jobset.x-k8s.io_jobsets.yaml` of JobSet.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from helpers.paths import ROOT

PROGRAM = """
import json, sys
import sumwire, torch, torch.distributed as dist

job = sumwire.init(aggregator="rank0", quiet=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2000, 1))
model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
rank = dist.get_rank()
model(torch.full((1, 2000), float(rank))).sum().backward()
gradient = model.module.weight.grad.mean().item()
print(json.dumps([rank, dist.get_world_size(), gradient, job.config.own_address.ip]), flush=True)
sys.stdin.read()
job.close()
dist.destroy_process_group()
"""
RANKS = 2
SECONDS = 120
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS))
SLURM = {"SLURM_STEP_NUM_TASKS": str(RANKS), "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_ID": "0"}


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    return [sys.executable, "-P", str(file)]


def assert_trained(printed: str) -> set[str]:
    """Each rank's gradient is the mean of all: 0.5 of 0 and 1. Return the addresses of the job."""
    # A launcher may put what two ranks have printed on one line.
    told = sorted(json.loads(one) for one in re.findall(r"\[[^]]*\]", printed))
    assert [rank[:2] for rank in told] == [[rank, RANKS] for rank in range(RANKS)]
    for _, _, gradient, _ in told:
        assert gradient == pytest.approx(0.5, rel=0.05)
    return {address for *_, address in told}


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(("srun", "-n", str(RANKS)), marks=pytest.mark.srun),
        pytest.param(MPIRUN, marks=pytest.mark.mpirun),
    ],
    ids=["srun", "mpirun"],
)
def test_launchers_of_clusters(launcher: tuple[str, ...], program: list[str]) -> None:
    done = subprocess.run(
        [*launcher, *program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert_trained(done.stdout)


def test_two_jobs_on_one_machine(program: list[str]) -> None:
    """Each with the environment of a job of Slurm, side by side: process groups and aggregators find their places."""

    def started(job: int, rank: int) -> subprocess.Popen[str]:
        own = {"SLURM_JOB_ID": str(job), "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}
        path = os.pathsep.join(path for path in sys.path if path.startswith(str(ROOT)))
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return subprocess.Popen(
            program, env={**environment, **SLURM, **own, "PYTHONPATH": path}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    jobs = [[started(os.getpid() + job, rank) for rank in range(RANKS)] for job in range(2)]
    ranks = [rank for job in jobs for rank in job]
    # All of them have a job before the first one ends.
    addresses = [assert_trained("".join(rank.stdout.readline() for rank in job)) for job in jobs]
    for rank in ranks:
        rank.stdin.close()
    assert [rank.wait(SECONDS) for rank in ranks] == [0] * 2 * RANKS
    assert [len(found) for found in addresses] == [1, 1]
    assert addresses[0] != addresses[1]


@pytest.mark.skipif("SUMWIRE_CRDS" not in os.environ, reason="SUMWIRE_CRDS names no folder of definitions")
@pytest.mark.parametrize("kind", ["pytorchjob", "jobset"])
def test_manifests_of_kubernetes(kind: str) -> None:
    manifest = yaml.safe_load((ROOT / "packaging" / "kubernetes" / f"{kind}.yaml").read_text())
    group, version = manifest["apiVersion"].split("/")
    spec = yaml.safe_load((Path(os.environ["SUMWIRE_CRDS"]) / f"{group}_{kind}s.yaml").read_text())["spec"]
    assert (spec["group"], spec["names"]["kind"]) == (group, manifest["kind"])
    schema = next(one for one in spec["versions"] if one["name"] == version)["schema"]["openAPIV3Schema"]
    # Its fields are of every kind of object.
    schema["properties"]["metadata"] = {"type": "object"}
    forbid_other_fields(schema)
    jsonschema.Draft7Validator(schema).validate(manifest)


def forbid_other_fields(schema: Any) -> None:
    """Kubernetes drops such fields without an error."""
    if isinstance(schema, dict) and "properties" in schema:
        schema.setdefault("additionalProperties", False)
    if isinstance(schema, dict | list):
        for inner in schema.values() if isinstance(schema, dict) else schema:
            forbid_other_fields(inner)
