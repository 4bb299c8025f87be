# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a collective of the backend returns while it is under way."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch.futures import Future

from sumwire.backend.untraced import untraced
from sumwire.training.comm_thread import wait_for

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work
else:
    from torch.distributed import Work


@untraced
class NetworkWork(Work):
    """A collective through the network. Its future holds the list of its output tensors."""

    def __init__(self, future: Future[Any]) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end; Ctrl-C ends the wait. Raises the collective's error; RuntimeError after the time-out."""
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
        """The error of a collective that has failed."""
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
        return self._future


@untraced
class JointWork(Work):
    """Several collectives as one. NCCL has none to wait for where a call is not asynchronous: None."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__()
        self._works = [work for work in works if work is not None]

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end of all."""
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
    from torch.futures import collect_all

    def outputs(all_done: Future[Any]) -> list[Any]:
        return [tensor for future in all_done.value() for tensor in future.value()]

    return collect_all(futures).then(outputs)
