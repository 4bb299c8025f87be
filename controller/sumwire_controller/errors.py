# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in the control plane, as types. Every message names the value and the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


class ControllerError(Exception):
    """Base of every error this package raises on purpose. `retryable`: the same call may succeed later."""

    retryable: bool = False


class _Missing:
    def __repr__(self) -> str:
        return "(missing)"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule of a configuration.

    `path` is the object ("jobs[0].thc", empty for the file), `field` what is wrong in it, `value` what stands
    there (`MISSING` if nothing does), `line` its line in the YAML text, from 1, where known.
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
        shown = "" if self.value is MISSING else f" = {self.value!r}"
        return f"{where}{self.full_path}{shown}: {self.rule}"


def join_path(path: str, field: str) -> str:
    """Path of a field or, if `field` starts with "[", of a list element."""
    return f"{path}{field}" if not path or field.startswith("[") else f"{path}.{field}"


class ConfigError(ControllerError):
    """The configuration breaks rules: all of them, in `problems`."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {problem}" for problem in self.problems)


class UnknownJobError(ControllerError):
    """A job named on the command line or in a call is not in the configuration."""


class PartOfTreeError(ControllerError):
    """A job whose hosts a single switch's configuration does not all know: only the topology does."""


class NothingToWatchError(ControllerError):
    """No switch of the configuration has another that could stand in for it."""


class ArtifactError(ControllerError):
    """The compiled program (JSON or P4Info) is missing, unreadable or not the one this controller knows."""


class SwitchError(ControllerError):
    """Base of what goes wrong between controller and switch."""


class SwitchUnreachableError(SwitchError):
    """No answer in time: the switch is not up, not there, or the connection broke."""

    retryable = True


class NotPrimaryError(SwitchError):
    """Another controller with a higher election id may write, we may not."""

    retryable = True


class SwitchRefusedError(SwitchError):
    """The switch answered and refused; the message names what was asked and the switch's reason."""


class ReadBackError(SwitchError):
    """Every write was accepted, yet what the switch holds differs from what was written."""
