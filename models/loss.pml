// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Slots that close before all are in (docs/protocol.md, "Verdicts", "Stragglers", "When no result comes"; the host's
// budget is sumwire/transport/retransmission.py). Packets as in slot.pml, rounds are plain numbers.
//
// BOUND: a loss bound allows so many missing contributions, which are divided among the workers. QUORUM: so many close a
// slot. DEAD: the last worker may die at any moment, and the others give up. RUN: a run of so few workers says so.
// WITHOUT_<RULE> takes a rule out.

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef CHUNKS
#define CHUNKS 3
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef COPIES
#define COPIES 0
#endif
#include "each.pml"

#define ROUND(k) ((k) / SLOTS)
#define SLOT(k) ((k) % SLOTS)
#define LAST (WORKERS - 1)

// Workers. `flushed`: chunks that were sent with FLUSH. `lost`: the switch no longer has the result.
byte sent[WORKERS], got[WORKERS], flushed[WORKERS], lost[WORKERS], spent[WORKERS];
bool ended[WORKERS], dead;
// Packets: contributions, the same with FLUSH, questions; results, INFORM, and STALE by the chunk that has the slot.
byte up[WORKERS], up_flush[WORKERS], probe[WORKERS], down[WORKERS], inform[WORKERS], stale[WORKERS];

// The switch; `sum` is what is really in, `arrived` whose contributions have come while the slot was open.
bool used[SLOTS], closed[SLOTS];
byte round[SLOTS], in[SLOTS], sum[SLOTS], arrived[SLOTS];

byte sums[CHUNKS], made, incomplete, missing;
byte losses, copies;
bool moved = 1;

#define LIVES(w) (!((w) == LAST && dead))
#define FLIES(w, k) (HAS(sent[w], k) && !HAS(got[w], k))
#define ONE(set, w) ((set) >> (w) & 1)
#define SIZE(set) (ONE(set, 0) + ONE(set, 1) + ONE(set, 2))

// Also of chunks whose results came before their turn. With 4 slots two chunks are in flight.
#if SLOTS == 2
#define TURN(w, k) ((got[w] & (BIT(k) - 1)) == BIT(k) - 1)
#else
#define TURN(w, k) ((k) < SLOTS / 2 || HAS(got[w], (k) - SLOTS / 2))
#endif
#define SEND(w, k) \
    :: d_step { LIVES(w) && !ended[w] && !HAS(sent[w] | got[w], k) && TURN(w, k) -> \
        printf("@ send %d %d\n", w, k); sent[w] = sent[w] | BIT(k); up[w] = up[w] | BIT(k) }

// A worker spends its part of what may be missing. A chunk that was flushed and has no result holds one of it.
#ifdef BOUND
#define OWN_PART(w) (BOUND / WORKERS + ((w) < BOUND % WORKERS))
#ifdef WITHOUT_PARTS
#define MAY_SPEND(w) BOUND
#else
#define MAY_SPEND(w) OWN_PART(w)
#endif
#ifdef WITHOUT_RESERVE
#define RESERVED(w) 0
#else
#define RESERVED(w) (SIZE(flushed[w] & ~got[w]))
#endif
#ifdef WITHOUT_BUDGET
#define HAS_LEFT(w) 1
#else
#define HAS_LEFT(w) (spent[w] + RESERVED(w) < MAY_SPEND(w))
#endif
#ifdef WITHOUT_LEAST
#define ENOUGH(s) 1
#else
#define ENOUGH(s) (SIZE(in[s]) >= WORKERS - 1)
#endif
#define FLUSH(w, k) \
    :: d_step { FLIES(w, k) && !HAS(flushed[w], k) && HAS_LEFT(w) -> \
        printf("@ flush %d %d\n", w, k); flushed[w] = flushed[w] | BIT(k); up_flush[w] = up_flush[w] | BIT(k) }
#define PROBE(w, k) \
    :: d_step { FLIES(w, k) && copies < COPIES -> \
        printf("@ probe %d %d\n", w, k); copies++; probe[w] = probe[w] | BIT(k) }
#else
#define ENOUGH(s) 1
#define FLUSH(w, k)
#define PROBE(w, k)
#endif

