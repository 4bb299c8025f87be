# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All searches of the models: each model whole must have no error, and each without one of its rules must have one.
The record of `sumwire-lab models`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sumwire_lab.errors import OptionError
from sumwire_lab.models.catalogue import MODELS, PromelaModel
from sumwire_lab.models.spin import Search, Searches, SearchResult, check_tools


@dataclass(frozen=True)
class SearchTask:
    """``rule``: the one that is taken out, '' for none. ``about``: what is searched, in words."""

    model: str
    rule: str
    about: str
    defines: tuple[str, ...]
    search: Search

    @property
    def label(self) -> str:
        """For tables and progress."""
        return f"{self.model}, without {self.rule}" if self.rule else f"{self.model}, {self.about}"


@dataclass(frozen=True)
class SearchOutcome:
    """``holds``: a whole model has no error, or one without a rule has one."""

    task: SearchTask
    found: SearchResult

    @property
    def holds(self) -> bool:
        """Whether it is as it must be."""
        return bool(self.found.violated) == bool(self.task.rule)

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file."""
        task = self.task
        return {
            "model": task.model, "rule": task.rule, "about": task.about, "defines": list(task.defines),
            "search": task.search.name.lower(), "holds": self.holds, **asdict(self.found),
        }  # fmt: skip


def tasks(names: Sequence[str] = ()) -> list[SearchTask]:
    """Return the searches of the named models, or of all models. Raises OptionError."""
    known = {model.name: model for model in MODELS}
    if unknown := set(names) - set(known):
        raise OptionError(f"--only {','.join(sorted(unknown))}: known are {', '.join(known)}")
    return [task for name in names or known for task in _tasks(known[name])]


def _tasks(model: PromelaModel) -> list[SearchTask]:
    whole = [
        SearchTask(
            model.name, "", setting.about + ("" if search is Search.STATES else ", no cycle"), setting.defines, search
        )
        for setting in model.settings
        for search in (Search.STATES, Search.CYCLES)
        if search is Search.STATES or setting.ends
    ]
    without = [
        SearchTask(model.name, rule.name, rule.about, (f"WITHOUT_{rule.name}", *rule.defines), Search.SHORTEST)
        for rule in model.rules
    ]
    return whole + without


def carry_out(chosen: Sequence[SearchTask], say: Callable[[str], None]) -> list[SearchOutcome]:
    """Search as many models at a time as there are cores. Raises LabError; on Ctrl-C nothing is left running."""
    check_tools()
    searches, done = Searches(), []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            futures = {pool.submit(searches.run, task.model, task.defines, task.search): task for task in chosen}
            for future in as_completed(futures):
                outcome = SearchOutcome(futures[future], future.result())
                done.append(outcome)
                word = "as it must be" if outcome.holds else "WRONG"
                say(f"{len(done)}/{len(chosen)} {outcome.task.label}: {outcome.found.states} states, {word}")
        finally:
            searches.stop()
            pool.shutdown(cancel_futures=True)
    return sorted(done, key=lambda outcome: chosen.index(outcome.task))


def table(done: Sequence[SearchOutcome]) -> str:
    """Two tables: the whole models, and the counterexamples without each rule."""
    whole = [outcome for outcome in done if not outcome.task.rule]
    without = [outcome for outcome in done if outcome.task.rule]
    lines = []
    if whole:
        lines.append("         states  depth     MiB  seconds  model")
        lines += [_line(outcome, outcome.task.label) for outcome in whole]
    if without:
        lines += ["", "         states  steps     MiB  seconds  without the rule"]
        for outcome in without:
            why = outcome.found.violated or "NO COUNTEREXAMPLE"
            lines.append(_line(outcome, f"{outcome.task.model} {outcome.task.rule}: {outcome.task.about}: {why[:60]}"))
    wrong = [outcome.task.label for outcome in done if not outcome.holds]
    lines += ["", f"{len(done) - len(wrong)} of {len(done)} searches as they must be"]
    lines += [f"WRONG: {label}" for label in wrong]
    return "\n".join(lines)


def _line(outcome: SearchOutcome, label: str) -> str:
    found = outcome.found
    length = len(found.steps) if outcome.task.rule else found.depth
    word = "ok" if outcome.holds else "WRONG"
    return f"{word:<5} {found.states:>9} {length:>6} {found.memory_mib:>7.0f} {found.seconds:>8.2f}  {label}"


def search(names: Sequence[str], record: Path | None, say: Callable[[str], None]) -> list[SearchOutcome]:
    """Search the named models, or all, and write the record (JSON). Raises LabError, OptionError, KeyboardInterrupt."""
    done = carry_out(tasks(names), say)
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        rows = [outcome.as_dict() for outcome in done]
        held = all(outcome.holds for outcome in done)
        record.write_text(json.dumps({"holds": held, "searches": rows}, indent=1) + "\n")
    return done
