# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From a wheel to a training, as somebody who comes anew: eight servers as network namespaces, and empty environments.

All of it is long: `make verify-ways` runs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers.needs import missing
from helpers.paths import ROOT
from helpers.start.servers import servers
from helpers.wheel.environment import build_wheel, environment_with, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
SERVERS = 8
EXAMPLES = ROOT / "examples"
# What their last line has; the others need more than a wheel, or are helped by a command.
RUNNING = {
    "all_reduce.py": "error of the mean",
    "custom_codec.py": "largest error of the mean",
    "ddp.py": "parameters are equal on all ranks",
    "diloco.py": "parameters are equal on all ranks",
    "fsdp2.py": "packets sent by this rank",
    "marsit.py": "rounds of signs",
    "min32.py": "minima of 4 ranks",
    "systems_over_group.py": "marsit-ring",
    "three_lines.py": "packets sent by this rank",
}
FRAMEWORKS = ("accelerate_ddp.py", "lightning_ddp.py", "trainer_ddp.py")
TRAINING = """
import sumwire
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(300, 30))
job = sumwire.init()
model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(100 + dist.get_rank())
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 300)).square().mean().backward()
    optimizer.step()
flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
everyone = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
dist.all_gather(everyone, flat)
assert all(torch.equal(flat, other) for other in everyone)
print("rank", dist.get_rank(), "workers", job.workers, "packets", job.stats.packets_sent)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


class Console:
    """Starts commands on servers, and counts them."""

    def __init__(self) -> None:
        self.commands: Counter[str] = Counter()

    def start(self, what: str, server: str, folder: Path, *words: str) -> subprocess.Popen[str]:
        self.commands[what] += 1
        # gloo would look up this machine's name, which all namespaces share.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            ["ip", "netns", "exec", server, *words],
            cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.mark.root
def test_eight_servers(wheel: Path, tmp_path: Path) -> None:
    """One install and one start a server, and one `sumwire up`. Nobody writes a file but the training script."""
    console = Console()
    homes = [tmp_path / f"server{number}" for number in range(SERVERS)]
    commands = []
    for home in homes:
        home.mkdir()
        commands.append(environment_with(wheel, home / "environment"))
        console.commands["install"] += 1
        (home / "train.py").write_text(TRAINING)
    hosts = ",".join(f"10.0.0.{number}" for number in range(1, SERVERS + 1))
    with servers(SERVERS) as names:
        up = console.start("up", names[0], homes[0], str(commands[0] / "sumwire"), "up", "--hosts", hosts)
        assert up.stdout is not None
        said = []
        for line in up.stdout:
            said.append(line)
            if line.startswith("ready:"):
                break
        assert said and said[-1].startswith("ready: 10.0.0.1:21335"), said
        trainings = [
            console.start(
                "start", name, home, str(own / "python"), "-m", "torch.distributed.run", "--nnodes", str(SERVERS),
                "--nproc-per-node", "1", "--node-rank", str(number), "--master-addr", "10.0.0.1", "train.py",
            )
            for number, (name, home, own) in enumerate(zip(names, homes, commands, strict=True))
        ]  # fmt: skip
        outputs = [training.communicate(timeout=600)[0] for training in trainings]
        up.terminate()
        rest, _ = up.communicate(timeout=300)
    for number, (training, output) in enumerate(zip(trainings, outputs, strict=True)):
        assert training.returncode == 0, output
        assert f"rank {number} workers {SERVERS} packets" in output
        assert " packets 0" not in output
    assert "found at http://10.0.0.1:21334: worker 0 of 8 at 10.0.0.1" in outputs[0]
    assert up.returncode == 0 and rest.endswith("stopped\n"), rest
    assert console.commands == {"install": SERVERS, "up": 1, "start": SERVERS}
    assert [sorted(path.name for path in home.iterdir()) for home in homes] == [["environment", "train.py"]] * SERVERS


def test_examples_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """With nothing of the checkout on the path. Those of frameworks where these are installed."""
    python = str(environment_with(wheel, tmp_path / "environment") / "python")
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    wanted = dict(RUNNING)
    if missing("frameworks") is None:
        wanted |= dict.fromkeys(FRAMEWORKS, "parameters are equal on all ranks")
    for name, words in wanted.items():
        printed = run([python, name], folder, patience_s=300.0)
        assert words in printed.strip().splitlines()[-1], f"{name}: {printed}"


def test_wheel_and_torch_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Installed from the package index, with all that it needs, and without what only the controller needs."""
    environment = tmp_path / "environment"
    run([sys.executable, "-m", "venv", str(environment)], tmp_path)
    python = str(environment / "bin" / "python")
    try:
        run([python, "-m", "pip", "install", "--quiet", f"{wheel}[host]"], tmp_path, patience_s=900.0)
    except AssertionError as error:
        pytest.skip(f"the package index is not reachable: {str(error)[-300:]}")
    listed = run([python, "-m", "pip", "list", "--format=freeze"], tmp_path)
    assert "torch==" in listed and "protobuf" not in listed and "grpcio" not in listed
    run([python, "-m", "pip", "check"], tmp_path)
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    printed = run([python, "three_lines.py"], tmp_path / "examples", patience_s=300.0)
    assert "packets sent by this rank" in printed.strip().splitlines()[-1]
