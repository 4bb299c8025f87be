# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch that cannot be reached for a while."""

from __future__ import annotations

from collections.abc import Callable

from golden import model


class Outage:
    """A switch that hears nothing from a certain datagram on, until it was asked by HELLO alone ``hellos`` times in a
    row: then no exchange is under way any more."""

    def __init__(self, begin: Callable[[int], bool], hellos: int) -> None:
        self.begin = begin
        self.hellos = hellos
        self.state = "before"
        self.heard = 0

    def __call__(self, number: int, datagram: bytes) -> bool:
        if self.state == "before" and self.begin(number):
            self.state = "silent"
        if self.state != "silent":
            return False
        self.heard = self.heard + 1 if model.decode(datagram).op == 0 else 0
        if self.heard == self.hellos:
            self.state = "after"
        return True
