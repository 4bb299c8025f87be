# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the workers' records of steps, and computes `summary.json`: numbers by system, and the answer.

Pure functions, except that files are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.options.recipes import BASELINE, BASELINES, TASKS, TrainingTask, parse
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.study.study import Column

COLUMNS: Final = (
    Column("accuracy", "test accuracy at the end, 0 to 1"),
    Column("bits_per_answer", "cross entropy of the test at the end", "bits"),
    Column("comm_s_per_step", "communication of a step", "s"),
    Column("step_s", "a step", "s"),
    Column("time_to_target_s", "training time to the task's accuracy", "s"),
    Column("train_s", "training time", "s"),
    Column("wire_bytes_per_step", "on a worker's link, both directions", "bytes"),
    Column("bits_per_value_up", "on a worker's link", "bits"),
    Column("bits_per_value_down", "on a worker's link", "bits"),
    Column("nmse", "squared error of the aggregate over the mean's energy"),
    Column("retransmissions", "packets sent again", kind=int),
    Column("fallbacks", "operations without the switch", kind=int),
)
"""What a training measures, as `summary.json` names it."""


@dataclass(frozen=True)
class StepRecord:
    """One step of one worker. `clock_s`: training time until the end of the step, without tests and logging."""

    step: int
    loss: float | None
    """None for a step that the other workers completed without this one."""
    clock_s: float
    step_s: float
    comm_s: float
    tx_bytes: int
    rx_bytes: int
    accuracy: float | None
    """Test accuracy after the step; None if there was no test."""
    nmse: float | None = None
    codec_s: float | None = None
    """Seconds of encoding and decoding; None for a system that does not count them."""
    tx_header_bytes: int = 0
    """Bytes of Ethernet, IPv4, UDP, TCP and Sumwire headers, which `tx_bytes` includes."""
    rx_header_bytes: int = 0
    bits: float | None = None
    """Cross entropy of the test, in bits per answer."""
    followed: bool = False
    """Whether the other workers completed the step without this one, which took their results."""
    tensors: list[dict[str, Any]] = field(default_factory=list)
    """One record per tensor, with at least `bucket`, `values` and `seconds` from hand-over to result, and `at_s`, the
    hand-over by the machine's clock, where DDP hands them over."""
    at_s: float | None = None
    """When the step began, by the machine's clock, which all workers share."""
    forward_s: float | None = None
    """Seconds from the step's begin to the end of the forward pass."""
    backward_s: float | None = None
    """Seconds from the step's begin to the end of the backward pass, with the communication that DDP does in it."""


@dataclass
class WorkerRecord:
    """Everything that one worker has written so far."""

    rank: int = -1
    total_steps: int = 0
    parameters: int = 0
    steps: list[StepRecord] = field(default_factory=list)
    fingerprint: str | None = None
    """None until the worker has ended its training."""
    stats: dict[str, Any] = field(default_factory=dict)
    host_sockets: int = 0
    """Datagrams that the sockets of its host had no room for."""

    def take(self, line: str) -> None:
        """Add one line. Raises LabError for a line of unknown kind."""
        raw = json.loads(line)
        kind = raw.pop("kind")
        if kind == "start":
            self.rank, self.total_steps, self.parameters = raw["rank"], raw["steps"], raw["parameters"]
        elif kind == "step":
            self.steps.append(StepRecord(**raw))
        elif kind == "end":
            self.fingerprint, self.stats = raw["fingerprint"], raw["stats"]
            self.host_sockets = raw.get("host_sockets", 0)
        else:
            raise LabError(f"a worker wrote a line of unknown kind {kind!r}")


class RecordFollower:
    """Reads a worker's file while it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = WorkerRecord()
        self._offset = 0

    def poll(self) -> bool:
        """Read the lines added since the last call. Returns whether there were any. An incomplete line is read
        later."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            return False
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            self.record.take(line)
        return bool(whole)


_FLOAT_BYTES: Final = 4
# Counters of JobStats.
DELIVERY: Final = (
    "missing", "left_out", "flushed", "probes", "informs", "trimmed", "ce_marks", "recovered", "ahead"
)  # fmt: skip


@dataclass(frozen=True)
class SystemResult:
    """One system's training: a record per worker, and the wall-clock time including the set-up."""

    system: str
    workers: tuple[WorkerRecord, ...]
    wall_s: float
    extra: dict[str, Any] = field(default_factory=dict)
    """Further entries of this system in summary.json."""


def time_to_target(steps: Sequence[StepRecord], target: float) -> float | None:
    """Return the training seconds until the test accuracy first reached the target; None if it never did."""
    return next((s.clock_s for s in steps if s.accuracy is not None and s.accuracy >= target), None)


def steps_to_target(steps: Sequence[StepRecord], target: float) -> int | None:
    """Return the steps until the test accuracy first reached the target; None if it never did."""
    return next((s.step + 1 for s in steps if s.accuracy is not None and s.accuracy >= target), None)


