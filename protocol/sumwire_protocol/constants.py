# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Constants of the P4 program. Generated from p4src/include by `make p4`; do not edit."""

from typing import Final

WORD_BITS: Final = 1024
WORD_BYTES: Final = 128
SLOT_WORDS: Final = 8
ELEMENT_BITS: Final = 32
SLOTS_TOTAL: Final = 4096
JUMBO_SLOTS: Final = 512
JOBS_MAX: Final = 64
WORKERS_MAX: Final = 1024
ROUTES_MAX: Final = 1024
SOURCES_MAX: Final = 4096
AGGREGATORS_MAX: Final = 16
BUDGET_BURST_BYTES: Final = 131072
PORTS_MAX: Final = 512
QUEUES_MAX: Final = 1024
QUEUE_CELLS: Final = 16384
ETHERNET_BYTES: Final = 14
IPV4_BYTES: Final = 20
UDP_BYTES: Final = 8
SUMWIRE_BYTES: Final = 32
TAG_BYTES: Final = 8
BARE_BYTES: Final = 74
TOKEN_NONE: Final = 0
TOKENS_OF_RUNS: Final = 4294967296
BUCKET_OPENS_RUN: Final = 65024
SPRAY_HASH: Final = 1
SPRAY_ROOT: Final = 2
FLAG_FLUSH: Final = 1
FLAG_INCOMPLETE: Final = 2
FLAG_OVERFLOW: Final = 4
FLAG_TRIMMED: Final = 8
FLAG_CE: Final = 16
FLAG_RESYNC: Final = 32
FLAG_MISSING: Final = 64
FLAG_CLOSED: Final = 128
FLAGS_OF_SWITCHES: Final = 210
CUT_RESULT: Final = 128
VERDICT_NONE: Final = 0
VERDICT_FIRST: Final = 1
VERDICT_ADD: Final = 2
VERDICT_LAST: Final = 3
VERDICT_DUPLICATE: Final = 4
VERDICT_REPEAT: Final = 5
VERDICT_FLUSH: Final = 6
VERDICT_STALE: Final = 7
VERDICT_REJECT: Final = 8
VERDICT_ASK: Final = 9
VERDICT_DOWN: Final = 10
VERDICT_KNOWN: Final = 11
VERDICT_INFORM: Final = 12
VERDICT_RELAY: Final = 13
VERDICTS: Final = 16
PHASE_WAITING: Final = 1
PHASE_CLOSED: Final = 2
REJECT_NONE: Final = 0
REJECT_LENGTH: Final = 1
REJECT_VERSION: Final = 2
REJECT_KIND: Final = 3
REJECT_OP: Final = 4
REJECT_WORDS: Final = 5
REJECT_JOB: Final = 6
REJECT_WORKER: Final = 7
REJECT_PORT: Final = 8
REJECT_ADDRESS: Final = 9
REJECT_SLOT: Final = 10
REJECT_JOB_OP: Final = 11
REJECT_COUNT: Final = 12
REJECT_CHECKSUM: Final = 13
REJECT_NOT_SUMWIRE: Final = 14
REJECT_CALL: Final = 15
REJECT_PARENT: Final = 16
REJECT_UDP_PORT: Final = 17
REJECT_FLAGS: Final = 18
REJECT_SOURCE: Final = 19
REJECT_BUDGET: Final = 20
REJECT_TOKEN: Final = 21
REJECT_ROUND: Final = 22
REJECT_TAG: Final = 23
REJECTS: Final = 32
ETHERTYPE_IPV4: Final = 2048
ETHERTYPE_ARP: Final = 2054
ARP_REQUEST: Final = 1
ARP_REPLY: Final = 2
IP_PROTOCOL_UDP: Final = 17
RESULT_TTL: Final = 64
DROP_PORT: Final = 511
SUMWIRE_PORT: Final = 21335
SUMWIRE_VERSION: Final = 2
PROGRAM_REVISION: Final = 6
KIND_CONTRIBUTE: Final = 1
KIND_RESULT: Final = 2
KIND_STALE: Final = 3
KIND_PROBE: Final = 4
KIND_INFORM: Final = 5
KIND_REFUSED: Final = 6
OP_NONE: Final = 0
OP_THC: Final = 1
OP_MAX32: Final = 2
OP_SUM32: Final = 3
OP_SIGN: Final = 4
OP_VOTE: Final = 5
OP_MIN32: Final = 6
OP_JUMBO: Final = 7
THC_WORDS_UP: Final = 4
THC_WORDS_PARTIAL: Final = 8
THC_WORDS_DOWN: Final = 8
THC_WORDS_TRIMMED: Final = 2
THC_WORDS_CUT: Final = 6
SUM32_WORDS: Final = 8
SIGN_WORDS: Final = 8
VOTE_WORDS_UP: Final = 2
VOTE_WORDS_PARTIAL: Final = 6
VOTE_WORDS_DOWN: Final = 2
JUMBO_WORDS: Final = 64
ELEMENTWISE_WORDS: Final = 1
ECN_NOT_ECT: Final = 0
ECN_ECT: Final = 2
ECN_CE: Final = 3
DSCP_PRIORITY: Final = 56
QUEUE_PASS: Final = 0
QUEUE_MARK: Final = 1
QUEUE_DROP: Final = 2
QUEUE_TRIM: Final = 3
DEGRADE_TRIM: Final = 1
DEGRADE_DROP: Final = 2
DEGRADE_RESULTS: Final = 4
QUEUE_SHIFT: Final = 10
QUEUE_LOOKBACK_US: Final = 1073741824
REFUSAL_GAP_US: Final = 10000
SIGN_WORKERS_MAX: Final = 16
VOTE_WORKERS_MAX: Final = 15
VOTE_WORKERS_BELOW_MAX: Final = 7
JOB_WORKERS_MAX: Final = 32
THC_INDEX_PLANES: Final = 4
CHUNKS_MAX: Final = 16777216
PRIORITIES: Final = 8
DROP_CLASSES: Final = 4
SPRAY_SLOT: Final = 0
PHASE_OPEN: Final = 0
CUT_PLANES: Final = 127
CUT_FILL_BYTE: Final = 170

