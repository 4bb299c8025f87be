# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-ways`: checks the entry points of Sumwire: from a wheel to a training, the backend of torch.distributed,
outer steps over slow links, and packages (extras, compiled kernels, the systemd unit, the images)."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from math import log
from statistics import mean, median
from typing import Any, Final

from sumwire_lab.experiments import added_lines, loopback, outer_steps, sharded, signs_alone
from sumwire_lab.experiments import training_scenarios as scenarios
from sumwire_lab.experiments.sharded import GLOO, MBIT, RANKS, ROUNDED, SUMWIRE, Sharded
from sumwire_lab.experiments.training_scenarios import Outcome
from sumwire_lab.study.check import Check, absent, at_most, equal, holds, must_fail, reported
from sumwire_lab.training.digits_data import CLASSES
from sumwire_lab.verify import predictions
from sumwire_lab.verify.plan import Experiment, Experiments, Verification, measured_by, shown_by

LINES_MAX: Final = 3
POINTS_MAX: Final = 0.5
# Retransmissions of single packets differ from run to run.
_BYTES_SLACK: Final = 0.02


def line_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check the added lines. `record`: what `experiments.added_lines` measures."""
    label = f"digits, 4 ranks, {len(record['gloo'])} seeds: accuracy of a plain DDP script with three lines more"

    def close(name: str) -> Check:
        away = 100 * (mean(record[name]) - mean(record["gloo"]))
        value = {"gloo": _points(record["gloo"]), name: _points(record[name]), "points": round(away, 2)}
        return holds(label, value, f"within {POINTS_MAX} points of gloo", abs(away) <= POINTS_MAX)

    return [
        at_most("lines added to a plain DDP script", record["lines"], LINES_MAX),
        close("sumwire"),
        must_fail(signs_alone.NAME, close("signs")),
    ]


def _points(accuracies: Sequence[float]) -> list[float]:
    return [round(100 * accuracy, 2) for accuracy in accuracies]


def node_check(record: Mapping[str, Any]) -> Check:
    """Check the ways of nodes. `record`: what `experiments.ways_nodes` measures."""
    ranks = record["ranks"]
    share = record["node"] / record["flat"]
    label = f"{record['nodes']} x {ranks} ranks: bytes that a node sends, against {ranks} workers on it"
    target = f"1 / {ranks}, by {_BYTES_SLACK:.0%}"
    value = {"share": round(share, 4), "node": record["node"], "flat": record["flat"]}
    return holds(label, value, target, abs(share * ranks - 1) <= _BYTES_SLACK)


def tree_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check a tree. `record`: what `experiments.aggregator_tree` measures."""
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


_WORKS: Final = "works"
_START: Final = "tests/system/test_start.py"
# 64 ranks, and what tests and a quick try have.
NODES, QUICK_NODES = (8, 8), (2, 4)
# Workers and leaves of a tree, and how often it is measured.
TREE: Final = (8, 2)
TURNS, QUICK_TURNS = 3, 1
QUICK_EPOCHS: Final = 2


def _lines(v: Verification) -> list[Check]:
    epochs = QUICK_EPOCHS if v.quick else added_lines.EPOCHS
    return line_checks(added_lines.measured(v.options.seeds, epochs))


def _nodes(v: Verification) -> list[Check]:
    """In a process of its own, which forks its ranks."""
    wanted = (QUICK_NODES,) if v.quick else (QUICK_NODES, NODES)
    return [node_check(measured_by("loopback", "nodes", *size)) for size in wanted]


def _tree(v: Verification) -> list[Check]:
    """In a process of its own, which forks its workers."""
    if os.geteuid() or shutil.which("ip") is None:
        return [absent("a tree of aggregators against a single one", "equal results", "needs root and the program ip")]
    return tree_checks(measured_by("aggregator_tree", *TREE, QUICK_TURNS if v.quick else TURNS))


RESUME_MOST_S: Final = 5.0
# Of sums of float32, against the largest value; and THC's own error, which is 0.02 in the mean.
LOST_MOST: Final = 1e-4
ERROR_MOST: Final = 0.2
# Of 360 digits: three standard deviations of what chance does to 95 %.
NOISE_MOST: Final = 3.5
KILLS, QUICK_KILLS = 50, 2


