# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Algorithm selection: decides for each mean whether the switch or the process group is faster.

:meth:`Job.tune`, or `sumwire tune`, measures both by size. The table is kept on this machine, in one file per network
    (its aggregators and number of workers), in ``$XDG_CACHE_HOME/sumwire`` or ``~/.cache/sumwire``. A file that
is broken, or that another user could have written, is ignored with a warning.

All ranks must choose alike. So they compare their options when the job is made, and rank 0's table counts for all of
them: two machines may have measured at different times.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import torch
from commonlib.untrusted import escaped, json_of, shown
from nativelib import UntrustedError, open_file
from sumwire_protocol.events import Event
from torch import Tensor

from sumwire.config import JobConfig
from sumwire.errors import ConfigError, UsageError
from sumwire.numeric import is_whole

ENTRIES_MOST: Final = 64
# Larger integers are no floats.
_NUMBER_MOST: Final = sys.float_info.max


# The most of the group's time that the switch may take for a size that goes by it: the group's mean is exact. With 0.8,
# small tensors often went by the group where it took a quarter longer, since what it costs them swings.
SWITCH_SHARE: Final = 0.9


class BrokenTableError(ValueError):
    """A table cannot be read: the text says why."""


@dataclass(frozen=True)
class Sample:
    """Seconds of one reduction of ``values`` values, through the switch and by the process group."""

    values: int
    switch_s: float
    group_s: float

    @property
    def prefers_group(self) -> bool:
        """Return whether the process group is to be preferred: the switch was not faster by enough to make up for its
        inexact mean."""
        return self.group_s * SWITCH_SHARE < self.switch_s


@dataclass(frozen=True)
class TuningTable:
    """Measured times of codecs. ``samples``: by codec name, with rising sizes."""

    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)

    def prefers_group(self, codec: str, values: int) -> bool:
        """Return whether the group was faster for the measured size nearest to this one, as a ratio. False for a codec
        that was not measured.

        Example: 1,000 and 10,000 values were measured. A tensor of 3,000 is treated like 1,000, one of 4,000 like
        10,000.
        """
        samples = self.samples.get(codec)
        if not samples:
            return False
        return min(samples, key=lambda sample: abs(math.log(sample.values / max(values, 1)))).prefers_group

    def content(self) -> dict[str, list[list[float]]]:
        """Return the table as values that JSON can hold."""
        return {
            codec: [[sample.values, sample.switch_s, sample.group_s] for sample in samples]
            for codec, samples in self.samples.items()
        }

    @classmethod
    def of(cls, content: Any) -> TuningTable:
        """Return the table that :meth:`content` has written. Raises BrokenTableError."""
        if not isinstance(content, dict):
            raise BrokenTableError("must be an object with a list for each codec")
        return cls({codec: _samples_read(codec, rows) for codec, rows in content.items()})


def _samples_read(codec: str, rows: Any) -> tuple[Sample, ...]:
    if not isinstance(rows, list) or not 0 < len(rows) <= ENTRIES_MOST:
        raise BrokenTableError(f"{escaped(codec)}: must be a list of 1 to {ENTRIES_MOST} entries")
    samples = tuple(_sample_read(codec, row) for row in rows)
    if any(a.values >= b.values for a, b in pairwise(samples)):
        raise BrokenTableError(f"{escaped(codec)}: sizes must rise")
    return samples


def _sample_read(codec: str, row: Any) -> Sample:
    numbers = isinstance(row, list) and all(type(number) in (int, float) for number in row)
    if not numbers or len(row) != 3 or not all(0 < number <= _NUMBER_MOST for number in row):
        raise BrokenTableError(f"{escaped(codec)}: {shown(row)} must be values and two times in seconds, all above 0")
    if row[0] != int(row[0]):
        raise BrokenTableError(f"{escaped(codec)}: {shown(row)}: the number of values must be whole")
    return Sample(int(row[0]), float(row[1]), float(row[2]))