# (header, its fields with their widths in bits) of all headers on the wire, in wire order
HEADERS: Final[tuple[tuple[str, tuple[tuple[str, int], ...]], ...]] = (
    ("ethernet", (
        ("dst", 48), ("src", 48), ("ethertype", 16),
    )),
    ("arp", (
        ("htype", 16), ("ptype", 16), ("hlen", 8), ("plen", 8), ("oper", 16), ("sha", 48), ("spa", 32),
        ("tha", 48), ("tpa", 32),
    )),
    ("ipv4", (
        ("version_ihl", 8), ("dscp", 6), ("ecn", 2), ("total_len", 16), ("id", 16), ("fragment", 16),
        ("ttl", 8), ("protocol", 8), ("checksum", 16), ("src", 32), ("dst", 32),
    )),
    ("udp", (
        ("src_port", 16), ("dst_port", 16), ("len", 16), ("checksum", 16),
    )),
    ("sumwire", (
        ("version", 4), ("kind", 4), ("op", 8), ("job", 16), ("slot", 16), ("worker", 8), ("count", 8),
        ("round", 32), ("contributors", 32), ("flags", 8), ("words", 8), ("bucket", 16), ("cut", 8),
        ("chunk", 24), ("token", 64),
    )),
    ("word0", (
        ("bits", 1024),
    )),
    ("word1", (
        ("bits", 1024),
    )),
    ("pair2", (
        ("first", 1024), ("second", 1024),
    )),
    ("pair4", (
        ("first", 1024), ("second", 1024),
    )),
    ("pair6", (
        ("first", 1024), ("second", 1024),
    )),
    ("jumbo", (
        ("w0", 2048), ("w1", 2048), ("w2", 2048), ("w3", 2048), ("w4", 2048), ("w5", 2048), ("w6", 2048),
        ("w7", 2048), ("w8", 2048), ("w9", 2048), ("w10", 2048), ("w11", 2048), ("w12", 2048), ("w13", 2048),
        ("w14", 2048), ("w15", 2048), ("w16", 2048), ("w17", 2048), ("w18", 2048), ("w19", 2048),
        ("w20", 2048), ("w21", 2048), ("w22", 2048), ("w23", 2048), ("w24", 2048), ("w25", 2048),
        ("w26", 2048), ("w27", 2048), ("w28", 2048), ("w29", 2048), ("w30", 2048), ("w31", 2048),
    )),
    ("auth", (
        ("tag", 64),
    )),
)

# Of the Sumwire header
SUMWIRE_FIELDS: Final = dict(HEADERS)["sumwire"]

# What kinds, flags and reject reasons mean
MEANINGS: Final = {
    "FLAG_FLUSH": "close the slot, if as many contributors are in as the header says",
    "FLAG_INCOMPLETE": "closed by a FLUSH that any number was enough for",
    "FLAG_OVERFLOW": "an element of SUM32 left its range",
    "FLAG_TRIMMED": "a THC contribution lost its low planes on its way",
    "FLAG_CE": "a contribution met a long queue (ECN)",
    "FLAG_RESYNC": "sent once more",
    "FLAG_MISSING": "closed by a FLUSH that says how few are enough, or with void contributions",
    "FLAG_CLOSED": "of an INFORM: the slot has its result",
    "REJECT_LENGTH": "frame, IPv4, UDP and `words` disagree on the length",
    "REJECT_KIND": "not a kind that a worker sends to a switch",
    "REJECT_OP": "unknown op",
    "REJECT_WORDS": "not the number of words this op has",
    "REJECT_JOB": "no such job",
    "REJECT_WORKER": "no such worker in the job",
    "REJECT_PORT": "the worker is behind another port",
    "REJECT_ADDRESS": "the worker has another source address",
    "REJECT_SLOT": "outside the job's slots",
    "REJECT_JOB_OP": "an op the job was not admitted for",
    "REJECT_COUNT": "count is zero or above what the worker stands for",
    "REJECT_CHECKSUM": "IPv4 header checksum",
    "REJECT_NOT_SUMWIRE": "to the aggregator's address, but no Sumwire packet",
    "REJECT_CALL": "another op or bucket than those that opened the slot's round",
    "REJECT_PARENT": "as from the switch above, but not of the one for this slot",
    "REJECT_UDP_PORT": "from another UDP port than the worker's",
    "REJECT_FLAGS": "a host sets a flag that is a lower switch's",
    "REJECT_SOURCE": "to be forwarded, or ARP: nobody at this port has these addresses",
    "REJECT_BUDGET": "the job's workers send more than the job's limit",
    "REJECT_TOKEN": "of a run that is not open at this switch",
    "REJECT_ROUND": "of the run, but not of the slot's next round",
    "REJECT_TAG": "of a job with a key: no authentication tag, or a wrong one; or the reverse",
    "KIND_PROBE": "a worker asks how the slot stands",
    "KIND_INFORM": "the answer, to that worker alone",
    "KIND_REFUSED": "why a contribution or a probe is refused, to its sender alone",
}
