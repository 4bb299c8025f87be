# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The service's gRPC methods: convert bytes to messages and back, run a thread per stream, and report errors to
clients."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import grpc
import grpc.aio
from commonlib.events import ProgramEvent
from p4.v1 import p4runtime_pb2

from softswitch.events import SwitchEvent
from softswitch.p4runtime.batching import parse, parse_write
from softswitch.p4runtime.calls import Answers, Call, Stream, Turns, WaitingCalls
from softswitch.p4runtime.errors import (
    BatchError,
    InternalError,
    InvalidArgumentError,
    P4RuntimeError,
    ResourceExhaustedError,
    UnavailableError,
)
from softswitch.p4runtime.read import EntityReader
from softswitch.p4runtime.roles import MAX_CONTROLLERS
from softswitch.p4runtime.service import API_VERSION, P4RuntimeService

#: Packet-ins waiting for a controller that does not read; more are dropped.
PACKET_IN_QUEUE = 1024
#: Arbitration and error messages waiting for it. With more of them no message of the controller is taken.
_REPLIES = 16
_MESSAGE_BYTES = 1 << 20

_log = logging.getLogger("softswitch")


class Channel:
    """One client's stream. ``threads`` handle its messages, because these may have to wait for a Write."""

    def __init__(
        self, service: P4RuntimeService, context: Any, call: Call, waiting: WaitingCalls, threads: Executor
    ) -> None:
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
        """Send queued messages until the stream ends. Raises the error that it ends with."""
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


_LOG = logging.getLogger("softswitch")

T = TypeVar("T")

#: Calls that wait for their caller, streams without an election among them.
MAX_WAITING = 128
MAX_READS = 32
MAX_WRITES = 256
#: Of programs that callers have asked for and not taken yet. The committed one has 6 MiB.
MAX_ANSWER_BYTES = 32 << 20
_WRITE_THREADS = 8
#: A ReadRequest is taken apart in one piece of work, which takes as long as a piece of reading for each so many bytes.
_READ_REQUEST_BYTES = 256 << 10
_PIECE_BYTES = 512
_SAID_EVERY_S = 10.0
_SAID_MOST = 400
_said_at: dict[str, float] = {}
_STATUS_CODES = {status.value[0]: status for status in grpc.StatusCode}


