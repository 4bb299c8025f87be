# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A plain DistributedDataParallel script on scikit-learn's digits, for torchrun. It does not use Sumwire.

:mod:`sumwire_lab.experiments.added_lines` adds three lines to it. Usage: plain_ddp.py SEED EPOCHS
"""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sumwire_lab.training import digits_data

BATCH = 32


def main(seed: int, epochs: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    data = digits_data.load()
    torch.manual_seed(seed)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(digits_data.FEATURES, 256), nn.ReLU(), nn.Linear(256, digits_data.CLASSES))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(epochs * digits_data.steps_per_epoch(len(data.train_x), ranks, BATCH)):
        chosen = digits_data.batch_indices(len(data.train_x), seed, step, rank=rank, workers=ranks, batch=BATCH)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data.train_x[chosen]), data.train_y[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    if rank == 0:
        right = (model.module(data.test_x).argmax(1) == data.test_y).float().mean()
        sys.stdout.write(json.dumps({"accuracy": float(right)}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
