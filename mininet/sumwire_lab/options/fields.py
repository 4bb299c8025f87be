# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options as fields of frozen dataclasses. Each option is written once, as a field made by :func:`option`.

The field determines the check of its value (:class:`Checked`), its flag on the command line with its help
(:func:`add_flags`), and how the given value is read (:func:`from_arguments`).
"""

from __future__ import annotations

import argparse
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from sumwire_lab.errors import OptionError

C = TypeVar("C")
_KEY: Final = "option"


@dataclass(frozen=True)
class Rule:
    """A rule for an option's values. In an error, ``text`` follows the value."""

    holds: Callable[[Any], bool]
    text: str

    def check(self, name: str, value: Any) -> None:
        """Raise OptionError for a value that breaks the rule. None means no value."""
        if value is not None and not self.holds(value):
            raise OptionError(f"{name}={_told(value)}: {self.text}")


def _told(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def at_least(least: float, text: str = "") -> Rule:
    """Accept numbers from ``least`` on."""
    return Rule(lambda value: value >= least, text or f"must be at least {least:g}")


def between(least: float, most: float, text: str = "") -> Rule:
    """Accept numbers from ``least`` to ``most``, both included."""
    return Rule(lambda value: least <= value <= most, text or f"must be {least:g} to {most:g}")


def share(text: str = "a share is at least 0 and below 1") -> Rule:
    """Accept a share from 0 to below 1."""
    return Rule(lambda value: 0 <= value < 1, text)


def one_of(known: Sequence[str], more: str = "") -> Rule:
    """Accept one of these names."""
    return Rule(lambda value: value in known, f"known are {', '.join(known)}{more}")


def names_of(known: Sequence[str]) -> Rule:
    """Accept at least one of these names, each at most once."""
    return Rule(
        lambda value: bool(value) and set(value) <= set(known) and len(set(value)) == len(value),
        f"known are {', '.join(known)}, each at most once",
    )


@dataclass(frozen=True)
class Option:
    """Properties of an option besides its type and default."""

    meaning: str
    flag: str
    """Its name on the command line; empty: the field's."""
    rule: Rule | None
    metavar: str | None
    read: Callable[[str], Any] | None
    """From a word of the command line, for a type that argparse does not read."""
    default: str | None
    """How the help puts the default; None: as it is."""


def option(
    default: Any,
    meaning: str,
    *,
    flag: str = "",
    rule: Rule | None = None,
    metavar: str | None = None,
    read: Callable[[str], Any] | None = None,
    shown: str | None = None,
) -> Any:
    """Return a field with this default. ``flag``: by default the field's name, with `no-` for a switch that is on.

    ``shown``: the default in the help's words; the flag then has no default.
    """
    return field(default=default, metadata={_KEY: Option(meaning, flag, rule, metavar, read, shown)})


class Checked:
    """Base of dataclasses of options. Every value must keep its option's rule. Raises OptionError."""

    def __post_init__(self) -> None:
        own: type = type(self)
        for flag in flags_of(own):
            if flag.option.rule is not None and flag.owner is own:
                flag.option.rule.check(flag.name, getattr(self, flag.field.name))


@dataclass(frozen=True)
class Flag:
    """An option of a dataclass, with its name on the command line."""

    owner: type
    field: Field[Any]
    kind: Any
    """Type of its values, without None."""

    @property
    def option(self) -> Option:
        found: Option = self.field.metadata[_KEY]
        return found

    @property
    def switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.kind is bool

    @property
    def name(self) -> str:
        """Name on the command line, without the dashes."""
        own = self.option.flag or self.field.name.replace("_", "-")
        return f"no-{own}" if self.switch and self.field.default is True and not self.option.flag else own

    @property
    def attribute(self) -> str:
        """Name of the attribute of argparse's namespace."""
        return self.name.replace("-", "_")

    @property
    def default(self) -> Any:
        """The flag's default. None if the default depends on something else."""
        if self.switch:
            return False
        return None if self.option.default is not None else self.field.default

    def value(self, arguments: argparse.Namespace) -> Any:
        """Return the value on the command line; MISSING if there is none."""
        given = getattr(arguments, self.attribute, None)
        if given is None:
            return MISSING
        if self.switch:
            return given != self.field.default if self.field.default is True else given
        if isinstance(given, str) and (get_origin(self.kind) is tuple or self.option.read is not None):
            return self.read(given)
        return given

    def read(self, text: str) -> Any:
        """Return the value that a text stands for: a list, or what the option reads itself. Raises OptionError."""
        return (self.option.read or _listed(self.name, self.kind))(text)


@cache
def flags_of(options: type) -> tuple[Flag, ...]:
    """Return the flags of a dataclass of options, and of the dataclasses in its fields."""
    hints, found = get_type_hints(options), []
    for one in fields(options):
        kind = _without_none(hints[one.name])
        if _KEY in one.metadata:
            found.append(Flag(options, one, kind))
        elif is_dataclass(kind) and isinstance(kind, type):
            found += flags_of(kind)
    return tuple(found)


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    [*others] = [one for one in get_args(kind) if one is not type(None)]
    return others[0] if len(others) == 1 else kind


def _listed(name: str, kind: Any) -> Callable[[str], tuple[Any, ...]]:
    """Reads a tuple: values with commas."""
    rule = {int: "whole numbers with commas, as 4,16", float: "numbers with commas, as 0,2.5", str: "names with commas"}
    of = get_args(kind)[0]

    def read(text: str) -> tuple[Any, ...]:
        words = text.split(",")
        try:
            if of is int and not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
                raise ValueError
            return tuple(map(of, words))
        except ValueError as error:
            raise OptionError(f"{name}={text}: must be {rule[of]}") from error

    return read


def add_flags(parser: argparse.ArgumentParser, options: type, names: Sequence[str] | None = None) -> None:
    """Add a flag for every option, or for those of these names."""
    for flag in flags_of(options):
        if names is not None and flag.name not in names:
            continue
        told = _help(flag)
        if flag.switch:
            parser.add_argument(f"--{flag.name}", action="store_true", help=told)
            continue
        default = ",".join(map(_number, flag.default)) if isinstance(flag.default, tuple) else flag.default
        read = flag.kind if flag.kind in (int, float, Path) and flag.option.read is None else str
        parser.add_argument(f"--{flag.name}", type=read, default=default, metavar=flag.option.metavar, help=told)


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _help(flag: Flag) -> str:
    text = flag.option.meaning.replace("%", "%%")
    if flag.switch:
        return text
    if flag.option.default is not None:
        return f"{text}; {flag.option.default}" if flag.option.default else text
    return text if flag.default is None else f"{text}; %(default)s"


def given_flags(arguments: argparse.Namespace, options: type) -> list[Flag]:
    """Return the flags whose value is not their default."""
    return [flag for flag in flags_of(options) if flag.value(arguments) not in (MISSING, flag.field.default)]


def from_arguments(options: type[C], arguments: argparse.Namespace, /, **more: Any) -> C:
    """Create the dataclass from the command line and the fields of ``more``. Raises OptionError.

    A class with a method ``of`` gets the values of its options through it.
    """
    hints = get_type_hints(options)
    values = dict(more)
    for one in fields(options):  # type: ignore[arg-type]
        kind = _without_none(hints[one.name])
        if one.name in values:
            continue
        if _KEY not in one.metadata:
            if is_dataclass(kind) and isinstance(kind, type) and flags_of(kind):
                values[one.name] = from_arguments(kind, arguments)
            continue
        flag = Flag(options, one, kind)
        value = flag.value(arguments)
        if value is not MISSING:
            values[one.name] = value
    return getattr(options, "of", options)(**values)