_LOG: Final = logging.getLogger("sumwire")
FORMAT: Final = 1
# The whole file.
BYTES_MOST: Final = 16_384
# Of these, what rank 0 tells beside the table.
_OPTION_BYTES: Final = 64
_BACKEND: Final = "gloo"


def tuning_path(config: JobConfig) -> Path:
    """Return the path of the file that holds this network's table."""
    key = hashlib.sha256(json.dumps(_network(config), sort_keys=True).encode()).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - raises without a home
    return Path(cache, "sumwire", f"tuning-{key[:16]}.json")


def load_table(config: JobConfig) -> TuningTable | None:
    """Return the table of this job's network; None if there is none. Logs a warning for a table that cannot be used."""
    path = tuning_path(config)
    try:
        return _read(path, config)
    except FileNotFoundError:
        return None
    except (OSError, BrokenTableError, UntrustedError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        _LOG.warning(
            "job %s: %s is ignored: %s; remove it, or measure again: sumwire tune JOBFILE",
            config.name, path, reason,
            extra=Event.TUNING_IGNORED(job=config.job, worker=config.worker, name=config.name, reason=str(reason)),
        )  # fmt: skip
        return None


def save_table(config: JobConfig, table: TuningTable) -> Path:
    """Keep the table for later jobs on this machine. Raises UsageError if the file cannot be written."""
    path = tuning_path(config)
    content = json.dumps({"format": FORMAT, **_network(config), "codecs": table.content()}, indent=1) + "\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable and writeable for this user alone. Renamed, so that nobody reads half of it.
        handle, aside = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(content)
        Path(aside).replace(path)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}: the tuning table is not kept; name another folder: XDG_CACHE_HOME"
        ) from error
    return path


def _network(config: JobConfig) -> dict[str, Any]:
    aggregators = sorted({address.aggregator for address in config.addresses})
    return {"aggregators": aggregators, "workers": config.workers, "backend": _BACKEND}


def _read(path: Path, config: JobConfig) -> TuningTable:
    """Raises OSError, UntrustedError if another user could have written the file, and BrokenTableError."""
    with open_file(path) as file:
        content = file.read(BYTES_MOST + 1)
    if len(content) > BYTES_MOST:
        raise BrokenTableError(f"it is longer than {BYTES_MOST} bytes")
    try:
        data = json_of(content.decode())
    except ValueError as error:
        raise BrokenTableError(f"it cannot be read ({error})") from error
    expected = {"format": FORMAT, **_network(config)}
    if not isinstance(data, dict) or {name: data.get(name) for name in expected} != expected:
        raise BrokenTableError(f"it must have {json.dumps(expected)}")
    table = TuningTable.of(data.get("codecs"))
    # Rank 0 sends it so, with the options. Numbers may take more places than in the file.
    if len(json.dumps(table.content())) > BYTES_MOST - _OPTION_BYTES:
        raise BrokenTableError(f"its numbers take more than {BYTES_MOST - _OPTION_BYTES} bytes")
    return table


Through = Literal["auto", "switch", "group"]
CHOICES: Final = ("auto", "switch", "group")
# Codecs whose means the group gives more exactly. Signs are another thing than means.
CODECS: Final = ("thc", "sum32")


@dataclass(frozen=True)
class Selection:
    """The choice between switch and group. ``through``: the option. ``table``: used by "auto"; without one everything
    goes through the switch."""

    through: Through = "switch"
    table: TuningTable | None = None

    def by_group(self, codec: str, x: Tensor) -> bool:
        """Return whether the process group computes the mean of this tensor."""
        # The group's mean is in float32.
        if codec not in CODECS or x.dtype == torch.float64 or self.through == "switch":
            return False
        return self.through == "group" or (self.table is not None and self.table.prefers_group(codec, x.numel()))


