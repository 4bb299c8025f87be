# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A thread that communicates while the caller's thread computes.

All workers must make the calls of a job or process group in the same order. The thread runs calls one after the other
in the order of submission, so it is enough to submit them in the same order on all workers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.futures import Future

from sumwire.errors import ClosedError
from sumwire.training.streams import on

_Result = TypeVar("_Result")


class CommThread:
    """Runs calls in the order of submission. ``name`` names the owner in errors.

    The thread starts with the first call. It is a daemon, so a program that ends without :meth:`close` does not hang.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any], torch.device | None] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._closed = False
        # Guards the attributes above: no call may be queued after the end.
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, call: Callable[[], _Result], device: torch.device | None = None) -> Future[_Result]:
        """Queue a call. Its future holds what the call returns, or raises its error; later calls run in either case.

        ``device`` is that of the result's tensors; if it is a GPU it is the call's current one. Raises ClosedError
        after :meth:`close`.
        """
        future: Future[_Result] = Future(devices=[device] if device is not None and device.type == "cuda" else None)
        with self._lock:
            if self._closed:
                raise ClosedError(f"{self.name} is closed; make a new one")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sumwire", daemon=True)
                self._thread.start()
            self._calls.put((call, future, device))
        return future

    def close(self) -> None:
        """End the thread after all queued calls. Closing twice is allowed."""
        with self._lock:
            if not self._closed and self._thread is not None:
                self._calls.put(None)
            self._closed = True
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while (task := self._calls.get()) is not None:
            call, future, device = task
            try:
                with on(device):
                    result = call()
            except Exception as error:  # noqa: BLE001 - any error goes to the future, or its owner would wait for ever
                future.set_exception(error)
            else:
                future.set_result(result)


def wait_for(future: Future[_Result]) -> _Result:
    """The future's value, or its error. Ctrl-C ends the wait, which it would not in torch's own."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait()
    return future.wait()
