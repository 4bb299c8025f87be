# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Trainer of HuggingFace's transformers: a callback, and its gradients go through Sumwire.

python examples/trainer_ddp.py
"""

from __future__ import annotations

import tempfile

import loopback
import torch
import torch.distributed as dist
import transformers
from sumwire.start.trainer import SumwireCallback
from torch import Tensor, nn


class Regression(nn.Module):
    """Gives the loss, as the Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1))

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": nn.functional.mse_loss(self.net(inputs), labels)}


class Count(transformers.TrainerCallback):
    """Keeps what has gone through the network, before the job ends."""

    packets = 0

    def __init__(self, sumwire: SumwireCallback) -> None:
        self._sumwire = sumwire

    def on_step_end(self, args: object, state: object, control: object, **kwargs: object) -> None:
        self.packets = self._sumwire.job.stats.packets_sent


def main() -> None:
    """Train on the ranks that torchrun has started."""
    torch.manual_seed(1)
    model = Regression()
    inputs = torch.randn(1024, 32)
    samples = [{"inputs": x, "labels": x.sum().view(1) / 4} for x in inputs]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, use_cpu=True, max_steps=20, per_device_train_batch_size=64, learning_rate=0.01, report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True, ddp_backend="gloo",
        )  # fmt: skip
        trainer = transformers.Trainer(model, arguments, train_dataset=samples)
        sumwire = SumwireCallback(trainer, aggregator="rank0", address=loopback.address())
        count = Count(sumwire)
        trainer.add_callback(count)
        trainer.add_callback(sumwire)
        trainer.train()
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    assert torch.equal(mine, first), "all ranks have the same parameters, bit by bit"
    loopback.say(dist.get_rank(), f"{count.packets} packets sent by this rank; parameters are equal on all ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    loopback.under_torchrun(__file__, main, ranks=2)
