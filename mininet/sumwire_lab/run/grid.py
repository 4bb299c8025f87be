# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Studies of trainings: a grid of options of `sumwire-lab run`, from a YAML file.

    name: loss-and-rate
    options: {task: digits, steps: 40}            # the same in every case
    grid: {systems: [thc, powersgd], loss: [0, 0.01], bw: [10, 100]}
    seeds: [1, 2, 3]
    columns: [comm_s_per_step, accuracy]
    figures: [{x: bw, y: comm_s_per_step, by: systems, panel: loss}]

With `engine: packets` or `engine: flows` the cases are simulated (docs/simulate.md). They may then have the options of
`sumwire-lab simulate` as well.

The file is not trusted. The controller's reader bounds its size, depth, nodes and aliases.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, get_type_hints

from commonlib.untrusted import shown
from sumwire_controller.errors import ConfigError
from sumwire_controller.parse.yaml_reader import YamlNode, load_tree, read_file

from sumwire_lab.errors import OptionError
from sumwire_lab.options import simulate_options
from sumwire_lab.options.arguments import parser
from sumwire_lab.options.fields import Flag, flags_of
from sumwire_lab.options.plain import from_json
from sumwire_lab.options.recipes import settings_class
from sumwire_lab.options.run_options import RunOptions, run_options
from sumwire_lab.options.simulate_options import ENGINES, SimulateOptions
from sumwire_lab.run.results import COLUMNS
from sumwire_lab.run.training_run import run
from sumwire_lab.simulate import measure
from sumwire_lab.study.figures import Figure
from sumwire_lab.study.study import Context, Study, grid

_USUAL: Final = ("accuracy", "comm_s_per_step", "step_s", "wire_bytes_per_step")
_KEYS: Final = ("name", "what", "engine", "options", "grid", "seeds", "columns", "figures")
_CASES_MOST: Final = 10_000
_ENGINE: Final = "engine"
T = TypeVar("T")


def load(path: Path, engine: str | None = None) -> Study:
    """Load the study in a file. ``engine``: that of a file which names none. Raises OptionError with the line of a
    mistake."""
    try:
        tree, problems = load_tree(read_file(path), str(path))
        if problems:
            raise ConfigError(str(path), problems)
    except ConfigError as error:
        raise OptionError(str(error)) from error
    return _Reader(str(path), engine).study(tree)


def train(case: Mapping[str, Any], context: Context) -> list[dict[str, Any]]:
    """Train or simulate as the case says, and return a row for each of its systems. What a simulation does not know is
    None."""
    if case.get(_ENGINE) in ENGINES:
        none = {column.name: None for column in COLUMNS}
        return [{**none, **row} for row in measure.rows(simulated(case), context.say)]
    summary, _folder = run(options_of(case), context.folder, context.say)
    return [
        {"system": name, **{column.name: entry.get(column.name) for column in COLUMNS}}
        for name, entry in summary["systems"].items()
    ]


def check(case: Mapping[str, Any]) -> RunOptions | SimulateOptions:
    """Return the options of the run or the simulation that the case is. Raises OptionError."""
    if case.get(_ENGINE) not in ENGINES:
        return options_of(case)
    found = simulated(case)
    measure.check(found)
    return found


def simulated(case: Mapping[str, Any]) -> SimulateOptions:
    """Return the options of the simulation for these flags and values, those of `run` and of `simulate`. Raises
    OptionError."""
    own = simulate_options.known()
    of_run = {name: value for name, value in case.items() if name not in own}
    for name, value in of_run.items():
        if not simulate_options.taken(name):
            raise OptionError(f"{name}={shown(value)}: not simulated; take it out, or the file's `engine`")
    base = SimulateOptions()
    if of_run:
        both = {name: value for name, value in case.items() if simulate_options.taken(name) and name != "systems"}
        base = simulate_options.of_run(options_of(both))
    return simulate_options.with_values(base, {name: value for name, value in case.items() if name in own})


def options_of(case: Mapping[str, Any]) -> RunOptions:
    """Return the options of `run` for these flags and values. Raises OptionError."""
    given, known = parser().parse_args(["run"]), known_flags()
    for name, value in case.items():
        if name not in known:
            raise OptionError(f"{name}={shown(value)}: no option of `run`; known are {', '.join(known)}")
        _set(given, known[name], value)
    return run_options(given)


def known_flags() -> dict[str, Flag]:
    """Return the flags of `run` that a case may set, by name."""
    return {flag.name: flag for group in (RunOptions, settings_class()) for flag in flags_of(group)}


def _set(given: Namespace, flag: Flag, value: Any) -> None:
    """Raises OptionError for a value that is not of the flag's type."""
    plain = flag.kind in (int, float, bool)
    kinds: dict[type, tuple[type, ...]] = {float: (int, float), bool: (bool,), int: (int,)}
    right = type(value) in kinds[flag.kind] if plain else isinstance(value, str | int | float)
    if not right:
        rule = f"must be {'a number' if flag.kind in (int, float) else 'true or false' if plain else 'a text'}"
        raise OptionError(f"{flag.name}={shown(value)}: {rule}")
    setattr(given, flag.attribute, value if plain else str(value))


