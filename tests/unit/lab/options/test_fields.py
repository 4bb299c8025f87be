# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options as fields: flags, values, rules; and no option of `run` is taken that no system of the run has."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import plan
from sumwire_lab.options import plain
from sumwire_lab.options.arguments import parser
from sumwire_lab.options.conditions import OfHost
from sumwire_lab.options.fields import (
    Checked,
    add_flags,
    at_least,
    flags_of,
    from_arguments,
    given_flags,
    names_of,
    one_of,
    option,
)
from sumwire_lab.options.priority_lanes import DegradeOptions, LanedOptions
from sumwire_lab.options.recipes import SYSTEMS, parse, settings_class
from sumwire_lab.options.run_options import RunOptions, run_options, takers_by_flag
from sumwire_lab.training.trainer import system_options


@dataclass(frozen=True)
class Inner(Checked):
    mbit: float = option(10.0, "rate", flag="bw", rule=at_least(1))


@dataclass(frozen=True)
class Outer(Checked):
    links: Inner = Inner()
    sizes: tuple[int, ...] = option((1, 2), "values")
    names: tuple[str, ...] = option(
        ("a",), "names", rule=names_of(["a", "b"]), read=lambda text: tuple(text.split(","))
    )
    loud: bool = option(True, "quietly")
    fast: bool = option(False, "fast")
    mode: str = option("one", "mode", rule=one_of(["one", "two"]))
    most: int | None = option(None, "most of 100 %", shown="default: all")
    file: Path | None = option(None, "file")


def parsed(*words: str) -> Outer:
    made = argparse.ArgumentParser()
    add_flags(made, Outer)
    return from_arguments(Outer, made.parse_args(words))


def test_flags_fill_the_fields() -> None:
    assert parsed() == Outer()
    given = parsed(
        "--bw=2.5", "--sizes=3,4", "--names=b,a", "--no-loud", "--fast", "--mode=two", "--most=7", "--file=x"
    )
    assert given == Outer(Inner(2.5), (3, 4), ("b", "a"), False, True, "two", 7, Path("x"))


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("--bw=0.5", "bw=0.5: must be at least 1"),
        ("--mode=three", "mode=three: known are one, two"),
        ("--sizes=1,x", "sizes=1,x: must be whole numbers with commas, as 4,16"),
        ("--names=a,a", "names=a,a: known are a, b, each at most once"),
    ],
)
def test_a_value_that_breaks_its_rule_is_refused(word: str, why: str) -> None:
    with pytest.raises(OptionError) as refusal:
        parsed(word)
    assert str(refusal.value) == why


def test_which_flags_were_given() -> None:
    made = argparse.ArgumentParser()
    add_flags(made, Outer)
    given = given_flags(made.parse_args(["--no-loud", "--bw=10", "--most=1"]), Outer)
    assert [flag.name for flag in given] == ["no-loud", "most"]


def test_help_says_the_defaults() -> None:
    made = argparse.ArgumentParser()
    add_flags(made, Outer)
    assert "most of 100 %; default: all" in made.format_help()


@pytest.mark.parametrize(
    "value",
    [
        RunOptions(),
        replace(
            RunOptions(), systems=("gloo", "dlcp"), laned=LanedOptions(quorum=3, degrade=DegradeOptions("trim", 0.2, 7))
        ),
        Outer(Inner(2.5), (3, 4), ("b",), False, True, "two", 7, Path("x")),
    ],
)
def test_options_are_json_and_back(value: Any) -> None:
    assert plain.from_json(type(value), plain.to_json(value)) == value


@pytest.mark.parametrize(
    ("kind", "raw"),
    [(int, "3"), (int, True), (float, "x"), (tuple[int, ...], 3), (tuple[int, str], [1]), (Inner, {"rate": 3}),
     (Inner, [1]), (Mapping[str, float], {"a": "b"}), (int | None, "x"), (str, None)],
)  # fmt: skip
def test_json_of_another_type_is_refused(kind: Any, raw: Any) -> None:
    with pytest.raises(TypeError, match="must be"):
        plain.from_json(kind, raw)


