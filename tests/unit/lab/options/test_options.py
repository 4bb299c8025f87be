# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong options are refused with the option, the value and the rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sumwire.systems import TABLE
from sumwire_lab import cli
from sumwire_lab.errors import OptionError
from sumwire_lab.load.generator import LoadSpec
from sumwire_lab.options.arguments import parser
from sumwire_lab.options.bench_options import (
    ALLREDUCE_SYSTEMS,
    parse_links,
    parse_names,
    parse_ops,
    parse_rates,
    parse_sizes,
)
from sumwire_lab.options.layout import rows_of
from sumwire_lab.options.recipes import ALL_SYSTEMS, RECIPES, SYSTEMS, TASKS, named, parse, takers_of
from sumwire_lab.options.run_options import (
    UNLIMITED,
    LinkOptions,
    RunOptions,
    ScriptOptions,
    TrainOptions,
    run_options,
    script_options,
)
from sumwire_lab.study.experiment import new_folder


def blast(batch: int = 4, window: int = 8) -> LoadSpec:
    return LoadSpec(["a"], [], 1, 4, slots=16, window=window, batch=batch, seconds=1, listen=True)


def asked(*words: str) -> ScriptOptions:
    return script_options(parser().parse_args(["run", *words]))


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: LinkOptions(mbit=0), "bw=0"),
    (lambda: new_folder(Path("/proc/none/results")), "results=/proc/none/results: No such file or directory; name"),
    (lambda: asked("--cli", "--trace"), "--trace: of the lab's own training, which --script, --cli and --keep replace"),
    (lambda: asked("--keep", "--systems=thc", "--no-queues"), "--systems, --no-queues: of the lab's own training"),
    (lambda: asked(f"--script={__file__}", "--slow=1:2"), "--slow: of the lab's own training"),
    (lambda: asked("--script=none.py", "--bw=10"), "script=none.py: there is no such file"),
    (lambda: LinkOptions(mbit=20_000), "bw=20000"),
    (lambda: LinkOptions(queue_packets=1), "queue=1"),
    (lambda: TrainOptions(epochs=0), "epochs=0"),
    (lambda: TrainOptions(batch=-1), "batch=-1"),
    (lambda: TrainOptions(max_steps=0), "steps=0"),
    (lambda: TrainOptions(seed=-3), "seed=-3"),
    (lambda: TrainOptions.of("digits", rank=0), "rank=0"),
    (lambda: TrainOptions.of("digits", k=0.0), "share=0.0"),
    (lambda: TrainOptions.of("digits", k=1.5), "share=1.5"),
    (lambda: TrainOptions(task="imagenet"), "task=imagenet"),
    (lambda: TrainOptions.of("mnist"), "task=mnist"),
    (lambda: parse("powersgd@switch"), "systems=powersgd@switch"),
    (lambda: parse("thc@nccl"), "systems=thc@nccl"),
    (lambda: parse("acp@"), "systems=acp@"),
    (lambda: RunOptions(systems=("gloo", "ssgd")), "systems=gloo,ssgd"),
    (lambda: RunOptions(systems=("thc", "thc@switch")), "systems=thc,thc@switch"),
    (lambda: RunOptions(switch="aggregator", topology="leaf-spine"), "topology=leaf-spine"),
    (lambda: RunOptions(switch="aggregator", engine="native"), "engine=native"),
    (lambda: RunOptions(switch="aggregator", impair="drop=0.1"), "impair=drop=0.1"),
    (lambda: RunOptions(switch="aggregator", malformed=9), "malformed=9"),
    (lambda: RunOptions(workers=0), "workers=0"),
    (lambda: RunOptions(workers=33), "workers=33"),
    (lambda: RunOptions(systems=()), "systems"),
    (lambda: RunOptions(systems=("gloo", "nccl")), "systems=nccl"),
    (lambda: RunOptions(systems=("thc", "thc")), "systems=thc,thc"),
    (lambda: RunOptions(systems=("gloo", "marsit"), workers=17), "workers=17"),
    (lambda: RunOptions(systems=("vote",), workers=16), "workers=16"),
    (lambda: RunOptions(switch="tofino"), "switch=tofino"),
    (lambda: RunOptions(switch="bmv2", impair="drop=0.1"), "impair=drop=0.1"),
    (lambda: RunOptions(engine="rust"), "engine=rust"),
    (lambda: RunOptions(switch="bmv2", engine="native"), "engine=native"),
    (lambda: parse_names("systems", ALLREDUCE_SYSTEMS, "gloo,marsit"), "systems=marsit"),
    (lambda: parse_ops("thc,sgn"), "ops=sgn"),
    (lambda: blast(batch=3), "batch=3"),
    (lambda: blast(batch=0), "batch=0"),
    (lambda: blast(window=2), "window=2"),
    (lambda: blast(window=17), "window=17"),
    (lambda: RunOptions(impair="drop=2"), "impair=drop=2"),
    (lambda: RunOptions(impair="bogus=1"), "impair=bogus=1"),
    (lambda: RunOptions(topology="ring"), "topology=ring"),
    (lambda: RunOptions(topology="three-level", workers=3), "workers=3"),
    (lambda: RunOptions(topology="leaf-spine", malformed=5), "malformed=5"),
    (lambda: RunOptions(malformed=-1), "malformed=-1"),
    (lambda: RunOptions(blind=True, systems=("gloo", "marsit")), "blind: not with system marsit"),
    (lambda: RunOptions(blind=True, systems=("dlcp",)), "blind: not with system dlcp"),
    (lambda: RunOptions(blind=True, systems=("thc", "thc-bounded")), "blind: not with system thc-bounded"),
    (lambda: RunOptions(blind=True, workers=1), "blind: not with"),
    (lambda: RunOptions(deadline_s=0), "deadline=0"),
    (lambda: parse_sizes("100k,x"), "sizes='x'"),
    (lambda: parse_sizes("0"), "sizes='0'"),
    (lambda: parse_sizes(""), "sizes=''"),
    (lambda: parse_rates("10,fast"), "bw='10,fast'"),
    (lambda: parse_rates("0"), "bw=0"),
    (lambda: run_options(parser().parse_args(["run", "--bw", "inf"])), "bw=inf"),
]


