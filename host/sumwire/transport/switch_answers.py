# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The switch's answers: the state of slot 0 after a HELLO, and the errors about refusals and silence. Error texts say
what is wrong, in which order to look, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import OP_CODES, JobConfig
from sumwire.errors import MismatchError, OrderError, RefusedError, SwitchLostError
from sumwire.wire.packets import HEADER_BYTES, OP_WORDS, WORD_BYTES, Header, chunks_of, first_byte, pack

_INFORM: Final = first_byte(p4.KIND_INFORM)
_HALF_BITS: Final = 16


@dataclass(frozen=True)
class SwitchState:
    """What a switch answers to a HELLO about slot 0.

    ``round``: that of the slot. ``contributors``: bitmap of the seats at this worker's switch that are in it; 0 for a
    slot that nobody has used. ``closed``: its result is complete. ``digest``: that of the job's configuration at the
    switch, 0 if it has none (:func:`sumwire_protocol.digest.job_digest`). ``revision``: that of the switch's program.
    ``generation``: that of the job's entries; it changes when the switch has forgotten its slots.
    """

    round: int
    contributors: int
    closed: bool
    digest: int
    revision: int
    generation: int


def hello_packet(config: JobConfig) -> NDArray[np.uint8]:
    """Return the HELLO of a worker about slot 0, uint8 (32,)."""
    header = Header(p4.KIND_PROBE, p4.OP_NONE, config.job, slot=0, worker=config.seat)
    return np.frombuffer(pack(header), np.uint8)


def is_hello_answer(config: JobConfig, size: int, record: Any) -> bool:
    """Return whether a received datagram, of ``size`` bytes and with this header, answers this worker's HELLO."""
    mine = (int(record["job"]), int(record["worker"]), int(record["slot"])) == (config.job, config.seat, 0)
    kind = (int(record["version_kind"]), int(record["op"])) == (_INFORM, p4.OP_NONE)
    return mine and kind and size == HEADER_BYTES and int(record["token"]) < p4.TOKENS_OF_RUNS


def state_of(record: Any) -> SwitchState:
    """Return the state that the answer to a HELLO reports."""
    told = int(chunks_of(record))
    return SwitchState(
        round=int(record["round"]),
        contributors=int(record["contributors"]),
        closed=bool(int(record["flags"]) & p4.FLAG_CLOSED),
        digest=int(record["bucket"]) << _HALF_BITS | told & (1 << _HALF_BITS) - 1,
        revision=told >> _HALF_BITS,
        generation=int(record["token"]),
    )


_NAMES: Final = {code: name.removeprefix("REJECT_") for name, code in vars(p4).items() if name.startswith("REJECT_")}
_APPLY: Final = "`sumwire-controller apply CONFIG`, or start sumwire-aggregator with this job file"
# What mends a difference between switch and job file.
APPLY_BOTH: Final = (
    "apply the configuration and write the job files again: `sumwire-controller apply CONFIG`, "
    "`sumwire-controller job-file CONFIG --job NAME`; or start sumwire-aggregator with the workers' job file"
)
_VERSIONS: Final = (
    "bring hosts and switch to the same version of Sumwire, then load its program: `sumwire-controller apply CONFIG`"
)
# What a refusal means for the job, and what mends it.
_REFUSALS: Final = {
    p4.REJECT_JOB: ("the job is not on the switch", _APPLY),
    p4.REJECT_WORKER: ("the job at the switch has no such seat", APPLY_BOTH),
    p4.REJECT_PORT: (
        "the worker's packets reach the switch at another port than its configuration says, or the worker number is "
        "another host's",
        f"correct the port in the configuration, or the number, then {APPLY_BOTH}",
    ),
    p4.REJECT_ADDRESS: (
        "the switch has another address for this worker, or the worker number is another host's",
        f"start this host with its own number, or {APPLY_BOTH}",
    ),
    p4.REJECT_UDP_PORT: (
        "the switch has another UDP port for this worker, or a NAT on the way changes it",
        f"send without NAT, or {APPLY_BOTH}",
    ),
    p4.REJECT_SLOT: ("the job at the switch has fewer slots than in the job file", APPLY_BOTH),
    p4.REJECT_TAG: (
        "the authentication tag of its packets is wrong: this worker has another key than the switch, or "
        "one of them has none",
        "give the configuration and all workers the same `key` file, then apply the configuration and write the job "
        "files again: `sumwire-controller apply CONFIG`, `sumwire-controller job-file CONFIG --job NAME`",
    ),
    p4.REJECT_JOB_OP: ("the job at the switch is without an op that the job file has", APPLY_BOTH),
}


