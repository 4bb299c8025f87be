# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The whole of DDP under torch's tracer, which looks on while DDP calls a group of the backend."""

from __future__ import annotations

import subprocess
import sys

# "eager": without the compiler, which takes minutes. One rank: a tracer takes seconds to load.
_SCRIPT = """
import sumwire, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("sumwire", store=dist.HashStore(), rank=0, world_size=1)
plain = torch.nn.Linear(8, 8)
model = torch.compile(DistributedDataParallel(plain), backend="eager")
for step in range(3):
    model(torch.ones(4, 8)).square().sum().backward()
print(plain.weight.grad.abs().sum() > 0)
"""


def test_a_compiled_ddp() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "tensor(True)" in done.stdout
