# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Records of a study's cases, one JSON line each: the measurement, its program, machine and load."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from commonlib.untrusted import shown
from commonlib.version import __version__
from nativelib import programs
from nativelib.errors import UntrustedError

from sumwire_lab.errors import OptionError
from sumwire_lab.options.plain import from_json, to_json

FILE: Final = "records.jsonl"
_PROCESSORS: Final = Path("/proc/cpuinfo")
_MEMORY: Final = Path("/proc/meminfo")
_STAT: Final = Path("/proc/stat")
_ROOT: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Record:
    """One case that was measured, or failed. ``rows``: the return value of its worker, usually one row of columns."""

    case: Mapping[str, Any]
    rows: list[dict[str, Any]]
    error: str | None
    seconds: float
    at: str
    """When it began, UTC."""
    code: str
    """Digest of the worker's file."""
    commit: str
    """Commit of the checkout, with a digest of what was changed since; `none` outside of one."""
    machine: Mapping[str, Any]
    load: Mapping[str, float]
    """`before`: load average when it began. `busy_cores`: cores that worked on average, `own_cores` for this case."""

    @property
    def key(self) -> str:
        """Key of the case among those of its study."""
        return key_of(self.case)

    def stands_for(self, key: str, code: str, commit: str) -> bool:
        """Return whether the case need not be measured again: it did not fail, and program and options are the same."""
        return self.error is None and (self.key, self.code, self.commit) == (key, code, commit)


def key_of(case: Any) -> str:
    """Return the case's options as text, the same for equal options."""
    return json.dumps(to_json(case), sort_keys=True)


def label_of(case: Any) -> str:
    """Return the case's options in a few words, for people."""
    return " ".join(f"{name}={_word(value)}" for name, value in flat(to_json(case)).items() if value not in (None, []))


def flat(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of nested dataclasses as `outer.inner`."""
    found: dict[str, Any] = {}
    for name, value in case.items():
        inner = flat(value) if isinstance(value, Mapping) else {}
        found |= {f"{name}.{below}": one for below, one in inner.items()} if inner else {name: value}
    return found


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_word, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass
class Book:
    """The records of a study, in a file that grows by a line for every case."""

    path: Path
    records: list[Record] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path) -> Book:
        """Open the records in a study's folder, which is created if necessary. An incomplete last line, from a study
        that was killed, is dropped. Raises OptionError for a file that is not a list of records."""
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = path.read_text() if path.exists() else ""
        except OSError as error:
            raise OptionError(
                f"results={folder}: {error.strerror}; name a folder that can be made and written"
            ) from error
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole)
        return cls(path, list(_read(whole, path)))

    def add(self, record: Record) -> None:
        """Write a record at once."""
        self.records.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(to_json(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def found(self, key: str, code: str, commit: str) -> Record | None:
        """Return the latest record that stands for a case."""
        return next((one for one in reversed(self.records) if one.stands_for(key, code, commit)), None)


def _read(text: str, path: Path) -> Iterator[Record]:
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield from_json(Record, json.loads(line))
        except (TypeError, ValueError) as error:
            rule = "is no record of a study; remove the line, or name another folder with --results"
            raise OptionError(f"{path}:{number}: {shown(str(error))}: {rule}") from error


# -- what a record says of the machine -----------------------------------------------------------------


def machine() -> dict[str, str | int]:
    """Return the day, the machine, and the versions that affect speed."""
    return {
        "measured_at": now(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": _version("torch"),
        "sumwire": __version__,
    }


def described() -> dict[str, str]:
    """Return hardware, other load and versions in words, by name, for a page."""
    import torch

    sizes = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines() if ":" in line)
    told = {
        "processor": f"{_processor()}, {os.cpu_count()} in the system",
        "memory": f"{int(sizes['MemTotal'].split()[0]) / (1 << 20):.1f} GiB",
        "other work when the benchmark began": f"load average {os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release()}",
        "Python, PyTorch": f"{platform.python_version()}, {torch.__version__}",
    }
    return told | ({"GPU": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _processor() -> str:
    """The processor's name as the kernel has it, or its kind."""
    lines = _PROCESSORS.read_text(errors="replace").splitlines() if _PROCESSORS.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def code_of(worker: Callable[..., Any]) -> str:
    """Return a digest of the file in which a worker is written; "" without one."""
    function = worker.func if isinstance(worker, partial) else worker
    file = inspect.getsourcefile(function) if inspect.isroutine(function) else None
    return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]


@cache
def commit(root: Path = _ROOT) -> str:
    """Return the checkout's short commit, with `+` and a digest of the changes since then if there are any; `none`
    without git."""
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return "none"
    changed = _git(root, "diff", "HEAD")
    return head.strip() + (f"+{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else "")


def _git(root: Path, *words: str) -> str:
    """What git says. Root asks as the checkout's owner: git carries out what a checkout's settings tell it."""
    owner = root.stat()
    asking: dict[str, Any] = {}
    if os.geteuid() == 0:
        asking = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": ()}
    try:
        done = subprocess.run(
            [programs.program("git"), "-C", str(root), "--no-pager", *words],
            check=False, capture_output=True, text=True, errors="replace",
            env=programs.environment() | {"HOME": "/nonexistent"}, **asking,
        )  # fmt: skip
    except (OSError, UntrustedError):
        return ""
    return done.stdout if done.returncode == 0 else ""


class LoadMeter:
    """Measures the machine's load while a case runs, by this program's processes and by all."""

    def __init__(self) -> None:
        self._before = os.getloadavg()[0]
        self._began, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    def load(self) -> dict[str, float]:
        """Return values since the meter was created: load average before it, cores busy on average, and those of this
        program."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        return {
            "before": round(self._before, 2),
            "busy_cores": round((_busy_seconds() - self._busy) / seconds, 2),
            "own_cores": round((_own_seconds() - self._own) / seconds, 2),
        }


def _busy_seconds() -> float:
    """Of all processors, not idle and not waiting for a disk."""
    words = _STAT.read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _waits, *others = map(int, words)
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def rows_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the rows of all records, each with the options of its case."""
    return [{**flat(record.case), **row} for record in records for row in record.rows]