def elastic_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check a training whose ranks come and go. `record`: what `experiments.elastic` measures."""
    label = f"elastic: {record['kills']} times 1 of 4 ranks killed at a random moment, and one added"
    slowest = max(record["resumed_s"])
    resumed = {"slowest": round(slowest, 2), "median": round(median(record["resumed_s"]), 2)}
    sums = {name: record[name] for name in ("lost", "error", "checked", "discarded", "steps")}
    right = record["checked"] > 0 and record["lost"] <= LOST_MOST and record["error"] <= ERROR_MOST

    def close(name: str) -> Check:
        away = 100 * (record[name] - record["uninterrupted"])
        accuracies = {one: round(100 * record[one], 2) for one in (name, "uninterrupted")}
        return holds(f"{label}: accuracy", accuracies, f"within {NOISE_MOST} points", abs(away) <= NOISE_MOST)

    return [
        holds(f"{label}: seconds until the others go on", resumed, f"<= {RESUME_MOST_S:g}", slowest <= RESUME_MOST_S),
        equal(f"{label}: all end with the same parameters, and none hangs", record["equal"], True),
        holds(f"{label}: what ranks owed is what was applied and is left", sums, "within rounding, and THC's", right),
        close("accuracy"),
        must_fail("nothing learned after the first kill", close("until_first")),
    ]


def _elastic(v: Verification) -> list[Check]:
    if importlib.util.find_spec("torchft") is None:
        return [absent("elastic: ranks that come and go", "the others go on", "torchft is not installed")]
    return elastic_checks(measured_by("elastic", QUICK_KILLS if v.quick else KILLS))


def _tested(label: str, *paths: str, program: str | None) -> Experiment:
    """A row of tests, undecided without a program that they need."""

    def measure(v: Verification) -> list[Check]:
        if program is not None and shutil.which(program) is None:
            return [absent(label, _WORKS, f"{program} is not on PATH")]
        return shown_by(label, _WORKS, *paths)(v)

    return measure


def _launched(program: str) -> Experiment:
    path = f"tests/integration/host/start/test_launched.py::test_launchers_of_clusters[{program}]"
    return _tested(f"a program with the three lines, started by {program}", path, program=program)


START: Final[Experiments] = {
    "wheel": shown_by(
        "the wheel in an environment with its dependencies: commands, a switch, four ranks",
        _WORKS,
        "tests/system/test_wheel.py",
    ),
    "empty": shown_by(
        "wheel and torch from the package index in an empty environment, without the controller's protobuf",
        _WORKS,
        f"{_START}::test_wheel_and_torch_in_an_empty_environment",
    ),
    "eight": shown_by(
        "8 servers without a switch, as network namespaces: 8 installs, 8 starts, 1 `sumwire up`, no file",
        _WORKS,
        f"{_START}::test_eight_servers",
    ),
    "examples": shown_by("examples from the wheel", _WORKS, f"{_START}::test_examples_from_the_wheel"),
    "lines": _lines,
    "nodes": _nodes,
    "tree": _tree,
    "elastic": _elastic,
    "srun": _launched("srun"),
    "mpirun": _launched("mpirun"),
    "ray": shown_by("Ray Train with the three lines", _WORKS, "tests/system/test_packages.py::test_ray_trains"),
}


# -- training loops of many kinds --------------------------------------------------------------------------


# Of an untrained network.
UNTRAINED: Final = log(CLASSES)
# Of what gloo's loss falls by. Seeds of one scenario differ by up to 4 %.
SHARE_LEAST: Final = 0.9
REFUSED_AT_ONCE: Final[Mapping[str, Sequence[str]]] = {scenarios.HOOK: ("sparse embedding",)}
_WAYS: Final[Mapping[str, Sequence[str]]] = {
    scenarios.HOOK: tuple(scenarios.DDP),
    scenarios.BACKEND: tuple(scenarios.DDP),
    scenarios.SHARDED: scenarios.FSDP,
}
# What a quick try plays; and what must fail with too few bits.
_FEW: Final = ("mlp", "two models, one pass")
_BAD: Final = ("transformer, AdamW",)


def scenario_checks(way: str, ranks: int, found: Sequence[Outcome], baseline: Sequence[Outcome]) -> list[Check]:
    """Check what became of training loops. ``found`` and ``baseline``: what `training_scenarios.measured` returns."""
    passed = scenarios_passed(found, baseline, REFUSED_AT_ONCE.get(way, ()))
    failed = {one["scenario"]: one for one in found if one["scenario"] not in passed}
    label = f"training loops, {way}, {ranks} ranks: parameters equal, loss falls as by gloo, or refused at once"
    return [holds(label, failed or f"{len(passed)} of {len(found)}", f"all {len(found)}", not failed)]


def scenarios_passed(found: Sequence[Outcome], baseline: Sequence[Outcome], refused: Sequence[str]) -> dict[str, float]:
    """Return the loops that ended as they must, and the share of gloo's fall in loss that each reached."""
    of_gloo = {one["scenario"]: one["loss"] for one in baseline if "loss" in one}
    passed = {}
    for one in found:
        name = one["scenario"]
        if "refused" in one and name in refused:
            passed[name] = 0.0
        elif "loss" in one and one["equal"] and name in of_gloo:
            share = (UNTRAINED - one["loss"]) / (UNTRAINED - of_gloo[name])
            passed |= {name: share} if share >= SHARE_LEAST else {}
    return passed


