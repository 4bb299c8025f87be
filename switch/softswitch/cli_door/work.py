# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One command at work: its words, the switch, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from p4.v1 import p4runtime_pb2

from softswitch.cli_door.state import Names, State
from softswitch.cli_door.values import ANSWER_MOST, CliCommandError, wrong
from softswitch.errors import DeviceError, EntryExistsError, NotFoundError, TableFullError
from softswitch.p4runtime import write
from softswitch.p4runtime.errors import (
    AlreadyExistsError,
    BatchError,
    NotThereError,
    P4RuntimeError,
    PermissionDeniedError,
    ResourceExhaustedError,
)
from softswitch.p4runtime.p4info import ActionProfile, P4Info, TableInfo
from softswitch.p4runtime.pipeline import ForwardingPipeline
from softswitch.switch import SoftSwitch

Update = p4runtime_pb2.Update
Codes = Mapping[type[Exception], str]
#: bmv2's words for refusals of table operations.
_CODES: Final[Codes] = {
    AlreadyExistsError: "DUPLICATE_ENTRY",
    EntryExistsError: "DUPLICATE_ENTRY",
    NotThereError: "INVALID_HANDLE",
    NotFoundError: "INVALID_HANDLE",
    PermissionDeniedError: "IMMUTABLE_TABLE_ENTRIES",
    ResourceExhaustedError: "TABLE_FULL",
    TableFullError: "TABLE_FULL",
}


def refused(kind: str, code: str, why: object = "") -> CliCommandError:
    """What bmv2 itself would refuse. ``kind``: "table", "register" and so on."""
    return CliCommandError(f"Invalid {kind} operation ({code})", str(why))


@dataclass
class Work:
    """``ports``: interfaces by port number. ``said`` and ``noted``: lines for the output, and beside it."""

    switch: SoftSwitch
    ports: Mapping[int, str]
    state: State
    said: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    _length: int = 0

    @property
    def names(self) -> Names:
        return self.state.names

    @property
    def pipeline(self) -> ForwardingPipeline:
        return self.state.pipeline

    @property
    def info(self) -> P4Info:
        return self.pipeline.info

    def say(self, line: str) -> None:
        """Add a line to the output. Raises CliCommandError if it is too long."""
        self._length += len(line) + 1
        if self._length > ANSWER_MOST:
            self.said.clear()
            raise wrong(f"the answer is longer than {ANSWER_MOST >> 20} MiB; ask for single entries or cells")
        self.said.append(line)

    def table_info(self, name: str) -> TableInfo:
        """Raises CliCommandError for a table of the compiler's own, which a controller's P4Info does not have."""
        found = next((table for table in self.info.tables.values() if table.name == name), None)
        if found is None:
            raise wrong(f"table {name} is not in the P4Info that the controller sent with the program")
        return found

    def profile_info(self, name: str) -> ActionProfile:
        """Raises CliCommandError."""
        found = next((each for each in self.info.profiles.values() if each.name == name), None)
        if found is None:
            raise wrong(f"action profile {name} is not in the P4Info that the controller sent with the program")
        return found

    def write(self, kind: str, updates: Sequence[Any], codes: Codes | None = None) -> None:
        """Carry out P4Runtime updates. ``codes``: words other than those of tables.

        Raises CliCommandError with bmv2's word for the first update that fails.
        """
        try:
            write.apply(self.switch, self.pipeline, updates)
        except BatchError as error:
            first = next(outcome for outcome in error.outcomes if outcome is not None)
            raise _refused(kind, first, codes) from error

    def try_device(self, kind: str, call: Callable[[], Any], codes: Codes | None = None) -> Any:
        """Return what ``call`` returns. Raises CliCommandError where the device or P4Runtime refuses it."""
        try:
            return call()
        except (DeviceError, P4RuntimeError) as error:
            raise _refused(kind, error, codes) from error


def _refused(kind: str, error: Exception, codes: Codes | None) -> CliCommandError:
    words = _CODES if codes is None else {**_CODES, **codes}
    return refused(kind, words.get(type(error), "ERROR"), error)


def update_of(update_type: int) -> tuple[Any, Any]:
    """Return a new update and its entity."""
    update = Update(type=update_type)
    return update, update.entity