@pytest.mark.parametrize(("make", "named"), WRONG, ids=[named for _, named in WRONG])
def test_a_wrong_option_is_refused_by_name_and_value(make: Callable[[], object], named: str) -> None:
    with pytest.raises(OptionError) as refusal:
        make()
    assert str(refusal.value).startswith(named)
    assert ": " in str(refusal.value), "the rule follows the value"


@pytest.mark.parametrize("workers", [1, 4, 32])
def test_one_to_32_workers_are_taken(workers: int) -> None:
    assert RunOptions(workers=workers).workers == workers


def test_sizes_and_rates_are_read() -> None:
    assert parse_sizes("7,100k,2M") == (7, 100_000, 2_000_000)
    assert parse_rates("10,2.5,unlimited") == (10.0, 2.5, UNLIMITED)
    assert parse_links("loopback,100,1000") == (None, 100.0, 1000.0)


def test_the_command_line_fills_every_option() -> None:
    text = """run --workers 3 --bw 25 --queue 99 --epochs 2 --steps 5 --batch 16 --hidden 32 --seed 8
        --systems thc --topology leaf-spine --switch soft --engine python --impair drop=0.1 --deadline 60"""
    words = text.split()
    assert run_options(parser().parse_args(words)) == RunOptions(
        workers=3,
        link=LinkOptions(25.0, 99),
        train=TrainOptions(epochs=2, batch=16, hidden=32, seed=8, max_steps=5),
        systems=("thc",),
        topology="leaf-spine",
        switch="soft",
        engine="python",
        impair="drop=0.1",
        deadline_s=60.0,
    )


def test_ops_of_the_packet_benchmark() -> None:
    assert parse_ops("all") == ("thc", "max32", "sum32", "sign", "vote", "jumbo")
    assert parse_ops("sign,thc") == ("sign", "thc")


def test_all_systems_are_named_once_and_after_the_baseline() -> None:
    assert named("gloo,all") == ("gloo", *ALL_SYSTEMS)
    assert len(set(ALL_SYSTEMS)) == len(ALL_SYSTEMS)
    assert named("gloo,marsit") == ("gloo", "marsit")
    assert named("gloo,fp16,gloo-fp16,ssgd") == ("gloo", "fp16"), "as make run SYSTEM=fp16 has it"
    assert RunOptions(systems=named("vote,gloo,all")).systems.count("vote") == 1


@pytest.mark.parametrize(
    ("text", "name", "system", "transport", "ops"),
    [
        ("thc", "thc", "thc", "switch", ("thc", "max32")),
        ("thc@switch", "thc", "thc", "switch", ("thc", "max32")),
        ("thc@group", "thc@group", "thc", "group", ()),
        ("acp", "acp", "acp", "switch", ("sum32", "max32")),
        ("powersgd@group", "powersgd", "powersgd", "group", ()),
        ("ssgd", "gloo", "ssgd", "group", ()),
        ("gloo-fp16", "fp16", "fp16", "group", ()),
        ("gloo-bf16", "bf16", "bf16", "group", ()),
        ("naive4", "naive4", "naive4", "switch", ("thc", "max32")),
        ("marsit100", "marsit100", "marsit", "switch", ("sign", "sum32", "max32")),
    ],
)
def test_a_name_says_system_and_transport(
    text: str, name: str, system: str, transport: str, ops: tuple[str, ...]
) -> None:
    chosen = parse(text)
    assert (chosen.name, chosen.recipe.system, chosen.transport, chosen.ops) == (name, system, transport, ops)
    assert chosen.switched is (transport == "switch")
    assert named(text) == (name,)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_recipe_has_rates_for_every_task_and_options_of_its_system(name: str) -> None:
    recipe = RECIPES[name]
    assert recipe.rates is None or set(recipe.rates) == set(TASKS)
    for route in TABLE[recipe.system].routes.values():
        assert set(recipe.options) <= set(route.options.names())
        assert ("bits" in route.options.names()) <= recipe.tabled