def _scenarios(way: str) -> Experiment:
    """Play a way's loops with two ranks and with four."""

    def measure(v: Verification) -> list[Check]:
        names = _FEW if v.quick else _WAYS[way]
        checks = []
        for ranks in (2,) if v.quick else (2, 4):
            v.say(f"{len(names)} training loops, {way}, {ranks} ranks")
            baseline = scenarios.measured(scenarios.BASELINES[way], ranks, names)
            checks += scenario_checks(way, ranks, scenarios.measured(way, ranks, names), baseline)
        return checks

    return measure


def _bad_scenario(v: Verification) -> list[Check]:
    """What a loss that falls less looks like: one bit a value without error feedback. Adam can tell."""
    v.say("a training loop with 1 bit, which must fail")
    baseline, found = (scenarios.measured(way, 2, _BAD) for way in (scenarios.GLOO, scenarios.ONE_BIT))
    passed = scenarios_passed(found, baseline, ())
    return [equal(f"{_BAD[0]}, with 1 bit and no error feedback: loss falls as by gloo", [*passed], [])]


SCENARIOS: Final[Experiments] = {
    "hook": _scenarios(scenarios.HOOK),
    "backend": _scenarios(scenarios.BACKEND),
    "sharded": _scenarios(scenarios.SHARDED),
    "bad": _bad_scenario,
}


# -- the backend of torch.distributed ----------------------------------------------------------------------


RATIO_MIN: Final = 3.0
# Of trainings of a character transformer.
LOSS_MOST: Final = 0.01
_SHARDED_WHERE: Final = f"{sharded.NODES} x {RANKS} ranks, {MBIT:g} Mbit/s between nodes"


def hybrid_checks(record: Sharded) -> list[Check]:
    """Check shards within the nodes, and replicas."""
    return [
        holds(_hybrid(record), _value(record), f">= {RATIO_MIN:g}", record.ratio() >= RATIO_MIN),
        equal("HSDP: all ranks end with the same parameters", record.equal, True),
    ]


def narrow_check(record: Sharded) -> Check:
    """Check a smaller model, with replicas too."""
    return reported(_hybrid(record), _value(record))


def whole_checks(record: Sharded) -> list[Check]:
    """Check shards on all ranks, with parameters gathered in full and with 8 bits. Also reports the gain of 8-bit
    gathers alone, with gloo, and the further gain of the network."""
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


def sharded_loss_checks(found: Mapping[str, Sequence[float]]) -> list[Check]:
    """Check the losses. `found`: what `loopback.sharded_losses` returns."""
    label = f"FSDP2 over all ranks, {len(found['4bit'])} seeds: final loss with parameters of 8 bits, over full ones"
    rounded, bad = (_more(label, name, "4bit", found) for name in ("4bit, parameters 8bit", loopback.BAD))
    return [rounded, must_fail(loopback.BAD, bad)]


def _more(label: str, name: str, exact: str, found: Mapping[str, Sequence[float]]) -> Check:
    """Check a final loss, the mean of the seeds, over the exact one."""
    more = mean(found[name]) / mean(found[exact]) - 1
    value = {**{one: _rounded(losses) for one, losses in found.items()}, f"{name} more": round(more, 4)}
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


def _sharded(v: Verification) -> list[Check]:
    """HSDP has the target, and FSDP2 over all ranks with parameters gathered with 8 bits. A narrow model is reported,
    and FSDP2 with full ones."""
    turns, steps = (1, QUICK_SHARDED_STEPS) if v.quick else (SHARDED_TURNS, sharded.STEPS)
    run = partial(sharded.run_sharded, v.results, v.say)
    hybrid = run(sharded.Training(replicas=True, steps=steps), turns=turns)
    narrow = run(sharded.Training(True, sharded.NARROW, steps), turns=1)
    whole = run(sharded.Training(False, steps=steps, systems=sharded.WITH_ROUNDED), turns=1)
    return [*hybrid_checks(hybrid), narrow_check(narrow), *whole_checks(whole)]


def _sharded_loss(v: Verification) -> list[Check]:
    steps = QUICK_LOSS_STEPS if v.quick else LOSS_STEPS
    return sharded_loss_checks(measured_by("loopback", "sharded", steps, *v.options.seeds))


