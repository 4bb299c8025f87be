# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One StreamChannel call: what its controller sends goes to the service, what its stream queues goes to the controller.

A call costs no thread while nothing comes. Until its controller has taken part in an election it counts among those
that wait for their caller.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import grpc.aio
from commonlib.events import ProgramEvent
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.calls import Call, Waiting
from softswitch.p4runtime.errors import InternalError, InvalidArgumentError, P4RuntimeError
from softswitch.p4runtime.messages import parse
from softswitch.p4runtime.service import Service
from softswitch.p4runtime.stream import Stream

#: Packet-ins waiting for a controller that does not read; more are dropped.
PACKET_IN_QUEUE = 1024
#: Arbitration and error messages waiting for it. With more of them no message of the controller is taken.
_REPLIES = 16
_MESSAGE_BYTES = 1 << 20

_log = logging.getLogger("softswitch")


class Channel:
    """``threads`` handle messages: they may have to wait for a Write."""

    def __init__(self, service: Service, context: Any, call: Call, waiting: Waiting, threads: Executor) -> None:
        self._service = service
        self._context = context
        self._call = call
        self._waiting = waiting
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._handling: asyncio.Future[None] | None = None
        self.stream = Stream(PACKET_IN_QUEUE, self._changed)
        self._listening = asyncio.create_task(self._listen())
        self.ending = asyncio.create_task(self._end())

    def _changed(self) -> None:
        if not self._news.is_set():
            with suppress(RuntimeError):  # the loop is closed, and so is the stream
                self._loop.call_soon_threadsafe(self._news.set)

    async def run(self) -> None:
        """Send what is queued until the stream ends. Raises the error that it ends with."""
        try:
            while not self.stream.ended:
                self._news.clear()
                while (message := self.stream.take()) is not None:
                    await self._context.write(message.SerializeToString())
                    self._room.set()
                if not self.stream.ended:
                    await self._news.wait()
            self.stream.take()  # raises the error, if there is one
        finally:
            self._listening.cancel()
            await asyncio.wait([self.ending])

    async def _listen(self) -> P4RuntimeError | None:
        """Until the controller closes its side, vanishes, breaks a rule of arbitration, or the server stops."""
        try:
            while (raw := await self._next()) is not grpc.aio.EOF:
                self._handling = self._loop.run_in_executor(self._threads, self._handle, raw)
                await asyncio.shield(self._handling)
        except P4RuntimeError as error:
            return error
        except grpc.aio.BaseError:  # the controller has gone
            return None
        return None

    async def _end(self) -> None:
        """After the listening, also where it was cancelled. Nobody cancels this."""
        await asyncio.wait([self._listening])
        if self._handling is not None:
            await asyncio.wait([self._handling])  # it may make this controller the primary
            self._handling.exception()
        await self._loop.run_in_executor(self._threads, self._service.roles.disconnect, self.stream)
        self.stream.close(self._outcome())

    def _outcome(self) -> P4RuntimeError | None:
        """What the stream ends with, after the listening."""
        if self._listening.cancelled():
            return None
        failure = self._listening.exception()
        if failure is None:
            return self._listening.result()
        told = ProgramEvent.THREAD_FAILED(reason=f"{type(failure).__name__}: {failure}")
        _log.error("the reader of a stream failed", exc_info=failure, extra=told)
        return InternalError("the stream's reader failed; see the switch's log")

    async def _next(self) -> Any:
        while self.stream.replies >= _REPLIES:
            self._room.clear()
            await self._room.wait()
        message = self._context.read()
        if self._service.roles.knows(self.stream):
            return await message
        return await self._waiting.until(self._call, message)

    def _handle(self, raw: bytes) -> None:
        if len(raw) > _MESSAGE_BYTES:
            raise InvalidArgumentError(f"a stream message has at most {_MESSAGE_BYTES} bytes, this one {len(raw)}")
        self._service.stream_message(self.stream, parse(p4runtime_pb2.StreamMessageRequest, raw))
