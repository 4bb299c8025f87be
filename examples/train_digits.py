# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A training script for `sumwire profile-loss`: scikit-learn's digits, in a few seconds.

    sumwire profile-loss examples/train_digits.py --seeds 2

A network of 64, 512, 512 and 10 units (300,554 values, 294 packets a step) and SGD with momentum.
SUMWIRE_LOSS_SEED starts its own draws too, so that each seed is another training.
"""

from __future__ import annotations

import argparse
import math
import os
import sys

import torch
from sumwire.dlcp import packet_loss
from torch import nn


def main() -> None:
    """Train, and print the share of test images that are told right."""
    from sklearn.datasets import load_digits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ.get(packet_loss.SEED, "0")))
    images, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((images - images.mean()) / images.std()).float()
    y = torch.from_numpy(labels)
    # The split is part of the task, not of a seed.
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(7))
    test, train = order[: len(x) // 4], order[len(x) // 4 :]

    hidden = options.hidden
    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    batches = math.ceil(len(train) / options.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * batches)
    loss = packet_loss.from_environment()
    for _ in range(options.epochs):
        for chosen in torch.split(train[torch.randperm(len(train))], options.batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()  # type: ignore[no-untyped-call]
            loss.drop(model.parameters())
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        right = (model(x[test]).argmax(1) == y[test]).float().mean()
    sys.stdout.write(f"accuracy: {float(right):.4f}\n")


if __name__ == "__main__":
    main()
