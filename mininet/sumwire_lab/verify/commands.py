# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The verify commands by topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sumwire_lab.options.faithful_options import FaithfulOptions
from sumwire_lab.options.life_options import LifeOptions
from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.options.see_options import SeeOptions
from sumwire_lab.options.trust_options import TrustOptions
from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify import (
    acp,
    conformance,
    dlcp,
    entry_points,
    fault_injection,
    observability,
    papers,
    security,
    sign,
    speed,
    thc,
)
from sumwire_lab.verify.plan import Plan

PLANS: Final[Mapping[str, Callable[[Path, Say], Plan]]] = {
    "thc": thc.plan,
    "sign": sign.plan,
    "speed": speed.plan,
    "acp": acp.plan,
    "dlcp": dlcp.plan,
}


def verify(topic: str, results: Path, say: Say) -> list[Check]:
    """Carry out the plan of one topic. Raises KeyboardInterrupt."""
    return PLANS[topic](results, say).carry_out(results, say)


def verify_life(options: LifeOptions, results: Path, say: Say) -> list[Check]:
    """Carry out some rows of verify-life. Raises KeyboardInterrupt."""
    return fault_injection.plan(results, say, options).carry_out(results, say)


def verify_trust(options: TrustOptions, results: Path, say: Say) -> list[Check]:
    """Carry out some rows of verify-trust. Raises KeyboardInterrupt."""
    return security.plan(results, say, options).carry_out(results, say)


def verify_papers(options: PapersOptions, results: Path, say: Say) -> list[Check]:
    """Carry out some rows of verify-papers. Raises KeyboardInterrupt, and OptionError for a row that is not there."""
    return papers.plan(results, say, options).carry_out(results, say)


def verify_see(options: SeeOptions, results: Path, say: Say) -> list[Check]:
    """Carry out some rows of verify-see. Raises KeyboardInterrupt."""
    return observability.plan(results, say, options).carry_out(results, say)


def verify_ways(options: WaysOptions, results: Path, say: Say) -> list[Check]:
    """Carry out some rows of verify-ways. Raises KeyboardInterrupt, and OptionError for a row that is not there."""
    return entry_points.plan(results, say, options).carry_out(results, say)


def verify_faithful(options: FaithfulOptions, results: Path, say: Say) -> list[Check]:
    """Carry out some rows of verify-faithful. Raises KeyboardInterrupt, and OptionError for a row that is not there."""
    return conformance.plan(results, say, options).carry_out(results, say)