#ifdef QUORUM
#define COMPLETE(s) (SIZE(in[s]) >= QUORUM)
#elif defined(RUN) && !defined(WITHOUT_RUN_QUORUM)
#define COMPLETE(s) (SIZE(in[s]) >= RUN)
#else
#define COMPLETE(s) (SIZE(in[s]) == WORKERS)
#endif

#define TO_ALL(w, k) down[w] = down[w] | BIT(k);

inline close_slot(k) {
    closed[SLOT(k)] = 1; moved = 1;
    MUST(!HAS(made, k), "! a result is made once\n");
    MUST(in[SLOT(k)] == sum[SLOT(k)], "! contributors says who is in the sum\n");
    MUST(sum[SLOT(k)] == arrived[SLOT(k)], "! a sum lacks nobody whose contribution has arrived\n");
    made = made | BIT(k);
    sums[k] = sum[SLOT(k)];
#ifdef BOUND
    missing = missing + WORKERS - SIZE(sum[SLOT(k)]);
    MUST(missing <= BOUND, "! no more is missing than the bound allows\n");
#endif
    EACH_OF_WORKERS(TO_ALL, k)
}

inline fold(w, k) {
    MUST(!HAS(sum[SLOT(k)], w), "! a result counts each worker once\n");
    in[SLOT(k)] = in[SLOT(k)] | BIT(w); sum[SLOT(k)] = sum[SLOT(k)] | BIT(w);
    arrived[SLOT(k)] = arrived[SLOT(k)] | BIT(w);
    moved = 1;
    if
    :: COMPLETE(SLOT(k)) -> close_slot(k)
    :: else
    fi
}

inline open_round(k) {
    used[SLOT(k)] = 1; round[SLOT(k)] = ROUND(k); closed[SLOT(k)] = 0; in[SLOT(k)] = 0; sum[SLOT(k)] = 0;
    arrived[SLOT(k)] = 0
}

inline flush_slot(k) {
#ifdef DEAD
#ifndef WITHOUT_INCOMPLETE
    incomplete = incomplete | BIT(k);
#endif
#endif
    close_slot(k)
}

// Who is not in yet counts first.
#ifdef WITHOUT_FLUSH_JOINS
#define JOINS(w, k, forced) (!HAS(in[SLOT(k)], w) && !(forced))
#else
#define JOINS(w, k, forced) (!HAS(in[SLOT(k)], w))
#endif

inline receive(w, k, forced) {
    if
    :: !used[SLOT(k)] || ROUND(k) > round[SLOT(k)] -> open_round(k); fold(w, k)
    :: used[SLOT(k)] && ROUND(k) < round[SLOT(k)] -> stale[w] = stale[w] | BIT(round[SLOT(k)] * SLOTS + SLOT(k))
    :: used[SLOT(k)] && ROUND(k) == round[SLOT(k)] && closed[SLOT(k)] ->
#ifndef WITHOUT_CLOSED
        down[w] = down[w] | BIT(k)
#endif
    :: used[SLOT(k)] && ROUND(k) == round[SLOT(k)] && !closed[SLOT(k)] ->
        arrived[SLOT(k)] = arrived[SLOT(k)] | BIT(w);
        if
        :: JOINS(w, k, forced) -> fold(w, k)
        :: !JOINS(w, k, forced) && (forced) && ENOUGH(SLOT(k)) -> flush_slot(k)
        :: else                                                      // REPEAT
        fi
    fi
}

// A question changes nothing.
inline question(w, k) {
#ifdef WITHOUT_INERT
    if
    :: used[SLOT(k)] && ROUND(k) == round[SLOT(k)] && !closed[SLOT(k)] -> in[SLOT(k)] = in[SLOT(k)] | BIT(w)
    :: else
    fi;
#endif
    if
    :: used[SLOT(k)] && ROUND(k) < round[SLOT(k)] -> stale[w] = stale[w] | BIT(round[SLOT(k)] * SLOTS + SLOT(k))
    :: !used[SLOT(k)] || ROUND(k) > round[SLOT(k)] || closed[SLOT(k)] || !HAS(in[SLOT(k)], w) ->
        inform[w] = inform[w] | BIT(k)
    :: else
    fi
}

// INFORM that asks for the contribution, or for another copy of it since the result is here.
inline informed(w, k) {
    if
    :: FLIES(w, k) -> up[w] = up[w] | BIT(k)
    :: else
    fi
}

