# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Markers for what a machine may lack, and the options that turn their skips into failures."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import signal
from pathlib import Path

import pytest
from commonlib.p4runtime import load_messages
from helpers.needs import NEEDS, missing
from hypothesis import HealthCheck, settings

# How long an example takes says nothing on a machine that is busy.
settings.register_profile("sumwire", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("sumwire")

# Helpers import P4Runtime's messages, too.
load_messages()

# A variable of all that tests start: the number of their run.
MARK = "SUMWIRE_TEST_RUN"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--differential-programs", type=int, default=16, metavar="N", help="generated programs to compile and compare"
    )
    parser.addoption(
        "--differential-first", type=int, default=0, metavar="N", help="number (seed) of the first generated program"
    )
    parser.addoption(
        "--long", action="store_true", help="also what takes long and is a further case of what other tests show"
    )
    parser.addoption(
        "--p4-coverage", type=Path, metavar="FOLDER", help="what of the P4 program packet tests reach: make coverage-p4"
    )
    for name in NEEDS:
        parser.addoption(f"--require-{name}", action="store_true", help=f"fail, not skip, where {name} is missing")


def pytest_configure() -> None:
    """Ctrl-C ends what tests and their processes wait for, also where a shell has begun this in the background. What
    tests start has a mark of the run, by a name that our programs give on to theirs."""
    if (run := os.environ.get("PYTEST_XDIST_TESTRUNUID")) is not None:
        os.environ[MARK] = run
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End what tests have started: after Ctrl-C pytest-xdist kills its processes, and no fixture of theirs ends."""
    distributed = getattr(session.config.pluginmanager.getplugin("dsession"), "nodemanager", None)
    if distributed is None or exitstatus != pytest.ExitCode.INTERRUPTED:
        return
    marks = {f"{name}={distributed.testrunuid}".encode() for name in (MARK, "PYTEST_XDIST_TESTRUNUID")}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if not marks.isdisjoint((process / "environ").read_bytes().split(b"\0")):
                os.kill(int(process.name), signal.SIGKILL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whole runs of the lab first: with several processes, none of them then is what all others wait for at the end."""
    if not config.getoption("--long"):
        left_out = {item for item in items if item.get_closest_marker("long")} | _further_cases(items)
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/system/test_lab_", "tests/system/test_life")))


def _further_cases(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of each test that is marked ``few(n)``, all cases but n: those that show most values of its parameters which no
    case before them shows, and else any, but always the same.
    """
    families: dict[tuple[Path, str], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("few"):
            families.setdefault((item.path, item.originalname), []).append(item)
    further: set[pytest.Item] = set()
    for family in families.values():
        left = sorted(family, key=lambda item: hashlib.sha256(item.name.encode()).digest())
        shown: set[tuple[str, int]] = set()
        for _ in range(_few(family[0])):
            if left:
                best = max(left, key=lambda item: len(_shown_by(item) - shown))
                shown |= _shown_by(best)
                left.remove(best)
        further.update(left)
    return further


def _few(item: pytest.Function) -> int:
    marker = item.get_closest_marker("few")
    assert marker is not None
    return int(marker.args[0])


def _shown_by(item: pytest.Function) -> set[tuple[str, int]]:
    """The parameters of a case, and which of their values it has."""
    return set(item.callspec.indices.items())


def pytest_collection_finish() -> None:
    """The garbage collector looks at what tests make, and no more at all that is loaded by now."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in NEEDS:
        if item.get_closest_marker(name) is None or not (what := missing(name)):
            continue
        if item.config.getoption(f"--require-{name}"):
            pytest.fail(f"--require-{name}: {what}", pytrace=False)
        pytest.skip(what)
