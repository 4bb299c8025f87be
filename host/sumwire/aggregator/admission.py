# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Decides which datagrams are refused, and gives as the reason the first rule that each breaks
(docs/protocol.md#reject).

The kernel already drops bad checksums and packets other than UDP, and an aggregator has no switch ports. So there are
no rules for these here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SHORT_OPS, Op, Payload

from sumwire.aggregator.batches import Batch
from sumwire.aggregator.state import State
from sumwire.wire.authentication import tags_of
from sumwire.wire.packets import HEADER_BYTES, WORD_BYTES, cuts_of, headers

FROM_WORKERS: Final = (p4.KIND_CONTRIBUTE, p4.KIND_PROBE)
FROM_ABOVE: Final = (p4.KIND_RESULT, p4.KIND_STALE, p4.KIND_REFUSED)


def _words(payload: Callable[[Op], Payload]) -> NDArray[np.uint8]:
    """Words by op code, (256,). Of a code without an op 0: no packet with a payload has 0 words."""
    table = np.zeros(1 << dict(p4.SUMWIRE_FIELDS)["op"], np.uint8)
    for op in SHORT_OPS:
        table[op.code] = payload(op).words
    return table


UP_WORDS: Final = _words(lambda op: op.up)
DOWN_WORDS: Final = _words(lambda op: op.down)
PARTIAL_WORDS: Final = _words(lambda op: op.partial)


def lost_planes(records: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which packets are THC contributions that a switch trimmed, so that they lack low planes, bool (n,)."""
    return np.asarray((records["op"] == p4.OP_THC) & (records["words"] == p4.THC_WORDS_TRIMMED))


def are_hellos(records: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which packets are HELLOs, which every job answers, (n,)."""
    bare = (records["op"] == p4.OP_NONE) & (records["words"] == 0)
    return np.asarray(bare & (records["version_kind"] & 0xF == p4.KIND_PROBE))


def refusals(state: State, batch: Batch) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return the reject reason of each packet, REJECT_NONE if it is admitted, and the index of its job, both (n,).

    The job index of a refused packet is arbitrary.
    """
    records = headers(batch.rows)
    index = state.job_of[records["job"]]
    reasons = np.full(batch.count, p4.REJECT_NONE, np.uint8)
    checks = [*_form(records, batch.sizes), (index < 0, p4.REJECT_JOB), *_membership(state, records, index, batch)]
    # The first reason is written last.
    for broken, reason in reversed(checks):
        reasons[broken] = reason
    admitted = np.flatnonzero(reasons == p4.REJECT_NONE)
    reasons[admitted[~_have_right_tags(state, batch, admitted, index[admitted])]] = p4.REJECT_TAG
    return reasons, index


def bare_sizes(records: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the bytes of packets without an authentication tag, (n,)."""
    return HEADER_BYTES + records["words"].astype(np.uint32) * np.uint32(WORD_BYTES)


def from_above(records: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which packets are of a kind that only a parent aggregator sends, bool (n,)."""
    return np.isin(records["version_kind"] & 0xF, FROM_ABOVE)


def _have_right_tags(state: State, batch: Batch, rows: NDArray[np.intp], index: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether these well-formed packets have the tags that they must have, or none where the job has no key, (n,). A
    REFUSED has none."""
    records = headers(batch.rows)[rows]
    sizes, bare, above = batch.sizes[rows], bare_sizes(records), from_above(records)
    tagged = (state.jobs["key"]["present"][index] != 0) & (records["version_kind"] & 0xF != p4.KIND_REFUSED)
    right: NDArray[np.bool_] = (sizes != bare) == tagged
    keyed = np.flatnonzero(right & tagged)
    for size, number, of in sorted({(int(bare[one]), int(index[one]), bool(above[one])) for one in keyed}):
        which = keyed[(bare[keyed] == size) & (index[keyed] == number) & (above[keyed] == of)]
        packets = batch.rows[rows[which], : size + p4.TAG_BYTES]
        found = np.ascontiguousarray(packets[:, size:]).view(">u8").reshape(-1)
        key = state.jobs["above_key" if of else "key"][number]
        right[which] = tags_of(key, packets[:, :HEADER_BYTES], packets[:, HEADER_BYTES:size]) == found
    return right


def _form(records: NDArray[Any], sizes: NDArray[np.uint32]) -> list[tuple[NDArray[np.bool_], int]]:
    """Rules on the datagram alone."""
    version, kind = records["version_kind"] >> 4, records["version_kind"] & 0xF
    op, words = records["op"], records["words"]
    trimmed = lost_planes(records) & (records["flags"] & p4.FLAG_TRIMMED != 0)
    contribution = (words == UP_WORDS[op]) | (words == PARTIAL_WORDS[op]) | trimmed
    cut = (op == p4.OP_THC) & (words == p4.THC_WORDS_CUT) & (cuts_of(records) & p4.CUT_RESULT != 0)
    result = (words == DOWN_WORDS[op]) | cut
    fits = np.select([kind == p4.KIND_CONTRIBUTE, kind == p4.KIND_RESULT], [contribution, result], words == 0)
    return [
        (sizes < HEADER_BYTES, p4.REJECT_LENGTH),
        (version != p4.SUMWIRE_VERSION, p4.REJECT_VERSION),
        (~np.isin(kind, FROM_WORKERS + FROM_ABOVE), p4.REJECT_KIND),
        ((UP_WORDS[op] == 0) & ~are_hellos(records), p4.REJECT_OP),
        (~fits, p4.REJECT_WORDS),
        (~np.isin(sizes - bare_sizes(records), (0, p4.TAG_BYTES)), p4.REJECT_LENGTH),
    ]


def _membership(
    state: State, records: NDArray[Any], index: NDArray[np.int32], batch: Batch
) -> list[tuple[NDArray[np.bool_], int]]:
    """Rules on the job, the worker and the slot. An unknown job's index is -1: REJECT_JOB then overrules these."""
    jobs = state.jobs
    op = records["op"]
    contributes = np.isin(records["version_kind"] & 0xF, FROM_WORKERS)
    seat = np.minimum(records["worker"], p4.JOB_WORKERS_MAX - 1)
    known = (records["worker"] < p4.JOB_WORKERS_MAX) & (jobs["places"][index, seat] >= 0)
    # A packet's op may be any number here, and a shift by more than 31 has no meaning.
    op_bit = np.uint32(1) << np.minimum(op, 31).astype(np.uint32)
    lower = jobs["lower"][index] >> seat.astype(np.uint32) & 1 != 0
    has_above = jobs["above"][index] >= 0
    is_above = has_above & (jobs["above_address"][index] == batch.sources) & (jobs["above_port"][index] == batch.ports)
    return [
        (contributes & ~known, p4.REJECT_WORKER),
        (contributes & (jobs["addresses"][index, seat] != batch.sources), p4.REJECT_ADDRESS),
        (contributes & (jobs["udp_ports"][index, seat] != batch.ports), p4.REJECT_UDP_PORT),
        (records["slot"] >= jobs["slots"][index], p4.REJECT_SLOT),
        ((jobs["ops"][index] & op_bit == 0) & ~are_hellos(records), p4.REJECT_JOB_OP),
        (~contributes & ~is_above, p4.REJECT_PARENT),
        (contributes & (records["count"] - np.uint8(1) >= jobs["weights"][index, seat]), p4.REJECT_COUNT),
        (contributes & ~_form_fits(records, lower), p4.REJECT_WORDS),
        (contributes & (records["flags"] & p4.FLAGS_OF_SWITCHES != 0) & ~lower, p4.REJECT_FLAGS),
        # Missing planes are made up at the root only.
        (contributes & lost_planes(records) & has_above, p4.REJECT_WORDS),
    ]


def _form_fits(records: NDArray[Any], lower: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether payloads are of the form that their senders have, (n,): sums and counters of lower aggregators, indices
    and votes of hosts. Other ops have one form."""
    op, words = records["op"], records["words"]
    one_form = (words == 0) | (UP_WORDS[op] == PARTIAL_WORDS[op])
    return np.asarray(one_form | ((words == PARTIAL_WORDS[op]) == lower))
