# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Log events of hosts, aggregator, controller and lab.

``python -m sumwire_protocol.events`` prints the table of docs/watch.md.

Events of all programs are in :mod:`commonlib.events`, those of the soft switch in :mod:`softswitch.events`.
"""

from __future__ import annotations

import sys

from commonlib.events import AGGREGATOR, CONTROLLER, HOST, LAB, UP, LogEvent, ProgramEvent, as_markdown


class Event(LogEvent):
    """An event: its name in log lines, who logs it, its fields, and its meaning."""

    # fmt: off
    # -- a job, on hosts --
    JOB_OPENED = (
        "job_opened", (HOST,), "name workers aggregator grouped keyed blind",
        "a worker has made its job; `keyed`: with authentication tags",
    )
    KEYS_AGREED = ("keys_agreed", (HOST,), "name", "the workers of a blind job have their secrets")
    RANKS_AWAITED = ("ranks_awaited", (HOST,), "name waited_s ranks", "ranks have not come to make the job")
    RUN_JOINED = (
        "run_joined", (HOST,), "name round generation again",
        "the worker has greeted the others, and the run is open; `again`: not its first",
    )
    GREETING_REPEATED = ("greeting_repeated", (HOST,), "name round", "a greeting was given up and is begun again")
    WORKERS_AWAITED = ("workers_awaited", (HOST,), "name operation waited_s missing", "an operation waits for workers")
    FALLEN_BACK = ("fallen_back", (HOST,), "name operation reason", "the process group takes the switch's place")
    RETURNED = ("returned", (HOST,), "name operation", "operations go through the switch again")
    SWITCH_UNFIT = ("switch_unfit", (HOST,), "name reason", "the switch answers, but does not fit the job file")
    WORKER_LOST = ("worker_lost", (HOST,), "name reason", "another worker's process has ended or cannot be reached")
    JOB_FAILED = ("job_failed", (HOST,), "name error reason", "the job is of no use any more; `error`: its class")
    JOB_CLOSED = ("job_closed", (HOST,), "name operations reason", "the worker has closed its job; why, if early")
    TUNING_IGNORED = ("tuning_ignored", (HOST,), "name reason", "a tuning table does not fit the job")
    STEP_TOO_SMALL = ("step_too_small", (HOST,), "round global_lr", "Marsit's signs do not keep up with the updates")
    STEP_REVERTED = ("step_reverted", (HOST,), "step", "an outer step had NaN or infinity, and all went back")
    PATH_CHOSEN = ("path_chosen", (HOST,), "name ranks", "whether the backend sumwire goes by the job")
    JOB_FOUND = ("job_found", (HOST,), "name found workers aggregator", "`sumwire.init()` has found the job")
    SYSTEM_CHOSEN = ("system_chosen", (HOST,), "system reason", "`sumwire.init(system=\"auto\")` has chosen a system")
    SERVICE_AWAITED = ("service_awaited", (HOST,), "wait_s reason", "`sumwire.init()` waits for `sumwire up`")
    QUORUM_MADE = ("quorum_made", (HOST,), "name quorum members", "ranks have come or gone: a new job")
    STEP_DISCARDED = ("step_discarded", (HOST,), "step reason", "an elastic training makes a step again")
    NOTHING_TO_DO = ("nothing_to_do", (HOST,), "reason", "a framework's callback leaves the model as it is")

    # -- the service --
    SERVICE_SAID = (
        "service_said", (UP,), "",
        "a line of `sumwire up`: the job, who asked for it, the aggregator's end",
    )

    # -- aggregators --
    REFUSED = (
        "refused", (AGGREGATOR,), "name sender reason op slot round",
        "a packet was refused; one line a sender, reason and 10 s",
    )
    ABOVE_SILENT = ("above_silent", (AGGREGATOR,), "name reason", "the aggregator above does not answer")
    ABOVE_HEARD = (
        "above_heard", (AGGREGATOR,), "name generation",
        "the aggregator above has told a new generation: all slots are empty",
    )
    ABOVE_UNFIT = ("above_unfit", (AGGREGATOR,), "name reason", "the aggregator above does not fit the job file")
    PROCESSES_UNSTEERED = ("processes_unsteered", (AGGREGATOR,), "reason", "the kernel does not pick processes by slot")

    # -- the controller --
    ELECTED = ("elected", (CONTROLLER,), "election_id", "the controller asks to be the primary")
    TAKEN_OVER = ("taken_over", (CONTROLLER,), "election_id before", "it takes over from another primary")
    SWITCH_APPLIED = (
        "switch_applied", (CONTROLLER,), "program_loaded rows",
        "a switch is as its configuration says; rows written",
    )
    JOB_ADMITTED = (
        "job_admitted", (CONTROLLER,), "name generation renewed",
        "a job is on the switch in a new generation",
    )
    SWITCH_SILENT = ("switch_silent", (CONTROLLER,), "reason", "a switch does not tell its counters")
    ROOT_DEAD = ("root_dead", (CONTROLLER,), "after_s reason", "a root does not answer (`watch`)")
    ROOT_BACK = ("root_back", (CONTROLLER,), "after_s reason", "it answers again")
    ROWS_MOVED = ("rows_moved", (CONTROLLER,), "after_s reason", "rows no longer name the dead root")
    ROWS_FAILED = ("rows_failed", (CONTROLLER,), "after_s reason", "they could not be written; it will try again")
    JOB_STRANDED = ("job_stranded", (CONTROLLER,), "after_s reason", "a job has no root left")

    # -- the lab --
    RUN_BEGAN = ("run_began", (LAB,), "system workers mbit topology", "a system begins to train")
    RUN_ENDED = ("run_ended", (LAB,), "system seconds", "it has trained")
    LAB_SAID = ("lab_said", (LAB,), "", "a line of the lab's output")
    # fmt: on


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in as_markdown((*ProgramEvent, *Event)))