# -- options without effect ----------------------------------------------------------------------------

# A value for each flag of `run` that some systems do not take.
VALUES = {
    "switch": "aggregator", "engine": "native", "server": None, "impair": "drop=0.1", "malformed": "5", "blind": None,
    "metrics": "file", "trace": None, "buffer-mb": "0", "late": None, "inner": "adam", "no-feedback": None,
    "scale": "0.5", "momentum": "0.5", "share": "0.2", "rank": "3", "min-compression": "3", "start-iter": "5",
    "no-reuse": None, "bits": "2", "granularity": "15", "clip": "0.5", "full-precision-every": "7", "lead": "2",
    "lanes": "2", "quorum": "3", "loss-bound": "0.1", "divisor": "workers", "no-queues": None, "no-drops": None,
    "trim": None, "no-priorities": None, "degrade": "trim:0.5",
}  # fmt: skip
EVERY = [one.name for name in SYSTEMS for one in (parse(f"{name}@{way}") for way in parse(name).recipe.ops)]


PARSER = parser()


def ran(*words: str) -> RunOptions:
    return run_options(PARSER.parse_args(["run", *words]))


def effects(options: RunOptions) -> Any:
    """What one system does with the options, as far as they are not the same for all systems."""
    chosen = parse(options.systems[0])
    told: dict[str, Any] = {"system": system_options(chosen, options.train, options.workers, float)}
    told["system"].pop("global_lr", None)
    if chosen.hooked:
        told["buckets"] = (options.train.buffer_mb, options.train.late)
    if chosen.recipe.merges_updates:
        told["inner"] = options.train.inner
    told["laned"] = options.laned.applied(chosen.laned_options)
    if chosen.switched:
        fabric = plan(options.workers, options.link, "")
        jobs = control_plane.training_job(fabric, chosen.recipe, blind=options.blind, train=options.train)
        told["job"] = jobs[0].get("thc") if chosen.recipe.tabled else None
        told["switch"] = [options.switch, options.engine, options.server, options.impair, options.malformed]
        told["switch"] += [options.blind, options.metrics, options.trace]
    return told


def test_every_flag_that_some_systems_do_not_take_is_tried() -> None:
    assert set(VALUES) == {*takers_by_flag(), *(flag.name for flag in flags_of(LanedOptions))}


@pytest.mark.parametrize("flag", VALUES)
def test_no_option_without_effect_is_taken(flag: str) -> None:
    word = f"--{flag}" if VALUES[flag] is None else f"--{flag}={VALUES[flag]}"
    taken = []
    for system in EVERY:
        usual = ran(f"--systems={system}")
        try:
            options = ran(f"--systems={system}", word)
        except OptionError as refusal:
            assert flag in str(refusal)
            continue
        assert effects(options) != effects(usual), f"{system} takes {word} without effect"
        taken.append(system)
    assert taken, "some system takes it"


@pytest.mark.parametrize(("flag", "system"), [("rank", "powersgd"), ("clip", "thc"), ("lanes", "dlcp")])
def test_a_refusal_names_the_systems_that_take_the_option(flag: str, system: str) -> None:
    with pytest.raises(OptionError) as refusal:
        ran("--systems=gloo,fp16", f"--{flag}={VALUES[flag]}")
    assert str(refusal.value).startswith(f"systems=gloo,fp16: {flag} is only for ")
    assert system in str(refusal.value)


def test_systems_settings_are_the_library_s() -> None:
    assert {"bits", "granularity", "p", "rank", "k", "error_feedback"} <= {
        flag.field.name for flag in flags_of(settings_class())
    }
    given = ran("--systems=thc", "--bits=2", "--no-feedback").train.system
    assert given == {"bits": 2, "error_feedback": False}


def test_a_host_s_number_is_read() -> None:
    given = ran("--slow=h3:2", "--gray=1:0.5").conditions
    assert (given.slow, given.gray) == (OfHost(3, 2.0), OfHost(1, 0.5))
