# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A callback for the Trainer of HuggingFace's transformers.

from sumwire.start.trainer import SumwireCallback

trainer = transformers.Trainer(model, arguments, train_dataset=dataset)
trainer.add_callback(SumwireCallback(trainer))
"""

from __future__ import annotations

from typing import Any

import transformers

from sumwire.start.attach import Attachment


class SumwireCallback(transformers.TrainerCallback):
    """The callback. ``trainer``: the Trainer to which it is added. ``options``: those of :func:`sumwire.init`.

    If the Trainer has not wrapped its model for several ranks, it does nothing and logs why.
    """

    def __init__(self, trainer: transformers.Trainer, **options: Any) -> None:
        self._trainer = trainer
        self._attachment = Attachment(**options)

    @property
    def job(self) -> Any:
        """The job of the training under way, or None without a training."""
        return self._attachment.job

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the job, now that the Trainer has wrapped the model."""
        self._attachment.attach(self._trainer.model_wrapped, self._trainer.accelerator.scaler)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the job together with all other ranks."""
        self._attachment.close()