def test_what_recipes_take_from_the_library() -> None:
    def named(trait: str) -> set[str]:
        return {name for name, recipe in RECIPES.items() if getattr(recipe, trait)}

    assert takers_of("rank") == ["powersgd", "acp", "acp-thc"]
    assert takers_of("k") == ["topk"], "the name of topk10 says it"
    assert named("tabled") == {"acp-thc", "thc", "thc-unbiased", "thc-uniform", "thc-bounded", "naive4", "dlcp"}
    assert named("uniform") == {"thc-uniform", "naive4"}
    assert named("laned") == {"dlcp"}
    assert named("tagged") == {"dlcp", "dlcp-ring", "udp-ring"}
    measured = {
        "fp16",
        "bf16",
        "powersgd",
        "powersgd1",
        "powersgd4",
        "topk",
        "topk10",
        "terngrad",
        "thc",
        "thc-unbiased",
        "thc-uniform",
        "thc-wide",
        "naive4",
        "thc-bounded",
        "dlcp",
        "sum32",
        "ef-sign",
        "cascade-magnitude",
        "dlcp-ring",
        "udp-ring",
    }
    assert named("estimates_mean") == measured
    assert {name: recipe.warm_up_steps for name, recipe in RECIPES.items() if recipe.warm_up_steps != 2} == {
        "powersgd": 3,
        "powersgd1": 11,
        "powersgd4": 11,
    }
    assert RECIPES["thc"].ops == {"switch": ("thc", "max32"), "group": ()}


def test_every_system_of_the_library_has_a_recipe() -> None:
    assert {recipe.system for recipe in RECIPES.values()} == set(TABLE)


@pytest.mark.parametrize(
    ("workers", "rows"), [(1, 1), (2, 1), (4, 2), (6, 2), (7, 1), (8, 2), (12, 3), (16, 4), (32, 4)]
)
def test_a_torus_is_as_near_to_a_square_as_its_workers_allow(workers: int, rows: int) -> None:
    assert rows_of(workers) == rows


def test_marsit_takes_a_run_s_period_and_local_optimizer() -> None:
    given = run_options(
        parser().parse_args(["run", "--systems=marsit", "--full-precision-every", "20", "--inner", "adam"])
    ).train
    assert (given.system, given.inner) == ({"full_precision_every": 20}, "adam")
    assert (TrainOptions().system, TrainOptions().inner) == ({}, "plain")
    with pytest.raises(OptionError, match="full-precision-every=-1: must be at least 1, or 0 for never"):
        TrainOptions.of("digits", full_precision_every=-1)
    with pytest.raises(OptionError, match="inner=lion: known are plain, momentum, adam"):
        TrainOptions(inner="lion")


@pytest.mark.parametrize("task", TASKS)
def test_a_task_brings_its_own_defaults(task: str) -> None:
    own = TASKS[task]
    words = ["run", "--task", task]
    options = run_options(parser().parse_args(words)).train
    assert (options.task, options.batch, options.hidden, options.epochs) == (task, own.batch, own.hidden, own.epochs)
    assert (options.max_steps, options.learning_rate, options.rank) == (own.max_steps, own.learning_rate, own.rank)
    more = ["--systems=powersgd", "--batch", "3", "--steps", "9", "--rank", "2"]
    given = run_options(parser().parse_args([*words, *more])).train
    assert (given.batch, given.max_steps, given.rank, given.hidden) == (3, 9, 2, own.hidden)


def test_the_digits_are_trained_as_ever() -> None:
    options = TrainOptions.of("digits")
    assert options == TrainOptions()
    assert (options.epochs, options.batch, options.hidden, options.max_steps) == (10, 32, 1024, None)
    assert (options.learning_rate, options.weight_decay) == (0.1, 1e-4)


def test_the_command_line_takes_malformed_packets_and_masks() -> None:
    assert run_options(parser().parse_args(["run", "--malformed", "50"])) == RunOptions(malformed=50)
    assert run_options(parser().parse_args(["run", "--blind"])) == RunOptions(blind=True)


def test_the_command_line_ends_with_2_for_a_wrong_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--workers", "40"]) == 2
    assert "workers=40" in capsys.readouterr().err


def test_the_folder_mininet_is_no_package() -> None:
    """With an __init__.py there, `import mininet.net` would find this project's folder and fail."""
    root = Path(cli.__file__).resolve().parents[1]
    assert root.name == "mininet"
    assert not (root / "__init__.py").exists()


def test_defaults_are_the_run_of_the_documentation() -> None:
    options = RunOptions()
    assert (options.workers, options.link.mbit, options.systems) == (4, 100.0, ("gloo", "thc"))
    assert (options.switch, options.engine, options.train.task) == ("soft", "auto", "digits")
