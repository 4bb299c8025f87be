# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Disturbs a training and lets it go on. Either its network is lost for a while (the switch is killed, or one worker's
link is down), or one rank is stopped (SIGSTOP), as by a debugger or a full disk."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import DeadlineError
from sumwire_lab.faults.cases import FaultCase
from sumwire_lab.faults.programs import wait_ended
from sumwire_lab.faults.testbed import FaultTestbed, RunningTraining, account, link_down, open_testbed

SWITCH_ROW: Final = "switch"
LINK_ROW: Final = "link"
SOON, LATE = "soon", "late"
"""Variants of a killed switch: back and applied after 10 s; back after 10 s, and applied a minute after its end."""
AT_HOST, AT_SWITCH = "host", "port"
"""Variants of a dead link: which end is set down."""
LATE_SHARE: Final = 4
"""One in so many of the seeds is `late`."""
BACK_S: Final = 10.0
LATE_S: Final = 60.0
LINK_S: Final = 20.0
_LIMIT_S: Final = 240.0
_START_S: Final = 60.0
_RETURN_S: Final = 30.0
_MORE: Final = 10


def switch_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return the cases of a killed switch."""
    variants = [LATE if seed % LATE_SHARE == 0 else SOON for seed in range(1, seeds + 1)]
    return [FaultCase(SWITCH_ROW, switch, seed, _LIMIT_S, variant) for seed, variant in enumerate(variants, start=1)]


def link_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return the cases of a dead link."""
    return [
        FaultCase(LINK_ROW, switch, seed, _LIMIT_S, AT_HOST if seed % 2 else AT_SWITCH) for seed in range(1, seeds + 1)
    ]


def carry_out_outage(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Return the account of the training, and the wall-clock times at which the network was lost and was back."""
    draw = random.Random(case.name)
    with open_testbed(case, folder) as testbed:
        training = testbed.train_on("thc")
        training.wait_steps(draw.randint(10, 30), _START_S)
        time.sleep(draw.uniform(0, training.spec.pace_s))
        lost_at = time.time()
        if case.row == SWITCH_ROW:
            lose_switch(testbed, BACK_S, LATE_S if case.variant == LATE else BACK_S)
        else:
            lose_link(testbed, draw.randrange(testbed.workers), LINK_S, at_host=case.variant == AT_HOST)
        back_at = time.time()
        wait_returned(training)
        training.end_soon()
        wait_ended(training.programs, _START_S)
        return {"lost_at": lost_at, "back_at": back_at, **account(training)}


def lose_switch(testbed: FaultTestbed, back_s: float, applied_s: float) -> None:
    """Kill the switch, and return when it serves again. It is started after `back_s` seconds, and applied `applied_s`
    seconds after its end.

    A software aggregator serves as soon as it is started, so only the later of the two counts.
    """
    began = time.monotonic()
    testbed.switch.kill()
    _until(began + (back_s if testbed.switch.programmed else applied_s))
    testbed.switch.start()
    _until(began + applied_s)
    testbed.switch.apply()


def lose_link(testbed: FaultTestbed, rank: int, seconds: float, *, at_host: bool) -> None:
    """Set a rank's link down, and return when it is up again. `at_host`: which end is set down."""
    with link_down(testbed.session.network, testbed.session.fabric.hosts[rank], at_host=at_host):
        time.sleep(seconds)


def _until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def wait_returned(training: RunningTraining) -> None:
    """Return some steps after every rank has returned to the network, or after a timeout."""
    before = training.steps()

    def returned() -> bool:
        changes: list[list[dict[str, Any]]] = account(training)["changes"]
        return all(len(rank) > 1 and not rank[-1]["fallen_back"] for rank in changes)

    try:
        training.wait_until(returned, _RETURN_S, "return to the network")
        before = training.steps()
    except DeadlineError:
        pass  # The account says that it is missing.
    training.wait_steps(max(before) + _MORE, _START_S)


STOPPED_ROW: Final = "stopped"
SECONDS: Final = (5, 15, 60)
_STOPPED_LIMIT_S: Final = 120.0


def stopped_cases(switch: str, seeds: int) -> list[FaultCase]:
    """Return one case of each length; this row has no seeds."""
    return [FaultCase(STOPPED_ROW, switch, 1, _STOPPED_LIMIT_S + seconds, f"{seconds}s") for seconds in SECONDS]


def carry_out_stopped(case: FaultCase, folder: Path) -> dict[str, Any]:
    """Carry out a case, and return the account of the training."""
    draw = random.Random(case.name)
    with open_testbed(case, folder) as testbed:
        training = testbed.train_on("thc")
        training.wait_steps(draw.randint(10, 30), _START_S)
        time.sleep(draw.uniform(0, training.spec.pace_s))
        stop(training, draw.randrange(testbed.workers), float(case.variant.removesuffix("s")))
        training.end_soon()
        wait_ended(training.programs, _START_S)
        return account(training)


def stop(training: RunningTraining, rank: int, seconds: float) -> None:
    """Stop one rank for `seconds`, and return when all ranks have done some more steps."""
    stopped = training.programs[rank]
    stopped.stop()
    time.sleep(seconds)
    stopped.go_on()
    training.wait_steps(max(training.steps()) + _MORE, _START_S)
