# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ports' library on a kernel, or an interface, that cannot do all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nativelib import build
from nativelib.declarations import Native
from softswitch.native.ports import SOURCES, STRUCTS
from softswitch.native.runtime_library import FOLDER, declared

# Stands for the kernel's: refuses trains of one kind.
_SOURCE = """
#include <errno.h>
#include <linux/virtio_net.h>
#include <sys/socket.h>

#undef sendmmsg
extern int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);

int faulty_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
  unsigned good = 0;
  for (; good < count; good++) {
    const struct virtio_net_hdr *told = messages[good].msg_hdr.msg_iov[0].iov_base;
    if (told->gso_type == KIND) break;
  }
  if (good != 0) return sendmmsg(fd, messages, good, flags);
  errno = ERROR;
  return -1;
}
"""


class FaultyLibrary:
    """Wraps the ports' library."""

    def __init__(self, library: Native) -> None:
        self._library = library
        self._error = 0

    def refuse_unfinished(self, error: int) -> None:
        """Packet sockets of this kernel tell nothing of what is left to do."""
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def ss_ports_add(self, ports: int, number: int, fd: int, spec: Any) -> int:
        if self._error and spec.unfinished:
            return self._error
        added: int = self._library.ss_ports_add(ports, number, fd, spec)
        return added

    @staticmethod
    def without_trains(kind: int, error: int) -> Callable[[], Native]:
        """Makes the library for interfaces that refuse trains of one kind with this error."""
        source = _SOURCE.replace("KIND", str(kind)).replace("ERROR", str(error))
        flags = ["-D_GNU_SOURCE", "-pthread", "-Dsendmmsg=faulty_sendmmsg"]
        sources = [FOLDER / name for name in SOURCES]
        path = build("softswitch-test-faulty", sources, generated={"faulty.c": source}, includes=[FOLDER], flags=flags)
        return lambda: declared(path, STRUCTS)
