# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The control plane's exceptions.

Every message names the value and the rule that it breaks, and ends with the command or the setting that mends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from commonlib.untrusted import escaped, shown

_PROBLEMS_SHOWN: Final = 50


class ControllerError(Exception):
    """Base of every error this package raises on purpose. With `retryable` a later call may succeed."""

    retryable: bool = False


class _Missing:
    def __repr__(self) -> str:
        return "(missing)"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule of a configuration.

    `path` names the object ("jobs[0].thc", empty for the file), `field` the wrong field in it, `value` that field's
    value (`MISSING` if it has none), `line` its line in the YAML text, counted from 1, where it is known.
    """

    path: str
    field: str
    value: object
    rule: str
    line: int | None = None

    @property
    def full_path(self) -> str:
        return join_path(self.path, self.field)

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        value = "" if self.value is MISSING else f" = {shown(self.value)}"
        return f"{where}{escaped(self.full_path)}{value}: {self.rule}"


def join_path(path: str, field: str) -> str:
    """Return the path of a field or, if `field` starts with "[", of a list element."""
    return f"{path}{field}" if not path or field.startswith("[") else f"{path}.{field}"


class ConfigError(ControllerError):
    """The configuration breaks rules. `problems` has every broken rule."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        lines = [f"{self.source}: {problem}" for problem in self.problems[:_PROBLEMS_SHOWN]]
        if (more := len(self.problems) - _PROBLEMS_SHOWN) > 0:
            lines.append(f"{self.source}: {more} more problems: correct these, then check again")
        return "\n".join(lines)


class UnknownJobError(ControllerError):
    """The configuration has no job of the given name."""


class PartOfTreeError(ControllerError):
    """The job runs over several switches, so the configuration of one switch does not name all its hosts."""


class NoFreeSlotsError(ControllerError):
    """Fewer slots are free than a job with `slots: {most: N}` needs."""


class NotAdmittedError(ControllerError):
    """A job with `slots: {most: N}` has no slots yet."""


class JobFileError(ControllerError):
    """The job file cannot be written."""


class NothingToWatchError(ControllerError):
    """No job has several roots, so no root could be replaced by another."""


class ArtifactError(ControllerError):
    """The compiled program (JSON or P4Info) is missing, unreadable, or lacks a table that this controller writes."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """What `apply` would do to a job that has run on `switch`.

    `name` is empty if the configuration has no such job. `packets` counts what its workers have sent since it was
    admitted. `differs` names what would change; it is empty if the job would be removed.
    """

    switch: str
    job: int
    name: str
    packets: int
    differs: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = f"job {self.name} ({self.job})" if self.name else f"job {self.job}"
        return f"switch {self.switch}: {shown}, {self.packets} packets: {', '.join(self.differs) or 'would leave'}"


class RunningJobsError(ControllerError):
    """`apply` would change jobs that have run since they were admitted, without being allowed to. Nothing was written.

    `changes` has a line for each job and switch. The message ends with `command`, which makes the change.
    """

    def __init__(self, changes: Sequence[JobChange], command: str = "sumwire-controller apply CONFIG --force") -> None:
        self.changes = tuple(changes)
        self.command = command
        super().__init__(self.changes, command)

    def __str__(self) -> str:
        lines = "".join(f"\n  {change}" for change in self.changes)
        end = f"Nothing was written. Do it with {self.command}"
        return f"would change jobs that have run, and end their runs:{lines}\n{end}"


class TlsFilesError(ControllerError):
    """Files of a certificate, its key or an authority are missing or cannot be read."""


class SwitchError(ControllerError):
    """Base of the errors between controller and switch."""


class SwitchUnreachableError(SwitchError):
    """The switch did not answer in time: it is not running, not reachable, or the connection broke."""

    retryable = True


class NotPrimaryError(SwitchError):
    """Another controller is the connected primary, so this one may not write."""

    retryable = True


class SwitchRefusedError(SwitchError):
    """The switch refused a request. The message names the request and the switch's reason."""


class ReadBackError(SwitchError):
    """The switch accepted every write, but its entries differ from those that were written."""
