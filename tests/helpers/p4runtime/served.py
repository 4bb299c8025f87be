# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A device behind a P4Runtime server of this process, with a controller of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from helpers.p4runtime.client import DEVICE_ID, Controller
from softswitch.device import Device
from softswitch.p4runtime.server import serve


@contextmanager
def primary_of(
    device: Device, config: Any = None, cpu_port: int | None = None, verify: Callable[[Any], object] | None = None
) -> Iterator[Controller]:
    """The primary controller, with election id 1, which has set the pipeline ``config`` if there is one."""
    server = serve(device, "127.0.0.1:0", DEVICE_ID, cpu_port, verify)
    controller = Controller(server.port)
    try:
        controller.become(1)
        if config is not None:
            controller.set_pipeline(config)
        yield controller
    finally:
        controller.close()
        server.stop()