def who(config: JobConfig) -> str:
    """Return the worker and its address as messages name them."""
    own = config.own_address
    return f"worker {config.worker} ({own.ip}, UDP port {own.udp_port})"


def least_mtu(config: JobConfig) -> int:
    """Return the bytes of the longest IPv4 packet that the job's ops send or receive."""
    words = max(max(OP_WORDS[OP_CODES[name]]) for name in config.ops)
    return p4.IPV4_BYTES + p4.UDP_BYTES + HEADER_BYTES + words * WORD_BYTES


def silence(config: JobConfig, waited_s: float, questions: int, last_failure: str) -> str:
    """Return the message about a switch that answers nothing. ``last_failure``: the socket's last error, or ""."""
    failure = f"; {last_failure}" if last_failure else ""
    return (
        f"job {config.job}: the switch {config.aggregator} (UDP port {p4.SUMWIRE_PORT}) does not answer "
        f"{who(config)}: {questions} questions in {waited_s:.1f} s{failure}; check, in this order: is the switch or "
        f"sumwire-aggregator started; is the job installed (`sumwire-controller apply CONFIG`), with this host at its "
        f"own port of the switch; do firewalls pass UDP port {p4.SUMWIRE_PORT} both ways; route and MTU, at least "
        f"{least_mtu(config)} bytes: "
        f"`ip route get {config.aggregator}`"
    )


def too_narrow(config: JobConfig, mtu: int | None = None, device: str = "DEVICE") -> str:
    """Return the message about a path that short packets pass and long ones do not.

    ``mtu``: that of the path, if known. ``device``: the one with the low MTU, if known.
    """
    known = f"its MTU is {mtu} bytes" if mtu is not None else "it answers short packets, and whole ones vanish"
    need = least_mtu(config)
    return (
        f"job {config.job}: the path between {who(config)} and the switch {config.aggregator} is too narrow: {known}; "
        f"the job's packets need {need} bytes: `ip link set dev {device} mtu {need}`, or more, on every device of the "
        "path"
    )


def refused(config: JobConfig, reason: int) -> RefusedError:
    """Return the error for a packet that the switch has refused for ``reason``, a REJECT_* code."""
    name = _NAMES.get(reason, f"code {reason}")
    meaning, cure = _REFUSALS.get(reason, ("host and switch do not speak the same protocol", _VERSIONS))
    text = (
        f"job {config.job}: the switch {config.aggregator} refuses {who(config)}, seat {config.seat}: {name}: "
        f"{meaning}; {cure}"
    )
    return RefusedError(text, reason=reason, name=name)


def other_call(config: JobConfig, slot: int, round_: int, op: int) -> OrderError:
    """Return the error for a slot in which other workers make another call."""
    return OrderError(
        f"job {config.job}: the switch has another call than this worker's (op {op}) in slot {slot}, round {round_}: "
        "all workers must make the same calls with the same lengths in the same order; compare the workers' programs"
    )


class ForgottenRunError(SwitchLostError):
    """The switch does not know this worker's run, or has another generation of the job."""


def forgotten_run(config: JobConfig, slot: int, round_: int, waited_s: float) -> ForgottenRunError:
    """Return the error for a switch that accepts no packets of this worker's run."""
    text = (
        f"job {config.job}: the switch {config.aggregator} takes no packets of this worker's run any more (slot "
        f"{slot}, round {round_}): it was restarted, its configuration was written anew, or another run of the job has "
        "begun; start all workers again"
    )
    return ForgottenRunError(text, job=config.job, slot=slot, round_=round_, waited_s=waited_s)


def check_switch(config: JobConfig, state: SwitchState) -> None:
    """Raise MismatchError if the switch has another program or another configuration of the job."""
    if state.revision != p4.PROGRAM_REVISION:
        raise MismatchError(
            f"job {config.job}: the switch {config.aggregator} runs revision {state.revision} of the switch program, "
            f"this worker needs {p4.PROGRAM_REVISION}; {_VERSIONS}"
        )
    if state.digest and state.digest != config.digest:
        raise MismatchError(
            f"job {config.job}: the configuration at the switch {config.aggregator} (digest {state.digest:08x}) is not "
            f"that of the job file (digest {config.digest:08x}): ops, workers, quorum, slots or table "
            f"differ; {APPLY_BOTH}"
        )


def wrong_quorum(config: JobConfig, slot: int, round_: int, count: int) -> MismatchError:
    """Return the error for a result that lacks workers although the job needs all of them."""
    return MismatchError(
        f"job {config.job}: the result of slot {slot}, round {round_} has {count} of {config.quorum} contributions: "
        f"the quorum at the switch {config.aggregator} is not the job file's; {APPLY_BOTH}"
    )
