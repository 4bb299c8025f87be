# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Work objects that collectives of the backend return, hidden from torch.compile. Used by `group`.

DistributedDataParallel under torch.compile calls a group while Dynamo traces the thread. Dynamo would trace into a
group that is defined in Python and fail, so :func:`dynamo_disabled` disables it in all methods that torch calls.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from torch.distributed import ProcessGroup
from torch.futures import Future, collect_all

from sumwire.training.comm_thread import wait_for
from sumwire.training.ddp import raise_from_backward

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work
else:
    from torch.distributed import Work

# The names of methods in torch's own classes.
_CALLED_BY_TORCH: Final = frozenset(
    name for kind in (ProcessGroup, Work) for name in dir(kind) if not name.startswith("__")
)


def dynamo_disabled(kind: type) -> type:
    """Class decorator: disable Dynamo in all methods that torch calls."""
    for name, method in list(vars(kind).items()):
        if name in _CALLED_BY_TORCH and callable(method):
            setattr(kind, name, _dynamo_disabled(method))
    return kind


def _dynamo_disabled(method: Callable[..., Any]) -> Callable[..., Any]:
    quiet: list[Callable[..., Any]] = []

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        # Dynamo takes seconds to load, and without it nothing is traced.
        disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
        if disable is None:
            return method(*arguments, **named)
        if not quiet:
            quiet.append(disable(method))
        return quiet[0](*arguments, **named)

    return call


@dynamo_disabled
class NetworkWork(Work):
    """A collective through the network. Its future holds the list of its output tensors."""

    def __init__(self, future: Future[Any]) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the collective; Ctrl-C ends the wait. Raises the collective's error, or RuntimeError after the
        timeout."""
        if timeout:
            done = threading.Event()
            self._future.add_done_callback(lambda _: done.set())
            if not done.wait(timeout.total_seconds()):
                raise RuntimeError(f"the collective is not over after {timeout.total_seconds():g} s")
        wait_for(self._future)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._future.done()

    def is_success(self) -> bool:
        return self._future.done() and self.exception() is None

    def exception(self) -> Any:
        """Return the error of a collective that has failed."""
        if not self._future.done():
            return None
        try:
            self._future.value()
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller asked for it
            return error
        return None

    def result(self) -> Any:
        return wait_for(self._future)

    def get_future(self) -> Future[Any]:
        # DDP's reducer takes the value of a future that has failed for a list of tensors, and reads memory that is
        # none. So the backward pass raises the error before it looks.
        raise_from_backward(self._future)
        return self._future


@dynamo_disabled
class JointWork(Work):
    """Several collectives as one Work. NCCL returns None for a call that is not asynchronous: there is nothing to wait
    for."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__()
        self._works = [work for work in works if work is not None]

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end of all collectives."""
        for work in self._works:
            work.wait(timeout) if timeout else work.wait()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def get_future(self) -> Future[Any]:
        return _joined([work.get_future() for work in self._works])


def _joined(futures: list[Future[Any]]) -> Future[Any]:
    """Holds the outputs of all, in their order."""

    def outputs(all_done: Future[Any]) -> list[Any]:
        return [tensor for future in all_done.value() for tensor in future.value()]

    return collect_all(futures).then(outputs)
