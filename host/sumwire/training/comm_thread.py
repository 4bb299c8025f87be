# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One thread that communicates, so that the caller's can go on computing.

All workers must make the same calls of a job or process group in the same order. Whoever submits in the same order on
all workers gets that: calls run one after the other, as they came.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.futures import Future

from sumwire.errors import ClosedError

_Result = TypeVar("_Result")


class CommThread:
    """Runs calls in the order they were submitted. ``name`` is of its owner, for errors.

    The thread starts with the first call, and is a daemon: a program that ends without :meth:`close` does not hang.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        # Of what is above: nothing may be queued behind the end.
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether the thread is there now."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, call: Callable[[], _Result], device: torch.device | None = None) -> Future[_Result]:
        """Queue a call. Its future holds what it returns, or raises what it raises; calls behind it run all the same.

        ``device``: of the result's tensors where that is a GPU. Raises ClosedError after :meth:`close`.
        """
        future: Future[_Result] = Future(devices=[device] if device is not None and device.type == "cuda" else None)
        with self._lock:
            if self._closed:
                raise ClosedError(f"{self.name} is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sumwire", daemon=True)
                self._thread.start()
            self._calls.put((call, future))
        return future

    def close(self) -> None:
        """End the thread; calls that still wait are done first. Closing twice is allowed."""
        with self._lock:
            if not self._closed and self._thread is not None:
                self._calls.put(None)
            self._closed = True
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while (task := self._calls.get()) is not None:
            call, future = task
            try:
                result = call()
            except Exception as error:  # noqa: BLE001 - whatever it is, who waits must get it and not wait for ever
                future.set_exception(error)
            else:
                future.set_result(result)
