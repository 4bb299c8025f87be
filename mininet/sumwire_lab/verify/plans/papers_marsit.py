# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers` on Marsit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.verify.plan import Experiment


def experiments(results: Path, say: Say, options: PapersOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {}