def measured(steps: Sequence[StepRecord], warm_up: int) -> Sequence[StepRecord]:
    """Return the steps for averages: those after the warm-up, or all if there are no others."""
    return steps[warm_up:] if len(steps) > warm_up else steps


def warm_up_of(system: str) -> int:
    """Return the number of first steps whose time differs from that of later ones."""
    return parse(system).recipe.warm_up_steps


def system_summary(result: SystemResult, task: TrainingTask) -> dict[str, Any]:
    """Return one entry of `systems`. Numbers per step are means over all workers and all measured steps. Bytes are
    those of one worker's link, both directions together. Raises LabError if workers have no steps, or different numbers
    of them."""
    counts = {len(w.steps) for w in result.workers}
    if len(counts) != 1 or counts == {0}:
        raise LabError(f"{result.system}: workers made {sorted(counts)} steps, they must be equal and above 0")
    first = result.workers[0].steps
    warm_up = warm_up_of(result.system)
    steps = [s for w in result.workers for s in measured(w.steps, warm_up)]
    fingerprints = {w.fingerprint for w in result.workers}
    entry: dict[str, Any] = {
        "accuracy": _last(s.accuracy for s in first),
        "bits_per_answer": _last(s.bits for s in first),
        "time_to_target_s": time_to_target(first, task.target),
        "comm_s_per_step": fmean(s.comm_s for s in steps),
        "algorithm_mb_per_s": _algorithm_mb_per_s(result.workers[0].parameters, fmean(s.comm_s for s in steps)),
        "codec_s_per_step": _mean_known(s.codec_s for s in steps),
        "compute_s_per_step": fmean(s.step_s - s.comm_s for s in steps),
        "wire_bytes_per_step": fmean(s.tx_bytes + s.rx_bytes for s in steps),
        "steps": len(first),
        "steps_to_target": steps_to_target(first, task.target),
        "step_s": fmean(s.step_s for s in steps),
        "step_s_p50": percentile([s.step_s for s in steps], 50),
        "step_s_p99": percentile([s.step_s for s in steps], 99),
        "comm_s_per_step_median": median(s.comm_s for s in steps),
        "comm_s_per_step_p99": percentile([s.comm_s for s in steps], 99),
        "tx_bytes_per_step": fmean(s.tx_bytes for s in steps),
        "rx_bytes_per_step": fmean(s.rx_bytes for s in steps),
        "warm_up_steps": warm_up,
        "train_s": first[-1].clock_s,
        "wall_s": result.wall_s,
        "parameters": result.workers[0].parameters,
        "replicas_equal": len(fingerprints) == 1 and None not in fingerprints,
        "fingerprints": [w.fingerprint for w in result.workers],
        **bits_per_value(result.workers),
        **tensor_times(result.workers, warm_up),
    }
    if result.system != BASELINE:
        entry |= _switch_numbers(result.workers)
    return entry | result.extra


def _algorithm_mb_per_s(parameters: int, comm_s: float) -> float | None:
    """Megabytes of float32 gradient that are reduced in a second of communication; None without communication."""
    return parameters * _FLOAT_BYTES / comm_s / 1e6 if comm_s else None


def tensor_times(workers: Sequence[WorkerRecord], warm_up: int) -> dict[str, Any]:
    """Return the seconds from a tensor's hand-over to its result, over all workers and measured steps; empty without
    records.

    If tensors went through priority lanes, `tensor_by_lane` has the times of each lane, the most urgent first, and
    `tensor_missing_max` the largest missing share of a tensor.
    """
    tensors = [one for w in workers for s in measured(w.steps, warm_up) if not s.followed for one in s.tensors]
    if not tensors:
        return {}
    times: dict[str, Any] = {f"tensor_{name}": value for name, value in _spread(tensors).items()}
    lanes = sorted({one["lane"] for one in tensors if "lane" in one})
    if lanes:
        of_lane = {lane: [one for one in tensors if one["lane"] == lane] for lane in lanes}
        times["tensor_by_lane"] = [
            {"lane": lane, "priority": ones[0]["priority"], **_spread(ones)} for lane, ones in of_lane.items()
        ]
        times["tensor_missing_max"] = max(one["missing_share"] for one in tensors)
    return times


def _spread(tensors: Sequence[dict[str, Any]]) -> dict[str, float]:
    seconds = [float(one["seconds"]) for one in tensors]
    return {"s": fmean(seconds), "s_p50": percentile(seconds, 50), "s_p99": percentile(seconds, 99)}


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that is not exceeded by `percent` % of the values."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _last(values: Iterable[float | None]) -> float | None:
    return next((value for value in reversed(list(values)) if value is not None), None)


