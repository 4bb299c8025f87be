# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A callback for Lightning: with the strategy ddp, gradients go through a job.

from sumwire.start.lightning import SumwireCallback

trainer = lightning.Trainer(strategy="ddp", callbacks=[SumwireCallback()])
"""

from __future__ import annotations

from typing import Any

import lightning

from sumwire.start.attach import Attachment


class SumwireCallback(lightning.Callback):
    """The callback. ``options``: those of :func:`sumwire.init`.

    With a strategy other than ddp, or a single rank, it does nothing and logs why.
    """

    def __init__(self, **options: Any) -> None:
        self._attachment = Attachment(**options)

    @property
    def job(self) -> Any:
        """The job of the training under way, or None without a training."""
        return self._attachment.job

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Open the job, now that Lightning has wrapped the model."""
        # Plugins other than that of "16-mixed" have no such attribute, or None.
        self._attachment.attach(trainer.strategy.model, getattr(trainer.precision_plugin, "scaler", None))

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Close the job together with all other ranks."""
        self._attachment.close()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Close the job without waiting for the other ranks, which may never come."""
        self._attachment.close(agree=False)
