# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lightning: a callback, and gradients of the strategy ddp go through Sumwire. Lightning starts the second rank.

python examples/lightning_ddp.py
"""

from __future__ import annotations

import lightning
import loopback
import torch
from sumwire.start.lightning import SumwireCallback
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    """A quarter of the sum of 32 numbers, as a network learns it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1))

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        inputs, targets = batch
        return nn.functional.mse_loss(self.net(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Count(lightning.Callback):
    """Says at the end what has gone through the network."""

    def __init__(self, sumwire: SumwireCallback) -> None:
        self._sumwire = sumwire

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        packets = self._sumwire.job.stats.packets_sent
        mine = torch.cat([parameter.detach().flatten() for parameter in pl_module.parameters()])
        everyone = trainer.strategy.all_gather(mine)
        assert bool((everyone == mine).all()), "all ranks have the same parameters, bit by bit"
        loopback.say(trainer.global_rank, f"{packets} packets sent by this rank; parameters are equal on all ranks")


def main() -> None:
    """Train on two ranks of this machine."""
    torch.manual_seed(1)
    inputs = torch.randn(1024, 32)
    batches = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True) / 4), batch_size=64)
    sumwire = SumwireCallback(aggregator="rank0", address=loopback.address())
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, callbacks=[Count(sumwire), sumwire],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Regression(), batches)


if __name__ == "__main__":
    main()
