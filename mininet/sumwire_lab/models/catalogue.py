# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The models, the bounds within which each is searched completely, and the rules that can be removed from each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class SearchBounds:
    """The bounds of a search. ``about``: in words. ``ends``: the search also shows that no schedule goes on for
    ever."""

    about: str
    defines: tuple[str, ...]
    ends: bool = False


@dataclass(frozen=True)
class ModelRule:
    """A rule of docs/protocol.md. ``about``: its text. ``defines``: the bounds of the counterexample."""

    name: str
    about: str
    defines: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromelaModel:
    """A model in Promela. ``name`` is that of its file in models/."""

    name: str
    settings: tuple[SearchBounds, ...]
    rules: tuple[ModelRule, ...]


def _of(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SLOT: Final = PromelaModel(
    "slot",
    (
        SearchBounds("2 workers, 2 slots, 2 losses, 2 copies", _of("WORKERS=2 CHUNKS=6 LOSSES=2 COPIES=2"), ends=True),
        SearchBounds("3 workers, 2 slots, 2 losses, 1 copy", _of("WORKERS=3 CHUNKS=5 LOSSES=2")),
        SearchBounds("3 workers, 3 slots, 1 loss, 1 copy", _of("WORKERS=3 SLOTS=3 CHUNKS=6"), ends=True),
        SearchBounds("2 workers, 5 slots, 1 loss, 1 copy", _of("SLOTS=5 CHUNKS=6")),
        SearchBounds("2 workers, 4 slots, no loss", _of("SLOTS=4 CHUNKS=10 LOSSES=0 PROMPT")),
        SearchBounds("3 workers, 2 slots, no loss", _of("WORKERS=3 LOSSES=0 COPIES=2 PROMPT")),
        SearchBounds("3 workers, 2 slots, any losses and copies", _of("WORKERS=3 CHUNKS=8 FOREVER")),
        SearchBounds("3 workers, 3 slots, any losses and copies", _of("WORKERS=3 SLOTS=3 CHUNKS=8 FOREVER")),
        SearchBounds("2 workers, 4 slots, any losses and copies", _of("SLOTS=4 CHUNKS=10 FOREVER")),
        SearchBounds("2 workers, 5 slots, any losses and copies", _of("SLOTS=5 CHUNKS=8 FOREVER")),
        SearchBounds("3 workers, one makes another call", _of("WORKERS=3 CALLS"), ends=True),
    ),
    (
        ModelRule("TURN", "chunk K only after the result of K - S/2"),
        ModelRule("TURN_SHORT", "with an odd S also after K - floor(S/2)", _of("SLOTS=3")),
        ModelRule("TURN_LONG", "with an odd S also after K - ceil(S/2)", _of("SLOTS=5 CHUNKS=6")),
        ModelRule("SPREAD", "only when chunks some rounds before have results", _of("SLOTS=4 CHUNKS=10")),
        ModelRule("NEWER", "FIRST: a newer round takes the slot"),
        ModelRule("OVERWRITE", "FIRST overwrites the slot"),
        ModelRule("REPEAT", "who is in is not counted again"),
        ModelRule("QUORUM", "LAST only when the quorum is in"),
        ModelRule("TO_ALL", "LAST sends the result to all workers", _of("LOSSES=0 PROMPT")),
        ModelRule("DUPLICATE", "a closed slot answers with the result"),
        ModelRule("OLDER", "an older round is STALE and changes nothing"),
        ModelRule("SERIAL", "newer and older by serial-number arithmetic"),
        ModelRule("CALL", "a packet of another op or bucket is refused", _of("CALLS")),
        ModelRule("RETRANSMISSION", "a worker without a result sends again"),
        ModelRule("MATCH", "answers to chunks that have results are known as old"),
    ),
)

_TREE: Final = PromelaModel(
    "tree",
    (
        SearchBounds("2 workers below and 1 beside, 1 loss, 1 copy", (), ends=True),
        SearchBounds("2 workers below and 1 beside, 2 losses", _of("LOSSES=2 COPIES=0")),
        SearchBounds(
            "the upper switch closes with one of its two, no loss", _of("LEFT_OUT LOSSES=0 COPIES=0"), ends=True
        ),
        SearchBounds("the same with 1 worker below, 2 losses", _of("LEFT_OUT ONE_BELOW LOSSES=2 COPIES=0")),
        SearchBounds("worker 2 has died, 2 losses, 2 copies", _of("DEAD LOSSES=2 COPIES=2"), ends=True),
    ),
    (
        ModelRule("WAITS", "a lower switch whose quorum is in waits for the result from above"),
        ModelRule("ASK", "a repeat makes the partial result go up again"),
        ModelRule("DOWN", "the result from above closes the slot and goes to all workers"),
        ModelRule("KNOWN", "a result from above of an older round is dropped"),
        ModelRule("COUNT", "the count is the total, whatever the level"),
        ModelRule("OWN_BITMAP", "a lower switch puts its own bitmap into the result", _of("LEFT_OUT")),
        ModelRule("LEFT_OUT", "or 0 if it was itself left out", _of("LEFT_OUT LOSSES=0 COPIES=0")),
        ModelRule("DRAWN_ONCE", "merged signs are drawn once"),
        ModelRule("RELAY", "STALE from above goes on to all workers", _of("LEFT_OUT ONE_BELOW LOSSES=2 COPIES=0")),
        ModelRule("FLUSH_UP", "FLUSH goes up with the partial result", _of("DEAD")),
        ModelRule("INCOMPLETE", "flags go up and come down", _of("DEAD")),
        ModelRule("TURN", "a slot is reused only when all workers have its result"),
    ),
)

_LOSS: Final = PromelaModel(
    "loss",
    (
        SearchBounds("3 workers, 1 contribution may be missing, 1 loss", _of("BOUND=1"), ends=True),
        SearchBounds(
            "2 workers, 1 may be missing, 1 loss, 1 copy, questions", _of("BOUND=1 COPIES=1 WORKERS=2"), ends=True
        ),
        SearchBounds("2 workers, 4 slots, 1 may be missing, 1 loss", _of("BOUND=1 WORKERS=2 SLOTS=4")),
        SearchBounds("3 workers, quorum 2, 1 loss", _of("QUORUM=2"), ends=True),
        SearchBounds("3 workers, quorum 2, 1 loss, early results not taken", _of("QUORUM=2 WITHOUT_EARLY")),
        SearchBounds("3 workers, one dies, 1 loss, 1 copy", _of("DEAD COPIES=1"), ends=True),
        SearchBounds("a run of 2 of 3 workers, 1 loss, 1 copy", _of("RUN=2 COPIES=1"), ends=True),
    ),
    (
        ModelRule("BUDGET", "a worker flushes only as its budget allows", _of("BOUND=1")),
        ModelRule("PARTS", "each worker has its own part of the budget", _of("BOUND=1")),
        ModelRule("RESERVE", "a flushed chunk holds a part until its result", _of("BOUND=1 WORKERS=2 SLOTS=4")),
        ModelRule("LEAST", "FLUSH says how many are enough", _of("BOUND=1")),
        ModelRule("FLUSH_JOINS", "whoever sends FLUSH and is not in counts first", _of("BOUND=1")),
        ModelRule("INERT", "a PROBE changes nothing", _of("BOUND=1 COPIES=1 WORKERS=2")),
        ModelRule("CLOSED", "a closed slot answers a straggler with the result", _of("QUORUM=2")),
        ModelRule("GONE_ON", "a result that the switch lost comes from another worker", _of("QUORUM=2")),
        ModelRule("DEADLINE", "when a worker is missing for long, the others send FLUSH", _of("DEAD")),
        ModelRule("INCOMPLETE", "a sum that any number closed is flagged, and not applied", _of("DEAD")),
        ModelRule("RUN_QUORUM", "contributions say how many workers the run has", _of("RUN=2")),
    ),
)

_RENEWAL: Final = PromelaModel(
    "renewal",
    (
        SearchBounds("2 workers, 1 kill, late packets of the dead", (), ends=True),
        SearchBounds("the same, with what another owner left in a slot", _of("OTHERS")),
        SearchBounds("2 workers, 2 kills", _of("KILLS=2")),
        SearchBounds("2 workers, 1 kill, runs that reach the rounds where the next may begin", _of("RESULTS=8")),
        SearchBounds("the same, one bucket for all steps of a greeting", _of("RESULTS=8 WITHOUT_BUCKETS")),
        SearchBounds("2 workers, 2 kills, one bucket for all steps of a greeting", _of("KILLS=2 WITHOUT_BUCKETS")),
    ),
    (
        ModelRule("APART", "a run begins some rounds after the newest of earlier runs"),
        ModelRule("MULTIPLES", "the first rounds of all runs are multiples of one number", _of("KILLS=2")),
        ModelRule("JOIN", "who finds slot 0 open and is not in joins there"),
        ModelRule("NONCES", "a process goes on only with its own nonce in the result"),
        ModelRule("DIGESTS", "nobody is in the run before all have found their nonces"),
        ModelRule("AGAIN", "a spoiled greeting begins again in later rounds"),
        ModelRule("TOKEN", "a greeting is not mixed with a run's data, which has a token", _of("RESULTS=8")),
        ModelRule("NEWEST", "whoever waits in a greeting joins a newer round"),
        ModelRule("STALE_RUN", "a worker in a run that learns of a newer one ends"),
        ModelRule("GENERATION", "what another owner left in a slot is void", _of("OTHERS")),
    ),
)

_RUN: Final = PromelaModel(
    "run",
    (
        SearchBounds("2 workers, 2 runs, 1 stop of the switch, any losses and copies", _of("CHUNKS=3")),
        SearchBounds("2 workers, 1 run, 2 stops of the switch, any losses and copies", _of("RUNS=1 CHUNKS=6 STOPS=2")),
        SearchBounds("2 workers, 2 runs, a greeting in the midst of them", _of("CHUNKS=3 STOPS=0 GREETINGS=1")),
    ),
    (
        ModelRule("TOKEN", "a contribution of another run than the job's is refused"),
        ModelRule("OPENING", "only the opening makes a run the job's"),
        ModelRule("GENERATION", "what opens a run names the job's generation"),
        ModelRule("FORGETS_RUN", "a switch that has forgotten its slots has forgotten the run"),
        ModelRule("BEHIND", "a run has no rounds in a slot where a newer greeting has begun", _of("GREETINGS=1")),
    ),
)

_FALLBACK: Final = PromelaModel(
    "fallback",
    (
        SearchBounds("2 ranks, 3 operations, 1 stop of the switch, 1 return", ()),
        SearchBounds(
            "2 ranks, 2 operations, 2 stops of the switch, 1 return", _of("OPERATIONS=2 CRASHES=2"), ends=True
        ),
        SearchBounds("3 ranks, 2 operations, 1 stop of the switch", _of("WORKERS=3 OPERATIONS=2 RETURNS=0")),
        SearchBounds("2 ranks, 3 operations, a return as soon as one sees the switch", _of("WITHOUT_ALL_SEE")),
    ),
    (
        ModelRule("LOST", "a rank that has lost the switch makes all halt"),
        ModelRule("STALLED", "so do results that do not come though all have sent"),
        ModelRule("EXCHANGES_END", "HALTING: exchanges end"),
        ModelRule("ALL_HALTED", "FALLBACK only when all ranks have halted"),
        ModelRule("LARGEST", "the largest number of completed operations counts"),
        ModelRule("HAND_OUT", "results of operations before it are handed out"),
        ModelRule("KEPT", "every rank keeps its latest result"),
        ModelRule("HOLDING", "HOLDING: none begins before it is clear which have begun"),
        ModelRule("BEGUN_COMPLETE", "NETWORK only when all have completed what some have begun"),
        ModelRule("GREETING", "a greeting in new rounds comes before the return"),
    ),
)

MODELS: Final = (_SLOT, _TREE, _LOSS, _RENEWAL, _RUN, _FALLBACK)
