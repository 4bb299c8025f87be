# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All events that programs log, by name: what happened, at which level, who tells it, with which fields.

``python -m sumwire_protocol.logs`` prints the table of docs/watch.md. A logger's call has the event in ``extra``::

    _LOG.info("job %s: joined", name, extra=Event.RUN_JOINED(name=name, round=8, generation=3, again=False))

Fields that any event may have: ``job`` (the number), ``worker`` (a worker's number in its job) and ``switch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

HOST: Final = "host"
SOFT: Final = "soft switch"
AGGREGATOR: Final = "aggregator"
CONTROLLER: Final = "controller"
LAB: Final = "lab"
UP: Final = "up"
ALL: Final = (HOST, SOFT, AGGREGATOR, CONTROLLER, LAB)
# What any line may have.
PLACES: Final = ("job", "worker", "switch")
ATTRIBUTE: Final = "sumwire"
"""The name of a log record's attribute with what was told."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event that has happened, with its fields."""

    event: Event
    fields: dict[str, Any]


class Event(Enum):
    """An event. Its value: its name in a line, who tells it, the names of its fields, and what it means."""

    # fmt: off
    # -- programs --
    READY = ("ready", (SOFT, AGGREGATOR, CONTROLLER), "at", "the program serves from now on")
    METRICS_SERVED = ("metrics_served", (SOFT, CONTROLLER), "at", "metrics are served there")
    COUNTED = ("counted", (SOFT, AGGREGATOR), "counters", "the counters at the end, and with `--report` as they change")
    STOPPED = ("stopped", (SOFT,), "", "the program has ended in order")
    FAILED = ("failed", ALL, "reason", "the program ends, or does not start")
    THREAD_FAILED = ("thread_failed", ALL, "reason", "an error of the program itself; `traceback` has it")
    KERNELS_MISSING = (
        "kernels_missing", (HOST, SOFT, AGGREGATOR), "reason",
        "compiled code is missing: all works, but slower",
    )
    TRAINS_MISSING = ("trains_missing", (HOST, SOFT, AGGREGATOR), "reason", "packets go one by one, or come unfinished")

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
    SERVICE_AWAITED = ("service_awaited", (HOST,), "wait_s reason", "`sumwire.init()` waits for `sumwire up`")
    NOTHING_TO_DO = ("nothing_to_do", (HOST,), "reason", "a framework's callback leaves the model as it is")

    # -- the service --
    SERVICE_SAID = (
        "service_said", (UP,), "",
        "a line of `sumwire up`: the job, who asked for it, the aggregator's end",
    )

    # -- switches --
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
    ENGINE_CHOSEN = ("engine_chosen", (SOFT,), "engine", "which engine runs")
    IMPAIRED = ("impaired", (SOFT, LAB), "conditions", "loss, delay or other traffic was set")
    CONTROLLER_JOINED = (
        "controller_joined", (SOFT,), "role election_id primary",
        "a P4Runtime client has taken part in an election",
    )
    CONTROLLER_LEFT = ("controller_left", (SOFT,), "", "a P4Runtime client's stream has ended")
    CALL_REFUSED = ("call_refused", (SOFT,), "code reason sender", "a P4Runtime call was refused")
    PROGRAM_LOADED = ("program_loaded", (SOFT,), "", "a P4Runtime client has loaded a program")
    ROWS_WRITTEN = ("rows_written", (SOFT,), "updates", "a P4Runtime client has written table rows or other state")
    MESSAGE_DROPPED = ("message_dropped", (SOFT,), "kind", "a message to a P4Runtime client was dropped")
    FRAMES_DROPPED = ("frames_dropped", (SOFT,), "port reason", "a port drops frames of a kind; told once")
    PROGRAM_SAID = ("program_said", (SOFT,), "", "what the P4 program logs (`log_msg`)")

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

    # -- all others --
    OTHER = ("other", ALL, "", "a line of a library, or about compiling")
    # fmt: on

    def __init__(self, word: str, told_by: tuple[str, ...], fields: str, meaning: str) -> None:
        self.word, self.told_by, self.fields, self.meaning = word, told_by, fields.split(), meaning

    def __call__(self, **fields: Any) -> dict[str, Told]:
        """The ``extra`` of a logger's call. Values: what JSON has, or what it shows as text."""
        return {ATTRIBUTE: Told(self, fields)}


def as_markdown() -> Iterator[str]:
    """The table of docs/watch.md, line by line."""
    yield "| event | told by | fields | what has happened |"
    yield "|---|---|---|---|"
    for event in Event:
        told_by = "all" if event.told_by == ALL else ", ".join(event.told_by)
        fields = ", ".join(f"`{field}`" for field in event.fields)
        yield f"| `{event.word}` | {told_by} | {fields} | {event.meaning} |"
