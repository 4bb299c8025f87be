# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-ways`: the ways into Sumwire: from a wheel to a training, the backend of torch.distributed, outer
steps over slow links, and packages (extras, compiled kernels, the unit of systemd, the images).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from sumwire_lab.experiments import added_lines, outer_steps, sharded
from sumwire_lab.experiments.sharded import GLOO, MBIT, RANKS, ROUNDED, SUMWIRE, Sharded
from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.study.check import Check, absent, at_most, equal, holds, reported
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify import security
from sumwire_lab.verify.plan import Experiment, Plan
from sumwire_lab.verify.processes import measured_by, run_tests

LINES_MAX: Final = 3
POINTS_MAX: Final = 0.5
# Retransmissions of single packets differ from run to run.
_BYTES_SLACK: Final = 0.02


def line_checks(record: Mapping[str, Any]) -> list[Check]:
    """`record`: what `experiments.added_lines` measures."""
    away = 100 * (mean(record["sumwire"]) - mean(record["gloo"]))
    value = {"gloo": _points(record["gloo"]), "sumwire": _points(record["sumwire"]), "points": round(away, 2)}
    label = f"digits, 4 ranks, {len(record['gloo'])} seeds: accuracy of a plain DDP script with three lines more"
    return [
        at_most("lines added to a plain DDP script", record["lines"], LINES_MAX),
        holds(label, value, f"within {POINTS_MAX} points of gloo", abs(away) <= POINTS_MAX),
    ]


def _points(accuracies: Sequence[float]) -> list[float]:
    return [round(100 * accuracy, 2) for accuracy in accuracies]


def node_check(record: Mapping[str, Any]) -> Check:
    """`record`: what `experiments.ways_nodes` measures."""
    ranks = record["ranks"]
    share = record["node"] / record["flat"]
    label = f"{record['nodes']} x {ranks} ranks: bytes that a node sends, against {ranks} workers on it"
    target = f"1 / {ranks}, by {_BYTES_SLACK:.0%}"
    value = {"share": round(share, 4), "node": record["node"], "flat": record["flat"]}
    return holds(label, value, target, abs(share * ranks - 1) <= _BYTES_SLACK)


def tree_checks(record: Mapping[str, Any]) -> list[Check]:
    """`record`: what `experiments.aggregator_tree` measures."""
    workers, leaves = record["workers"], record["leaves"]
    label = f"{workers} workers below {leaves} leaves and a root, against one aggregator"
    flat, with_leaves = record["flat"]["exact"], record["tree"]["exact"]
    value = {"tree": with_leaves["received"], "flat": flat["received"]}
    value["share"] = round(value["tree"] / value["flat"], 4)
    return [
        equal(f"{label}: sums equal to the bit, exact ones and THC's", record["same"], {"exact": True, "thc": True}),
        holds(
            f"{label}: bytes to the root, exact sums", value, f"{leaves} / {workers}, by {_BYTES_SLACK:.0%}",
            abs(value["share"] * workers / leaves - 1) <= _BYTES_SLACK,
        ),
        *(
            reported(f"{label}: {way} mean of {record['values']:,} values, {shape}", record[shape][way])
            for way in record["same"]
            for shape in ("flat", "tree")
        ),
    ]  # fmt: skip


_WHEEL: Final = "tests/system/test_wheel.py"
_START: Final = "tests/system/test_start.py"
# 64 ranks, and what tests and a quick try have.
NODES, QUICK_NODES = (8, 8), (2, 4)
# Workers and leaves of a tree, and how often it is measured.
TREE: Final = (8, 2)
TURNS, QUICK_TURNS = 3, 1
QUICK_EPOCHS: Final = 2