@dataclass(frozen=True)
class _Reader:
    """Takes values out of a tree, and says where one is wrong."""

    source: str
    engine: str | None = None

    def study(self, tree: YamlNode) -> Study:
        top = self._mapping(tree, "file", _KEYS)
        for key in ("name", "grid"):
            if key not in top:
                self._refuse(tree, key, "must be there")
        engine = self._text(top["engine"], _ENGINE) if _ENGINE in top else self.engine
        same: dict[str, Any] = {} if engine is None else {_ENGINE: engine}
        if engine is not None and engine not in ENGINES:
            self._refuse(top[_ENGINE], f"engine: {shown(engine)}", f"known are {', '.join(ENGINES)}")
        same |= {} if "options" not in top else self._options(top["options"], same)
        axes = {name: self._values(one, name) for name, one in self._mapping(top["grid"], "grid").items()}
        if "seeds" in top:
            axes["seed"] = self._values(top["seeds"], "seeds")
        cases = grid(**axes)
        if len(cases) > _CASES_MOST:
            self._refuse(top["grid"], "grid", f"has {len(cases)} cases, at most {_CASES_MOST}")
        for case in cases:
            self._located(top["grid"], lambda case=case: check({**same, **case}))  # type: ignore[misc]
        columns = self._columns(top["columns"]) if "columns" in top else _USUAL
        shown_names = [*same, *axes, "system", *(column.name for column in COLUMNS)]
        return self._located(
            top["name"],
            lambda: Study(
                self._text(top["name"], "name"),
                self._text(top["what"], "what") if "what" in top else "",
                [{**same, **case} for case in cases],
                train,
                tuple(column for column in COLUMNS if column.name in columns),
                figures=self._figures(top["figures"], shown_names) if "figures" in top else (),
            ),
        )

    def _options(self, node: YamlNode, same: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: one.value for name, one in self._mapping(node, "options").items()}
        if _ENGINE in same:
            # Whether they fit one another is seen in the cases, which may have more of them.
            return found
        self._located(node, lambda: options_of(found))
        return found

    def _values(self, node: YamlNode, where: str) -> list[Any]:
        nodes = node.value if isinstance(node.value, list) else [node]
        if not nodes:
            self._refuse(node, where, "must be a value, or a list of them")
        for one in nodes:
            if isinstance(one.value, list | dict):
                self._refuse(one, where, "must be a number, a text, true or false")
        return [one.value for one in nodes]

    def _columns(self, node: YamlNode) -> list[str]:
        known = [column.name for column in COLUMNS]
        names = self._values(node, "columns")
        for name in names:
            if name not in known:
                self._refuse(node, f"columns: {shown(name)}", f"known are {', '.join(known)}")
        return names

    def _figures(self, node: YamlNode, known: list[str]) -> tuple[Figure, ...]:
        return tuple(self._figure(one, known) for one in (node.value if isinstance(node.value, list) else [node]))

    def _figure(self, node: YamlNode, known: list[str]) -> Figure:
        hints = get_type_hints(Figure)
        given = self._mapping(node, "figures", tuple(field.name for field in fields(Figure)))
        values = {}
        for name, one in given.items():
            try:
                values[name] = from_json(hints[name], one.value)
            except TypeError as error:
                self._refuse(one, f"figures: {name}", str(error))
        for name in ("x", "y"):
            if name not in values:
                self._refuse(node, f"figures: {name}", "must be there")
        figure = Figure(**values)
        for name in figure.columns:
            if name not in known:
                self._refuse(node, f"figures: {shown(name)}", f"known are {', '.join(known)}")
        return figure

    def _located(self, node: YamlNode, make: Callable[[], T]) -> T:
        try:
            return make()
        except OptionError as error:
            if str(error).startswith(f"{self.source}:"):
                raise
            raise OptionError(f"{self.source}:{node.line}: {error}") from error

    def _mapping(self, node: YamlNode, where: str, keys: tuple[str, ...] = ()) -> dict[str, YamlNode]:
        if not isinstance(node.value, dict):
            self._refuse(node, where, f"must be a mapping{' with ' + ', '.join(keys) if keys else ''}")
        for key, one in node.value.items():
            if keys and key not in keys:
                self._refuse(one, f"{where}: {shown(key)}", f"known are {', '.join(keys)}")
        return node.value

    def _text(self, node: YamlNode, where: str) -> str:
        if not isinstance(node.value, str):
            self._refuse(node, where, "must be a text")
        return node.value

    def _refuse(self, node: YamlNode, where: str, rule: str) -> NoReturn:
        raise OptionError(f"{self.source}:{node.line}: {where}: {rule}")