def bits_per_value(workers: Sequence[WorkerRecord]) -> dict[str, float]:
    """Return the bits on a worker's link per step and parameter, up (sent) and down, with headers and without.

    The mean is over all steps, the first two included: some systems have larger rounds from time to time, and omitting
    steps would change their weight.
    """
    steps = [s for w in workers for s in w.steps]
    values = len(steps) * workers[0].parameters

    def share(byte_count: int) -> float:
        return 8 * byte_count / values

    up, down = sum(s.tx_bytes for s in steps), sum(s.rx_bytes for s in steps)
    up_headers, down_headers = sum(s.tx_header_bytes for s in steps), sum(s.rx_header_bytes for s in steps)
    return {
        "bits_per_value_up": share(up),
        "bits_per_value_down": share(down),
        "payload_bits_per_value_up": share(up - up_headers),
        "payload_bits_per_value_down": share(down - down_headers),
    }


def _switch_numbers(workers: Iterable[WorkerRecord]) -> dict[str, Any]:
    """Numbers that gloo does not have. Counts are sums over the workers."""
    workers = tuple(workers)
    nmse = [s.nmse for s in workers[0].steps if s.nmse is not None]
    return {
        "nmse": fmean(nmse) if nmse else None,
        "nmse_samples": len(nmse),
        "retransmissions": sum(int(w.stats.get("retransmissions", 0)) for w in workers),
        "fallbacks": sum(int(w.stats.get("fallbacks", 0)) for w in workers),
        **_delivery_numbers(workers),
    }


def _delivery_numbers(workers: Sequence[WorkerRecord]) -> dict[str, Any]:
    """Counters of bounded loss and quorum, if any of them is above 0."""
    followed = [sum(s.followed for s in w.steps) for w in workers]
    counts = {name: sum(int(w.stats.get(name, 0)) for w in workers) for name in DELIVERY}
    return {**(counts if any(counts.values()) else {}), **({"followed": followed} if any(followed) else {})}


def run_summary(options: RunOptions, switch: str, results: Sequence[SystemResult]) -> dict[str, Any]:
    """Return the content of `summary.json`. `switch`: the kind that was used."""
    systems = {r.system: system_summary(r, TASKS[options.train.task]) for r in results}
    return {
        "workers": options.workers,
        "link_mbit": options.link.mbit,
        "topology": options.topology,
        "switch": switch,
        "engine": options.engine if switch == "soft" else None,
        "queue_packets": options.link.queue_packets,
        "control": options.link.control,
        "seed": options.train.seed,
        "impair": options.impair,
        "conditions": options.conditions.as_dict() if options.conditions.any else None,
        "laned": options.laned.applied({name for r in results for name in parse(r.system).laned_options}),
        "task": options.train.task,
        "target_accuracy": TASKS[options.train.task].target,
        "answer": answers(systems),
        "systems": systems,
    }


def ratio(summary: dict[str, Any], key: str, system: str, baseline: str = BASELINE) -> float | None:
    """Return the baseline's value of `key` over a system's; None if one of them lacks it."""
    systems = summary["systems"]
    if system not in systems or baseline not in systems:
        return None
    mine, theirs = systems[system].get(key), systems[baseline].get(key)
    return theirs / mine if mine and theirs else None


def fastest(seconds: Mapping[str, float | None], names: Iterable[str]) -> str | None:
    """Return the fastest of `names`; None if none of them has a time."""
    timed = {name: value for name in names if (value := seconds.get(name)) is not None}
    return min(timed, key=timed.__getitem__) if timed else None


def answers(systems: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return ratios by system, from the entries of summary.json; empty without gloo.

    Ratios are gloo's value over the system's. `bound` is the ratio of the bytes in the busier direction of a link. The
    communication's ratio would have this value if only the links took time. `accuracy_points` are percentage points
    above gloo's test accuracy. `best_baseline` is the run's baseline that reaches the target first, and `over_best` its
    time to the target over the system's.
    """
    if BASELINE not in systems:
        return {}
    base = systems[BASELINE]
    best = fastest({name: entry.get("time_to_target_s") for name, entry in systems.items()}, BASELINES)
    return {
        name: {
            "communication": _ratio(base, entry, "comm_s_per_step"),
            "bound": _over(busier(base), busier(entry)),
            "time_to_accuracy": _ratio(base, entry, "time_to_target_s"),
            "bytes": _ratio(base, entry, "wire_bytes_per_step"),
            "accuracy_points": _points(base.get("accuracy"), entry.get("accuracy")),
            "best_baseline": best,
            "over_best": None if best is None else _ratio(systems[best], entry, "time_to_target_s"),
        }
        for name, entry in systems.items()
        if name != BASELINE
    }


def busier(entry: Mapping[str, Any]) -> float | None:
    """Return the bytes per step in the busier direction of a worker's link."""
    both = [entry.get("tx_bytes_per_step"), entry.get("rx_bytes_per_step")]
    known = [count for count in both if count is not None]
    return max(known) if known else None


def _ratio(base: Mapping[str, Any], entry: Mapping[str, Any], key: str) -> float | None:
    return _over(base.get(key), entry.get(key))


def _over(theirs: float | None, mine: float | None) -> float | None:
    return theirs / mine if theirs and mine else None


def _points(theirs: float | None, mine: float | None) -> float | None:
    return None if theirs is None or mine is None else 100 * (mine - theirs)
