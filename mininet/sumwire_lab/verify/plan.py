# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A plan: the experiments of one verify command, carried out one after the other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sumwire_lab.errors import LabError
from sumwire_lab.study.check import Check, failed, table
from sumwire_lab.study.experiment import Say

Experiment = Callable[[], list[Check]]
"""Measures something and returns its checks."""


@dataclass(frozen=True)
class Plan:
    """What `make verify-TOPIC` does: experiments by label, in the order in which they run."""

    topic: str
    experiments: Mapping[str, Experiment]

    def carry_out(self, results: Path, say: Say) -> list[Check]:
        """Run every experiment and return all checks.

        verify-TOPIC.json in `results` is written anew after each experiment. An experiment that fails becomes a check
        that does not hold, and the next one runs. Raises KeyboardInterrupt.
        """
        results.mkdir(parents=True, exist_ok=True)
        done: list[Check] = []
        for label, experiment in self.experiments.items():
            say(f"== {label}")
            fresh = _checks_of(label, experiment)
            done += fresh
            say(table(fresh))
            text = json.dumps([check.as_dict() for check in done], indent=1)
            (results / f"verify-{self.topic}.json").write_text(text + "\n")
        return done


def _checks_of(label: str, experiment: Experiment) -> list[Check]:
    try:
        return experiment()
    except (LabError, OSError, subprocess.SubprocessError) as error:
        return [failed(label, "the experiment comes to its end", error)]