class Rpcs:
    """One method for each RPC, named as in p4runtime.proto."""

    def __init__(self, service: P4RuntimeService) -> None:
        self._service = service
        self._write_threads = ThreadPoolExecutor(_WRITE_THREADS, "p4runtime-write")
        self._read_thread = ThreadPoolExecutor(1, "p4runtime-read")
        self._stream_threads = ThreadPoolExecutor(MAX_CONTROLLERS, "p4runtime-stream")
        self._waiting = WaitingCalls(MAX_WAITING)
        self._turns = Turns(self._read_thread, MAX_READS)
        self._answers = Answers(MAX_ANSWER_BYTES)
        self._writes = 0
        self._channels: set[Channel] = set()

    def handlers(self) -> Any:
        """Return the handlers for a server of ``grpc.aio``."""
        unary, streamed = grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            "p4.v1.P4Runtime",
            {
                "Write": unary(self.Write),
                "Read": streamed(self.Read),
                "SetForwardingPipelineConfig": unary(self.SetForwardingPipelineConfig),
                "GetForwardingPipelineConfig": streamed(self.GetForwardingPipelineConfig),
                "StreamChannel": streamed(self.StreamChannel),
                "Capabilities": unary(self.Capabilities),
            },
        )

    async def Write(self, _requests: Any, context: Any) -> bytes:  # noqa: N802
        async with _refusals(context) as call:
            raw = await self._message(call, context)
            await self._write(lambda: self._service.write(parse_write(raw)))
        return bytes(p4runtime_pb2.WriteResponse().SerializeToString())

    async def SetForwardingPipelineConfig(self, _requests: Any, context: Any) -> bytes:  # noqa: N802
        kind = p4runtime_pb2.SetForwardingPipelineConfigRequest
        async with _refusals(context) as call:
            raw = await self._message(call, context)
            await self._write(lambda: self._service.set_pipeline(parse(kind, raw)))
        return bytes(p4runtime_pb2.SetForwardingPipelineConfigResponse().SerializeToString())

    async def GetForwardingPipelineConfig(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Return the pipeline's configuration. The single message is sent as a stream, to notice when the client has
        read it."""
        async with _refusals(context) as call:
            await self._send_pipeline(call, context, await self._message(call, context))

    # What has an answer is not the RPC's own coroutine: grpc.aio keeps that one's frame with the error of an abort
    # until garbage is collected.

    async def _send_pipeline(self, call: Call, context: Any, raw: bytes) -> None:
        kind = p4runtime_pb2.GetForwardingPipelineConfigRequest
        with self._turns.taking_part(call):
            answer = await self._turns.run(
                call, lambda: bytes(self._service.get_pipeline(parse(kind, raw)).SerializeToString())
            )
        with self._answers.holding(len(answer)):
            await context.write(answer)

    async def Capabilities(self, _requests: Any, context: Any) -> bytes:  # noqa: N802
        async with _refusals(context) as call:
            await self._message(call, context)
        answer = p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)
        return bytes(answer.SerializeToString())

    async def Read(self, _requests: Any, context: Any) -> None:  # noqa: N802
        async with _refusals(context) as call:
            raw = await self._message(call, context)
            await _open(context)
            await self._send_read(call, context, raw)

    async def _send_read(self, call: Call, context: Any, raw: bytes) -> None:
        with self._turns.taking_part(call, len(raw) // _PIECE_BYTES):
            reading, piece = await self._turns.run(call, lambda: self._begin(raw))
            while True:
                if piece:
                    await self._waiting.until(call, context.write(piece))
                if reading.ended:
                    break
                piece = await self._turns.run(call, lambda: _serialised(reading))

    def _begin(self, raw: bytes) -> tuple[EntityReader, bytes | None]:
        """A reading and its first piece."""
        if len(raw) > _READ_REQUEST_BYTES:
            rule = f"a ReadRequest has at most {_READ_REQUEST_BYTES} bytes, this one has {len(raw)}"
            raise InvalidArgumentError(f"{rule}: split it")
        reading = self._service.read(parse(p4runtime_pb2.ReadRequest, raw))
        return reading, _serialised(reading)

    async def StreamChannel(self, _requests: Any, context: Any) -> None:  # noqa: N802
        async with _refusals(context) as call:
            await _open(context)
            channel = Channel(self._service, context, call, self._waiting, self._stream_threads)
            self._channels.add(channel)
            channel.ending.add_done_callback(lambda _: self._channels.discard(channel))
            await channel.run()

    def end_streams(self) -> None:
        for channel in self._channels:
            channel.stream.close(UnavailableError("the switch is stopping"))

    async def close(self) -> None:
        """Wait for work in progress. Called after the server has stopped."""
        if self._channels:
            await asyncio.wait([channel.ending for channel in self._channels])
        for threads in (self._write_threads, self._read_thread, self._stream_threads):
            threads.shutdown()

    async def _message(self, call: Call, context: Any) -> bytes:
        message = await self._waiting.until(call, context.read())
        if not isinstance(message, bytes):
            raise InvalidArgumentError("the call has no message")
        return message

    async def _write(self, work: Callable[[], None]) -> None:
        if self._writes >= MAX_WRITES:
            raise ResourceExhaustedError(f"{MAX_WRITES} writes wait already: write again when they are done")
        self._writes += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._write_threads, work)
        finally:
            self._writes -= 1


async def _open(context: Any) -> None:
    """Send the initial metadata of an answer of many parts, while nothing can end the call yet.

    Else they go with the first part. A call that is ended before that part has gone gets no status then, since grpc.aio
    would send the metadata once more with it, and its caller waits for ever.
    """
    await context.send_initial_metadata(())


def _serialised(reading: EntityReader) -> bytes | None:
    response = reading.piece()
    return None if response is None else bytes(response.SerializeToString())


def _say_refused(error: P4RuntimeError, sender: str, now: float) -> None:
    """In the event loop. Whoever can connect must not fill the log: one line a code and some seconds."""
    code = _STATUS_CODES[error.code].name
    if now - _said_at.get(code, -_SAID_EVERY_S) < _SAID_EVERY_S:
        return
    _said_at[code] = now
    reason = str(error)[:_SAID_MOST]
    told = SwitchEvent.CALL_REFUSED(code=code, reason=reason, sender=sender)
    _LOG.info("a call of %s was refused: %s: %s", sender, code, reason, extra=told)


@asynccontextmanager
async def _refusals(context: Any) -> AsyncIterator[Call]:
    """End the RPC with the status of a typed error, or of the reason that its call was ended for."""
    call = Call()
    try:
        yield call
        return
    except asyncio.CancelledError:
        if call.reason is None:
            raise
        error = call.reason
    except P4RuntimeError as refusal:
        # The traceback has the frames of the call, which would keep its answer as long.
        error = refusal.with_traceback(None)
    except grpc.aio.BaseError:  # the caller has gone
        return
    _say_refused(error, str(context.peer()), time.monotonic())
    metadata = (("grpc-status-details-bin", error.details()),) if isinstance(error, BatchError) else ()
    try:
        await context.abort(_STATUS_CODES[error.code], str(error), metadata)
    except grpc.aio.InternalError as failure:  # a part of the answer that its caller does not take is in the way
        raise asyncio.CancelledError from failure
