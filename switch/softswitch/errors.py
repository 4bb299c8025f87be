# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of the soft switch: a program that cannot run, or a refused request of the control plane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class DeviceError(Exception):
    """A request the device refuses; the message names the value and the rule."""


class UnsupportedProgramError(DeviceError):
    """The program cannot run: a construct is outside the supported subset.

    ``place``: the P4 file and line, or the place in the JSON; the text begins with it.
    """

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(f"{place}: {text}" if place else text)
        self.text = text
        self.place = place


class MalformedProgramError(UnsupportedProgramError):
    """The given program is not valid: a value breaks a rule of bmv2's JSON."""


class ProgramTooLargeError(UnsupportedProgramError):
    """The program exceeds a limit of :mod:`softswitch.program.limits`."""


@contextmanager
def placed(place: object) -> Iterator[None]:
    """Add ``place`` to an error about a program, if the error has none yet."""
    try:
        yield
    except UnsupportedProgramError as error:
        if error.place:
            raise
        raise type(error)(error.text, str(place)) from error


class NotFoundError(DeviceError):
    """There is no such table, action, entry, counter, index or group."""


class EntryExistsError(DeviceError):
    """An entry with this key (and priority) is already there."""


class TableFullError(DeviceError):
    """The table holds as many entries as its declared size."""


class InvalidEntryError(DeviceError):
    """The entry does not fit the table: key shape, value width, action, read-only table."""