BACKEND: Final[Experiments] = {
    "calls": shown_by(
        "collectives, groups and asynchronous calls against gloo, 4 ranks",
        "equal within the precision",
        f"{_FOLDER}/test_against_gloo.py",
    ),
    "parallel": shown_by(
        "DDP, FSDP2, HSDP, ZeRO, tensor-parallel layers, pipelines against gloo, 4 ranks",
        "equal within the precision",
        f"{_FOLDER}/test_parallel.py",
    ),
    "sizes": shown_by(
        "DDP, FSDP2, tensor-parallel layers, new_group and asynchronous calls against gloo, 2 to 8 ranks",
        "equal within the precision, exact ones bit for bit",
        f"{_FOLDER}/test_sizes.py",
    ),
    "forms": shown_by(
        'the backend by "cpu:sumwire" and "cpu:sumwire,cuda:nccl", with a service\'s job and init\'s',
        "sums go through the network",
        f"{_FOLDER}/test_forms.py",
    ),
    "torch": shown_by("PyTorch's own tests that the page lists", "all pass", f"{_FOLDER}/test_torch_tests.py"),
    "hooks": shown_by(
        "FSDP2, HSDP and FSDP1 by hooks, ZeRO beside the hook of DDP, 4 ranks",
        "means within the precision, error feedback, checkpoints bit for bit",
        f"{_FOLDER}/../sharded/test_sharded.py",
    ),
    "sharded": _sharded,
    "sharded-loss": _sharded_loss,
}


# -- outer steps -------------------------------------------------------------------------------------------


GLOO_LEAST: Final = 6.0
RING_LEAST: Final = 2.0
DEFAULT_CONTROL: Final = "cubic"
_OUTER_WHERE: Final = "outer step, 4 workers, 50 ms round trip, 1 % loss, 20 Mbit/s"


def outer_time_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check the seconds of outer steps. `record`: the result of `experiments.outer_time`. The targets are for Linux's
    default congestion control; with another one the same ratios are only reported."""
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


def outer_loss_checks(found: Mapping[str, Sequence[float]]) -> list[Check]:
    """Check the losses of outer steps. `found`: what `loopback.outer_losses` returns. 1 bit must not reach the target
    of 4 bits."""
    label = f"character transformer, outer steps, {len(found['exact'])} seeds: final loss at 4 bits, over uncompressed"
    four, one = (_more(label, name, "exact", found) for name in ("4bit", "1bit"))
    return [four, must_fail("1 bit", one)]


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


OUTER_STEPS, QUICK_OUTER_STEPS = 400, 40
_OUTER_TESTS = ["tests/unit/host/training/test_outer.py", "tests/integration/host/training/test_outer.py"]


def _outer_loss(v: Verification) -> list[Check]:
    steps = QUICK_OUTER_STEPS if v.quick else OUTER_STEPS
    return outer_loss_checks(measured_by("loopback", "outer", steps, *v.options.seeds))


OUTER: Final[Experiments] = {
    "equal": shown_by(
        "outer steps: replicas bit-equal after each, 4 and 1 bits, parts, overlap, states, workers that come and go",
        "all pass",
        *_OUTER_TESTS,
    ),
    "time": lambda v: outer_time_checks(outer_steps.run_outer_steps(v.results, v.say, quick=v.quick)),
    "loss": _outer_loss,
}


# -- packages ----------------------------------------------------------------------------------------------


def _packaged(label: str, *names: str, program: str | None = None) -> Experiment:
    return _tested(label, *(f"tests/system/test_packages.py::{name}" for name in names), program=program)


PACKAGES: Final[Experiments] = {
    "extras": _packaged(
        "each extra alone in an empty environment, and beside current PyTorch",
        "test_an_extra_alone_and_beside_pytorch",
        "test_the_host_library_brings_nothing_of_the_controller",
    ),
    "kernels": _packaged(
        "the wheel's compiled kernels without a compiler, and with a byte changed", "test_kernels_come_compiled"
    ),
    "arm": _packaged(
        "the wheel's kernels for 64-bit Arm, by a cross compiler; not run",
        "test_kernels_for_arm",
        program="aarch64-linux-gnu-gcc",
    ),
    "unit": _packaged(
        "the aggregator's unit, by systemd-analyze: verify, exposure at most 2.0",
        "test_the_unit_of_systemd",
        program="systemd-analyze",
    ),
    "images": _packaged(
        "the images' steps in a bare Debian: aggregator, switch, controller",
        "test_the_images_steps_in_a_bare_debian",
        program="debootstrap",
    ),
}
WAYS_IN: Final[Mapping[str, Experiments]] = {
    "start": START,
    "scenarios": SCENARIOS,
    "backend": BACKEND,
    "outer": OUTER,
    "packages": PACKAGES,
    "pays": predictions.EXPERIMENTS,
}
"""The experiments of each entry point's rows."""
