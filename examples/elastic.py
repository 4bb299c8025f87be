# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training whose ranks come and go. Start the service, then this script once for each rank, and kill one of them:

sumwire up --hosts 127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1 --elastic 1
SUMWIRE_SERVICE=127.0.0.1 python elastic.py
"""

import argparse
import hashlib

import sumwire
import torch
from sklearn.datasets import load_digits
from torch import nn

BATCH = 256
TEST = 360


def fingerprint(model: nn.Module) -> str:
    parameters = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
    return hashlib.sha256(b"".join(parameters)).hexdigest()[:16]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=300)
    steps = options.parse_args().steps
    torch.set_num_threads(1)
    torch.manual_seed(1)
    digits = load_digits()
    inputs, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    with sumwire.elastic(model, optimizer) as training:
        while training.step < steps:
            training.begin()
            # The batch of a step is the same whoever is there: it is divided among the ranks of this step.
            drawn = torch.Generator().manual_seed(training.step)
            rows = torch.randint(TEST, len(inputs), (BATCH,), generator=drawn)[training.rank :: training.ranks]
            loss = nn.functional.cross_entropy(training.model(inputs[rows]), labels[rows])
            loss.backward()
            counts = training.commit()
            if not counts or training.step % 50 == 0:
                what = f"loss {float(loss):.3f}" if counts else "comes to nothing, and is made again"
                print(f"step {training.step} of {training.ranks} ranks: {what}", flush=True)
    right = model(inputs[:TEST]).argmax(1) == labels[:TEST]
    print(f"accuracy {float(right.float().mean()):.3f}, parameters {fingerprint(model)}")


if __name__ == "__main__":
    main()
