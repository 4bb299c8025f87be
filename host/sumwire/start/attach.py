# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Connects Sumwire to a training framework: registers the hook for a model that the framework has wrapped, and closes
the job.

Used by the callbacks in `lightning` and `trainer`.
"""

# Without `from __future__ import annotations`: DDP reads the types of its hook.
import logging
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch.distributed as dist
from commonlib.untrusted import shown
from sumwire_protocol.events import Event
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from sumwire.errors import UsageError
from sumwire.job.gloo import available
from sumwire.start.script import check_options, init
from sumwire.training.ddp import DdpState, check_ranks, ddp_hook
from sumwire.training.hierarchical import AnyJob

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket
else:
    from torch.distributed import GradBucket

_LOG: Final = logging.getLogger("sumwire")


class _HookState:
    """The state of a model's hook: that of the current training, or of the last one.

    It must not refer to the model: torch's C++ holds the hook, so Python could never free such a model.
    """

    state: DdpState | None = None


class Attachment:
    """The job and the hook of one training. ``options``: those of :func:`sumwire.init`, and of Job.

    :meth:`attach` and :meth:`close` may be called more than once. Raises UsageError for an unknown option.
    """

    def __init__(self, **options: Any) -> None:
        check_options(options)
        if options.get("system") is not None:
            raise UsageError(
                f"system = {shown(options['system'])}: a framework's callback sums by a job: leave it out, or register "
                "the hook of sumwire.init(system=...).hook_for(model) in place of the callback"
            )
        self._options = options
        self._hooked: weakref.ref[nn.Module] | None = None
        self._now = _HookState()
        self.job: AnyJob | None = None

    def attach(self, model: object, scaler: GradScaler | None = None) -> bool:
        """Register the hook if ``model`` is a DistributedDataParallel of several ranks; else log why not.

        ``scaler``: the framework's GradScaler, see :class:`sumwire.DdpState`. A collective call of all ranks. Returns
        whether gradients go through the job from now on.
        """
        hooked = self._hooked is not None and self._hooked() is model
        if hooked and self.job is not None:
            return True
        why = reason_for_nothing(model)
        if why:
            _tell(f"sumwire does nothing: {why}")
            return False
        assert isinstance(model, DistributedDataParallel)
        if self.job is None:
            self.job = init(**self._options)
        check_ranks(model, self.job)
        self._now.state = DdpState(self.job, scaler=scaler)
        # torch takes one hook for a model's life, and a framework may train the same model again.
        if not hooked:
            model.register_comm_hook(self._now, _hook_of_now)
            self._hooked = weakref.ref(model)
        return True

    def close(self, *, agree: bool = True) -> None:
        """End the job, as :meth:`sumwire.Job.close` describes."""
        if self.job is not None:
            self.job.close(agree=agree)
            self.job = None


def _hook_of_now(now: _HookState, bucket: GradBucket) -> Future[Tensor]:
    """DDP communication hook of the current training. After its end it raises the closed job's error."""
    assert now.state is not None
    return ddp_hook(now.state, bucket)


def reason_for_nothing(model: object) -> str:
    """Return why there is nothing to do for a model; "" if there is."""
    if not available() or dist.get_world_size() == 1:
        return "there is one rank only: start several, with the strategy ddp"
    if not isinstance(model, DistributedDataParallel):
        return f"the model is a {type(model).__name__}, not a DistributedDataParallel: choose the strategy ddp"
    return ""


def _tell(line: str) -> None:
    # Python shows a warning on stderr where the script has chosen no log.
    _LOG.warning(line, extra=Event.NOTHING_TO_DO(reason=line))
