# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of the soft switch: a program that cannot run, or a request of the control plane that is refused."""


class DeviceError(Exception):
    """A request the device refuses; the message names the value and the rule."""


class UnsupportedProgramError(DeviceError):
    """The program uses a construct outside the supported subset; the message has its P4 file and line."""


class NotFoundError(DeviceError):
    """No such table, action, entry, counter, index or group."""


class EntryExistsError(DeviceError):
    """An entry with this key (and priority) is already there."""


class TableFullError(DeviceError):
    """The table holds as many entries as its declared size."""


class InvalidEntryError(DeviceError):
    """The entry does not fit the table: key shape, value width, action, read-only table."""