def agreed_choice(
    job: str, through: Through, table: TuningTable | None, gather: Callable[[Tensor], list[Tensor]], *, blind: bool
) -> Selection:
    """Return the choice of all ranks: a collective call. ``gather`` returns the tensors of all ranks. ``blind``:
    whether the job is.

    Raises ConfigError on all ranks if their options differ.
    """
    own = json.dumps([through, blind, None if table is None else table.content()]).encode().ljust(BYTES_MOST)
    rows = [json.loads(bytes(row.numpy())) for row in gather(torch.frombuffer(bytearray(own), dtype=torch.uint8))]
    for name, options in (("through", [row[0] for row in rows]), ("blind", [row[1] for row in rows])):
        if len({*options}) > 1:
            raise ConfigError(name, options, "must be equal on all ranks", where=f"job {job}")
    content = rows[0][2]
    if through == "auto" and content is None:
        return Selection("switch")
    return Selection(through, None if content is None else TuningTable.of(content))


SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
_WARM_UPS: Final = 2
# Seconds to spend on one size, and how many reductions in each way that may be.
_SPENT_S: Final = 0.5
_REPEATS: Final = (5, 25)
_WAYS: Final[tuple[Through, ...]] = ("switch", "group")
# Larger tensors are not measured once a reduction takes longer in both ways.
_LONG_S: Final = 0.5

# Reduces a tensor in one way, and returns the seconds that this took.
Timed = Callable[[Tensor, Through], float]
# Seconds of this rank to those of the slowest one, equal on all ranks.
Agree = Callable[[float], float]


def timed_by(reduce: Callable[[Tensor], object], choose: Callable[[Through], None]) -> Timed:
    """Return a function that times ``reduce`` in both ways, which it selects with ``choose``."""

    def timed(x: Tensor, through: Through) -> float:
        choose(through)
        began = time.monotonic()
        reduce(x)
        return time.monotonic() - began

    return timed


def check_sizes(sizes: Sequence[int]) -> None:
    """Raise UsageError for numbers of values that a table cannot have."""
    rising = all(is_whole(size, 1) for size in sizes) and all(a < b for a, b in itertools.pairwise(sizes))
    if not (rising and 0 < len(sizes) <= ENTRIES_MOST):
        raise UsageError(
            f"sizes = {list(sizes)}: must be 1 to {ENTRIES_MOST} whole numbers of values, above 0 and rising; leave "
            f"them out to measure {SIZES[0]:,} to {SIZES[-1]:,}"
        )


def let_pass(timed: Timed, operations: int) -> None:
    """Make some operations by the group without measuring them: a job's first ones compare their calls separately, so
    they take longer than later ones."""
    for _ in range(operations):
        timed(torch.zeros(1, dtype=torch.float32, device="cpu"), "group")


def measured(ways: dict[str, Timed], agree: Agree, sizes: Sequence[int] = SIZES) -> TuningTable:
    """Measure a table, equal on all ranks: a collective call. ``ways``: the timed functions by codec name."""
    return TuningTable({codec: _samples(timed, agree, sizes) for codec, timed in ways.items()})


def _samples(timed: Timed, agree: Agree, sizes: Sequence[int]) -> list[Sample]:
    samples: list[Sample] = []
    for size in sizes:
        generator = torch.Generator().manual_seed(size)
        x = torch.randn(size, generator=generator, dtype=torch.float32, device="cpu")
        samples.append(_sample(timed, agree, x))
        if min(samples[-1].switch_s, samples[-1].group_s) > _LONG_S:
            break
    return samples


def _sample(timed: Timed, agree: Agree, x: Tensor) -> Sample:
    """Both ways in turn, so that other work on the machine slows both down alike."""
    for _ in range(_WARM_UPS):
        first_s = sum(timed(x, through) for through in _WAYS)
    least, most = _REPEATS
    repeats = min(max(int(_SPENT_S / agree(first_s)), least), most)
    seconds = [[timed(x, through) for through in _WAYS] for _ in range(repeats)]
    switch_s, group_s = (agree(statistics.median(each)) for each in zip(*seconds, strict=True))
    return Sample(len(x), switch_s, group_s)