def start(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {
        "wheel": partial(
            _start_tests,
            "the wheel in an environment with its dependencies: commands, a switch, four ranks", _WHEEL
        ),
        "empty": partial(
            _start_tests,
            "wheel and torch from the package index in an empty environment, without the controller's protobuf",
            f"{_START}::test_wheel_and_torch_in_an_empty_environment",
        ),
        "eight": partial(
            _start_tests,
            "8 servers without a switch, as network namespaces: 8 installs, 8 starts, 1 `sumwire up`, no file",
            f"{_START}::test_eight_servers",
        ),
        "examples": partial(_start_tests,
            "examples from the wheel", f"{_START}::test_examples_from_the_wheel"),
        "lines": partial(_lines, options),
        "nodes": partial(_nodes, options),
        "tree": partial(_tree, options),
    }  # fmt: skip


def _start_tests(label: str, path: str) -> list[Check]:
    return [security.tests_check(label, "works", run_tests([path]))]


def _lines(options: WaysOptions) -> list[Check]:
    epochs = QUICK_EPOCHS if options.quick else added_lines.EPOCHS
    return line_checks(added_lines.measured(options.seeds, epochs))


def _nodes(options: WaysOptions) -> list[Check]:
    """In a process of its own, which forks its ranks."""
    wanted = (QUICK_NODES,) if options.quick else (QUICK_NODES, NODES)
    return [_one_size(*size) for size in wanted]


def _one_size(nodes: int, ranks: int) -> Check:
    return node_check(measured_by("loopback", "nodes", nodes, ranks))


def _tree(options: WaysOptions) -> list[Check]:
    """In a process of its own, which forks its workers."""
    if os.geteuid() or shutil.which("ip") is None:
        return [absent("a tree of aggregators against a single one", "equal results", "needs root and the program ip")]
    return tree_checks(measured_by("aggregator_tree", *TREE, QUICK_TURNS if options.quick else TURNS))


RATIO_MIN: Final = 3.0
LOSS_MOST: Final = 0.01
_SHARDED_WHERE: Final = f"{sharded.NODES} x {RANKS} ranks, {MBIT:g} Mbit/s between nodes"


def hybrid_checks(record: Sharded) -> list[Check]:
    """Shards within the nodes, and replicas."""
    return [
        holds(_hybrid(record), _value(record), f">= {RATIO_MIN:g}", record.ratio() >= RATIO_MIN),
        equal("HSDP: all ranks end with the same parameters", record.equal, True),
    ]


def narrow_check(record: Sharded) -> Check:
    """A smaller model, with replicas too."""
    return reported(_hybrid(record), _value(record))


def whole_checks(record: Sharded) -> list[Check]:
    """Shards on all ranks, with parameters gathered in full and with 8 bits. What gathers with 8 bits bring alone, by
    gloo, and what the network brings beside them, is reported."""
    full, rounded = (f"{_where(record)}, parameters gathered {how}" for how in ("in full", "with 8 bits"))
    fastest = record.ratio(GLOO, ROUNDED[SUMWIRE])
    value = {
        "ratio": round(fastest, 2),
        "gloo / gloo with 8 bits": round(record.ratio(GLOO, ROUNDED[GLOO]), 2),
        "gloo with 8 bits / sumwire with 8 bits": round(record.ratio(ROUNDED[GLOO], ROUNDED[SUMWIRE]), 2),
    }
    return [
        reported(f"{full}: seconds a step, gloo / sumwire", _value(record)),
        holds(
            f"{rounded}: seconds a step, gloo with full ones / sumwire",
            value,
            f">= {RATIO_MIN:g}",
            fastest >= RATIO_MIN,
        ),
        equal("FSDP2 over all ranks: all ranks end with the same parameters", record.equal, True),
    ]


def sharded_loss_check(found: Mapping[str, Sequence[float]]) -> Check:
    """`found`: what `experiments.sharded_loss` measures."""
    exact, rounded = (mean(found[name]) for name in ("4bit", "4bit, parameters 8bit"))
    more = rounded / exact - 1
    value = {**{name: [round(loss, 4) for loss in each] for name, each in found.items()}, "more": round(more, 4)}
    label = f"FSDP2 over all ranks, {len(found['4bit'])} seeds: final loss with parameters of 8 bits, over full ones"
    return holds(label, value, f"at most {LOSS_MOST:.0%} more", more <= LOSS_MOST)


def _where(record: Sharded) -> str:
    return f"FSDP2 over all ranks, {_model(record)}, {_SHARDED_WHERE}"


def _hybrid(record: Sharded) -> str:
    return f"HSDP character transformer, {_model(record)}, {_SHARDED_WHERE}: seconds a step, gloo / sumwire"


def _model(record: Sharded) -> str:
    return f"{record.parameters / 1e6:.1f} M parameters"


def _value(record: Sharded) -> dict[str, Any]:
    seconds = {name: round(median(each), 4) for name, each in record.seconds.items()}
    cpu_s = {f"CPU s {name}": round(median(each), 4) for name, each in record.cpu_s.items()}
    ends = {f"loss {name}": round(median(each), 4) for name, each in record.losses.items()}
    return {"ratio": round(record.ratio(), 2), **seconds, **cpu_s, **ends}


_FOLDER: Final = "tests/integration/host/backend"
SHARDED_TURNS: Final = 2
QUICK_SHARDED_STEPS: Final = 2
LOSS_STEPS, QUICK_LOSS_STEPS = 400, 40


def backend(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {
        "calls": partial(
            _backend_tests,
            "collectives, groups and asynchronous calls against gloo, 4 ranks", "equal within the precision",
            "test_against_gloo.py",
        ),
        "parallel": partial(
            _backend_tests,
            "DDP, FSDP2, HSDP, ZeRO, tensor-parallel layers, pipelines against gloo, 4 ranks",
            "equal within the precision", "test_parallel.py",
        ),
        "sizes": partial(
            _backend_tests,
            "DDP, FSDP2, tensor-parallel layers, new_group and asynchronous calls against gloo, 2 to 8 ranks",
            "equal within the precision, exact ones bit for bit", "test_sizes.py",
        ),
        "forms": partial(
            _backend_tests,
            "the backend by \"cpu:sumwire\" and \"cpu:sumwire,cuda:nccl\", with a service's job and init's",
            "sums go through the network", "test_forms.py",
        ),
        "torch": partial(_backend_tests,
            "PyTorch's own tests that the page lists", "all pass", "test_torch_tests.py"),
        "hooks": partial(
            _backend_tests,
            "FSDP2, HSDP and FSDP1 by hooks, ZeRO beside the hook of DDP, 4 ranks",
            "means within the precision, error feedback, checkpoints bit for bit", "../sharded/test_sharded.py",
        ),
        "sharded": partial(_sharded, results, say, options),
        "sharded-loss": partial(_sharded_loss, options),
    }  # fmt: skip


def _backend_tests(label: str, target: str, file: str) -> list[Check]:
    return [security.tests_check(label, target, run_tests([f"{_FOLDER}/{file}"]))]


def _sharded(results: Path, say: Say, options: WaysOptions) -> list[Check]:
    """HSDP has the target, and FSDP2 over all ranks with parameters gathered with 8 bits. A narrow model is reported,
    and FSDP2 with full ones."""
    turns, steps = (1, QUICK_SHARDED_STEPS) if options.quick else (SHARDED_TURNS, sharded.STEPS)
    run = partial(sharded.run_sharded, results, say)
    hybrid = run(sharded.Training(replicas=True, steps=steps), turns=turns)
    narrow = run(sharded.Training(True, sharded.NARROW, steps), turns=1)
    whole = run(sharded.Training(False, steps=steps, systems=sharded.WITH_ROUNDED), turns=1)
    return [*hybrid_checks(hybrid), narrow_check(narrow), *whole_checks(whole)]


def _sharded_loss(options: WaysOptions) -> list[Check]:
    steps = QUICK_LOSS_STEPS if options.quick else LOSS_STEPS
    return [sharded_loss_check(measured_by("loopback", "sharded", steps, *options.seeds))]


GLOO_LEAST: Final = 6.0
RING_LEAST: Final = 2.0
OUTER_LOSS_MOST: Final = 0.01
DEFAULT_CONTROL: Final = "cubic"
_OUTER_WHERE: Final = "outer step, 4 workers, 50 ms round trip, 1 % loss, 20 Mbit/s"


def outer_time_checks(record: Mapping[str, Any]) -> list[Check]:
    """`record`: what `experiments.outer_time` measures. The targets are those beside the default congestion control of
    Linux; with another one the same ratios are told."""
    checks = []
    for control, found in record.items():
        for name, least in (("gloo", GLOO_LEAST), ("int8 ring", RING_LEAST)):
            seconds: Mapping[str, float] = found["seconds"]
            ratio = seconds[name] / seconds["4bit"]
            value = {
                "ratio": round(ratio, 2),
                **{one: round(seconds[one], 3) for one in (name, "4bit")},
                "values": found["values"],
            }
            label = f"{_OUTER_WHERE}, TCP with {control}: {name} / sumwire 4 bit"
            decides = control == DEFAULT_CONTROL
            checks.append(holds(label, value, f">= {least:g}", ratio >= least) if decides else reported(label, value))
    return checks


def outer_loss_check(found: Mapping[str, Sequence[float]]) -> Check:
    """`found`: what `experiments.outer_loss` measures. The target is that of 4 bits; 1 bit is told beside it."""
    exact = mean(found["exact"])
    more = {name: mean(found[name]) / exact - 1 for name in ("4bit", "1bit")}
    value = {
        **{name: _rounded(found[name]) for name in found},
        **{f"{name} more": round(more[name], 4) for name in more},
    }
    label = f"character transformer, outer steps, {len(found['exact'])} seeds: final loss at 4 bits, over uncompressed"
    return holds(label, value, f"at most {OUTER_LOSS_MOST:.0%} more", more["4bit"] <= OUTER_LOSS_MOST)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


OUTER_STEPS, QUICK_OUTER_STEPS = 400, 40
_OUTER_TESTS = ["tests/unit/host/training/test_outer.py", "tests/integration/host/training/test_outer.py"]


def outer(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {"equal": _equal, "time": partial(_time, results, say, options), "loss": partial(_outer_loss, options)}


def _equal() -> list[Check]:
    label = "outer steps: replicas bit-equal after each, 4 and 1 bits, parts, overlap, states, workers that come and go"
    return [security.tests_check(label, "all pass", run_tests(_OUTER_TESTS))]


def _time(results: Path, say: Say, options: WaysOptions) -> list[Check]:
    return outer_time_checks(outer_steps.run_outer_steps(results, say, quick=options.quick))


def _outer_loss(options: WaysOptions) -> list[Check]:
    steps = QUICK_OUTER_STEPS if options.quick else OUTER_STEPS
    return [outer_loss_check(measured_by("loopback", "outer", steps, *options.seeds))]


_FILE: Final = "tests/system/test_packages.py"
_WORKS: Final = "works"


def packages(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {
        "extras": partial(
            _package_tests,
            "each extra alone in an empty environment, and beside current PyTorch",
            "test_an_extra_alone_and_beside_pytorch", "test_the_host_library_brings_nothing_of_the_controller",
        ),
        "kernels": partial(
            _package_tests,
            "the wheel's compiled kernels without a compiler, and with a byte changed",
            "test_kernels_come_compiled",
        ),
        "arm": partial(
            _tests_with, "aarch64-linux-gnu-gcc", "the wheel's kernels for 64-bit Arm, by a cross compiler; not run",
            "test_kernels_for_arm",
        ),
        "unit": partial(
            _tests_with, "systemd-analyze", "the aggregator's unit, by systemd-analyze: verify, exposure at most 2.0",
            "test_the_unit_of_systemd",
        ),
        "images": partial(
            _tests_with, "debootstrap", "the images' steps in a bare Debian: aggregator, switch, controller",
            "test_the_images_steps_in_a_bare_debian",
        ),
    }  # fmt: skip


def _package_tests(label: str, *names: str) -> list[Check]:
    return [security.tests_check(label, _WORKS, run_tests([f"{_FILE}::{name}" for name in names]))]


def _tests_with(program: str, label: str, name: str) -> list[Check]:
    if shutil.which(program) is None:
        return [absent(label, _WORKS, f"{program} is not on PATH")]
    return _package_tests(label, name)


# By way, as in WAYS: from folder of results, printer and options to the experiments of its rows, by name.
WAYS_IN: Final[Mapping[str, Callable[[Path, Say, WaysOptions], Mapping[str, Experiment]]]] = {
    "start": start,
    "backend": backend,
    "outer": outer,
    "packages": packages,
}


def plan(results: Path, say: Say, options: WaysOptions) -> Plan:
    """What somebody who comes anew needs, way by way. Raises OptionError for a row that no way has."""
    chosen: dict[str, Experiment] = {}
    for way, experiments in WAYS_IN.items():
        made = experiments(results, say, options)
        chosen |= {f"{way}-{row}": made[row] for row in options.wanted(way, made)}
    return Plan("ways", chosen)
