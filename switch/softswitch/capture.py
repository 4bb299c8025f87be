# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Captures of ports: what comes in and what leaves, in pcap files with bmv2's names, or in one pcapng file a port.

A thread has a packet socket of its own on each interface, so both engines are captured alike, and a switch that does
not capture does nothing more. As with tcpdump, what this machine itself sends on the interface is among what leaves.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from softswitch import pcap
from softswitch.events import SwitchEvent
from softswitch.records import RecordFile
from softswitch.runtime.interface import (
    AUXDATA_SPACE,
    PACKET_AUXDATA,
    PACKET_IGNORE_OUTGOING,
    PACKET_OUTGOING,
    SOL_PACKET,
    STATUS_BYTE,
    TP_STATUS_VLAN_VALID,
    PortError,
    kernel_drops,
    open_interface,
    with_tag,
)

_log = logging.getLogger("softswitch.ports")

SO_TIMESTAMPNS: Final = 35
_TIME: Final = struct.Struct("ll")  # struct timespec
_AT_ONCE: Final = 64  # frames of one interface before the others get their turn
_LAST: Final = 1 << 18  # frames at the end: more than wait, but an end where others still send
_SPACE: Final = AUXDATA_SPACE + socket.CMSG_SPACE(_TIME.size)


class _Tap:
    """The socket and the files of one interface: ``pcapng`` is one file, else there are two. Raises PortError."""

    def __init__(self, folder: Path, number: int, interface: str, *, pcapng: bool) -> None:
        self._number = number
        self._option = "--pcapng" if pcapng else "--pcap"
        self._record = pcap.block if pcapng else pcap.record
        names = [f"{interface}.pcapng"] * 2 if pcapng else [f"{interface}_{way}.pcap" for way in ("in", "out")]
        head = pcap.blocks_head(interface) if pcapng else pcap.records_head()
        self.socket = open_interface(number, interface, self._prepare)
        try:
            files = {name: self._open(folder / name, head) for name in dict.fromkeys(names)}
        except PortError:
            self.socket.close()
            raise
        self._in, self._out = (files[name] for name in names)

    def _prepare(self, opened: socket.socket) -> None:
        opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 0)
        opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def _open(self, path: Path, head: bytes) -> RecordFile:
        try:
            opened = RecordFile(path)
        except OSError as error:
            raise PortError(f"{self._option} {path}: {error.strerror}; name a folder that can be written") from error
        opened.write(head)
        return opened

    def drain(self, most: int = _AT_ONCE) -> None:
        """Write frames that wait."""
        for _ in range(most):
            try:
                frame, extra, _, address = self.socket.recvmsg(pcap.MOST_BYTES, _SPACE)
            except OSError:  # no more, or the interface is down or gone
                return
            seconds = nanoseconds = 0
            for level, kind, data in extra:
                if level == SOL_PACKET and data[STATUS_BYTE] & TP_STATUS_VLAN_VALID:
                    frame = with_tag(frame, data)
                elif level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                    seconds, nanoseconds = _TIME.unpack(data)
            leaves = address[2] == PACKET_OUTGOING
            record = self._record(frame, 10**9 * seconds + nanoseconds, leaves=leaves)
            (self._out if leaves else self._in).write(record)

    def close(self) -> None:
        self.drain(_LAST)
        if lost := kernel_drops(self.socket):
            what = f"{self._option}: {lost} frames are missing in the capture, because the machine was too slow for it"
            told = SwitchEvent.FRAMES_DROPPED(port=self._number, reason=what)
            _log.warning("port %d: %s", self._number, what, extra=told)
        self.socket.close()
        self._in.close()
        self._out.close()


class Capture:
    """Captures from the start of the ``with`` block to its end. ``interfaces``: names by port number. Raises PortError.

    Writes ``INTERFACE_in.pcap`` and ``INTERFACE_out.pcap`` in ``folder``, or ``INTERFACE.pcapng`` with ``pcapng``.
    """

    def __init__(self, folder: Path, interfaces: Mapping[int, str], *, pcapng: bool = False) -> None:
        self._taps: list[_Tap] = []
        try:
            for interface, number in {name: number for number, name in interfaces.items()}.items():
                self._taps.append(_Tap(folder, number, interface, pcapng=pcapng))
        except PortError:
            self._close()
            raise
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="softswitch-pcap", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._wake_write, b"x")
        self._thread.join()
        self._close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _close(self) -> None:
        for tap in self._taps:
            tap.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ, None)
            for tap in self._taps:
                selector.register(tap.socket, selectors.EVENT_READ, tap)
            while True:
                for key, _ in selector.select():
                    if key.data is None:
                        return
                    key.data.drain()