#ifdef DEAD
#define MUST_BE_WHOLE(k) MUST(sums[k] == EVERYBODY, "! no incomplete sum is applied\n");
#else
#define MUST_BE_WHOLE(k)
#endif
// Results of chunks that were not sent count too, where others may go on without this worker.
#ifdef WITHOUT_EARLY
#define WAITS_FOR(w, k) FLIES(w, k)
#else
#define WAITS_FOR(w, k) (!HAS(got[w], k))
#endif
#define APPLY(w, k) \
    MUST_BE_WHOLE(k) \
    got[w] = got[w] | BIT(k); moved = 1; \
    if \
    :: HAS(flushed[w], k) -> spent[w] = spent[w] + WORKERS - SIZE(sums[k]) \
    :: else \
    fi

inline accept(w, k) {
    if
    :: WAITS_FOR(w, k) && LIVES(w) && !ended[w] ->
        if
        :: HAS(incomplete, k) -> ended[w] = 1; moved = 1             // DeadlineError
        :: else -> APPLY(w, k)
        fi
    :: else
    fi
}

inline hear(w, k) {
    if
    :: (k) >= SLOTS && FLIES(w, (k) - SLOTS) && !HAS(lost[w], (k) - SLOTS) ->
        lost[w] = lost[w] | BIT((k) - SLOTS); moved = 1
    :: else
    fi
}

// Another worker has the result, and gives it.
#if WORKERS == 2
#define OTHERS(w) (got[1 - (w)])
#else
#define OTHERS(w) ((w) == 0 -> got[1] | got[2] : ((w) == 1 -> got[0] | got[2] : got[0] | got[1]))
#endif
#ifdef WITHOUT_GONE_ON
#define RECOVER(w, k)
#else
#define RECOVER(w, k) \
    :: d_step { HAS(lost[w] & ~got[w] & OTHERS(w), k) -> printf("@ recover %d %d\n", w, k); APPLY(w, k) }
#endif

mtype = { arrive, arrive_flush, arrive_probe, answer, informs, told };
#define CARRY(set, k, name, w, action) \
    :: d_step { HAS(set, k) -> printf("@ %e %d %d\n", name, w, k); set = set & ~BIT(k); action } \
    :: d_step { HAS(set, k) && copies < COPIES -> printf("@ %e %d %d\n", name, w, k); copies++; action } \
    :: d_step { HAS(set, k) && losses < LOSSES -> \
        printf("@ lose %e %d %d\n", name, w, k); losses++; moved = 1; set = set & ~BIT(k) }
#define OF_WORKER(w, k) \
    CARRY(up[w], k, arrive, w, receive(w, k, 0)) \
    CARRY(up_flush[w], k, arrive_flush, w, receive(w, k, 1)) \
    CARRY(probe[w], k, arrive_probe, w, question(w, k)) \
    CARRY(down[w], k, answer, w, accept(w, k)) \
    CARRY(inform[w], k, informs, w, informed(w, k)) \
    CARRY(stale[w], k, told, w, hear(w, k))

#define ENDED(w) (!LIVES(w) || ended[w] || got[w] == BIT(CHUNKS) - 1)
#if defined(DEAD) && !defined(WITHOUT_DEADLINE)
#define FLUSHED(w) (sent[w] & ~got[w])
#else
#define FLUSHED(w) (flushed[w])
#endif
#define SEND_AGAIN(w) \
    if \
    :: !ENDED(w) -> up_flush[w] = sent[w] & ~got[w] & FLUSHED(w); up[w] = sent[w] & ~got[w] & ~FLUSHED(w) \
    :: else \
    fi;

active proctype network() {
#ifdef RUN
    dead = 1;
#endif
    do
    FOR_EACH(SEND)
    FOR_EACH(FLUSH)
    FOR_EACH(PROBE)
    FOR_EACH(OF_WORKER)
    FOR_EACH(RECOVER)
#ifdef DEAD
    :: d_step { !dead && got[LAST] != BIT(CHUNKS) - 1 -> printf("@ die %d\n", LAST); dead = 1; moved = 1 }
#endif
    :: else ->
        if
        :: ENDED(0) && ENDED(1) && ENDED(LAST) -> break
        :: else
        fi;
        d_step {
            MUST(moved, "! no slot is stuck\n");
            moved = 0;
            printf("@ again\n");
            EACH_WORKER(SEND_AGAIN)
        }
    od
}
