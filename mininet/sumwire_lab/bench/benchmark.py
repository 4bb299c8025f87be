# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of every benchmark.

A benchmark measures cases. A case is one measurement that was planned; it gives rows, frozen dataclasses of numbers
and words that go into JSON as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.study.experiment import Say


class Case(Protocol):
    """One measurement of a plan."""

    @property
    def label(self) -> str:
        """A few words, different from those of the plan's other cases."""
        ...


CaseT = TypeVar("CaseT", bound=Case)
RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Context:
    """What every case of a run shares: the page's options, a folder to write to, and how to report progress."""

    options: BenchOptions
    folder: Path
    say: Say


class Benchmark(ABC, Generic[CaseT, RowT]):
    """Measures cases, one at a time."""

    name: ClassVar[str]

    @abstractmethod
    def measure(self, case: CaseT, context: Context) -> list[RowT]:
        """The rows of one case. Raises LabError."""
