// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A tree (docs/protocol.md, "A tree of switches"): workers 0 and 1 at a lower switch, which has seat 0 at the upper
// switch; worker 2 at the upper switch, with seat 1. Packets as in slot.pml. Rounds are plain numbers here.
//
// By default both switches wait for all. With LEFT_OUT the upper switch closes with one of its two, and whoever lacks a
// result that is gone gets it from another worker. With ONE_BELOW there is no worker 1. With DEAD worker 2 has died, and the others give up (FLUSH).
// WITHOUT_<RULE> takes a rule out.

#define WORKERS 3
#define SLOTS 2
#ifndef CHUNKS
#define CHUNKS 3
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef COPIES
#define COPIES 1
#endif
#include "each.pml"

#define ROUND(k) ((k) / SLOTS)
#define SLOT(k) ((k) % SLOTS)
#define BELOW 1                     // seats at the upper switch
#define BESIDE 2
#define OPEN 0
#define WAITING 1
#define CLOSED 2

#ifdef ONE_BELOW
#define PARTIAL 1
#else
#define PARTIAL 3
#endif

// Workers. `stale`: they are told that the slot of a chunk is in the round of a later one, by the later one.
byte sent[WORKERS], got[WORKERS], up[WORKERS], up_flush[WORKERS], down[WORKERS], stale[WORKERS], lost[WORKERS];
bool ended[WORKERS];
// Between the switches: partial results (and those with FLUSH), results, and STALE.
byte part, part_flush, result, stale_down;

// The lower switch. `sum` is what is really in.
bool l_used[SLOTS], l_out[SLOTS];
byte l_round[SLOTS], l_in[SLOTS], l_phase[SLOTS], l_sum[SLOTS];
// The upper switch.
bool u_used[SLOTS], u_closed[SLOTS];
byte u_round[SLOTS], u_in[SLOTS], u_sum[SLOTS], u_count[SLOTS];

// Results by chunk: who is in, how many the count says, seats at the upper switch; and the draw of merged signs. What
// the lower switch gives its workers: who is in, and the bitmap.
byte sums[CHUNKS], counts[CHUNKS], seats[CHUNKS], l_sums[CHUNKS], l_bitmaps[CHUNKS];
bool draws[CHUNKS], l_draws[CHUNKS];
byte made, incomplete, applied, drawn;

byte losses, copies;
bool moved = 1;

#define FLIES(w, k) (HAS(sent[w], k) && !HAS(got[w], k))
#ifdef WITHOUT_TURN
#define TURN(w, k) ((k) < SLOTS || HAS(got[w], (k) - SLOTS))
#else
// Also of chunks whose results came before their turn: no worker overwrites the slot of an open chunk of its own.
#define TURN(w, k) ((got[w] & (BIT(k) - 1)) == BIT(k) - 1)
#endif
#ifdef DEAD
#define LIVES(w) ((w) != 2)
#elif defined(ONE_BELOW)
#define LIVES(w) ((w) != 1)
#else
#define LIVES(w) 1
#endif

#define SEND(w, k) \
    :: d_step { LIVES(w) && !ended[w] && !HAS(sent[w] | got[w], k) && TURN(w, k) -> \
        printf("@ send %d %d\n", w, k); sent[w] = sent[w] | BIT(k); up[w] = up[w] | BIT(k) }

// The upper switch: `seat` brings `who` to chunk k.

#ifdef LEFT_OUT
#define U_COMPLETE(k) (u_in[SLOT(k)] != 0)
#else
#define U_COMPLETE(k) (u_in[SLOT(k)] == (BELOW | BESIDE))
#endif
#ifdef WITHOUT_COUNT
#define COUNT(who) 1
#else
#define COUNT(who) (((who) & 1) + ((who) >> 1 & 1) + ((who) >> 2 & 1))
#endif

inline u_close(k) {
    u_closed[SLOT(k)] = 1;
    MUST(!HAS(made, k), "! a result is made once\n");
    made = made | BIT(k);
    sums[k] = u_sum[SLOT(k)]; counts[k] = u_count[SLOT(k)]; seats[k] = u_in[SLOT(k)];
    result = result | BIT(k); down[2] = down[2] | BIT(k)
}

inline u_fold(seat, who, k) {
    MUST((u_sum[SLOT(k)] & (who)) == 0, "! a result counts each worker once\n");
    u_in[SLOT(k)] = u_in[SLOT(k)] | (seat);
    u_sum[SLOT(k)] = u_sum[SLOT(k)] | (who);
    u_count[SLOT(k)] = u_count[SLOT(k)] + COUNT(who);
    moved = 1;
    if
    :: U_COMPLETE(k) -> u_close(k)
    :: else
    fi
}

inline u_receive(seat, who, k, flush, answers, tells) {
    if
    :: !u_used[SLOT(k)] || ROUND(k) > u_round[SLOT(k)] ->
        u_used[SLOT(k)] = 1; u_round[SLOT(k)] = ROUND(k); u_closed[SLOT(k)] = 0; u_in[SLOT(k)] = 0;
        u_sum[SLOT(k)] = 0; u_count[SLOT(k)] = 0;
        u_fold(seat, who, k)
    :: u_used[SLOT(k)] && ROUND(k) < u_round[SLOT(k)] -> tells = tells | BIT(u_round[SLOT(k)] * SLOTS + SLOT(k))
    :: u_used[SLOT(k)] && ROUND(k) == u_round[SLOT(k)] ->
        if
        :: u_closed[SLOT(k)] ->
            answers = answers | BIT(k);
#ifdef WITHOUT_DRAWN_ONCE
            draws[k] = 1 - draws[k]
#endif
        :: !u_closed[SLOT(k)] && (u_in[SLOT(k)] & (seat)) != 0 ->
            if
            :: flush ->
#ifndef WITHOUT_INCOMPLETE
                incomplete = incomplete | BIT(k);
#endif
                moved = 1; u_close(k)
            :: else
            fi
        :: else -> u_fold(seat, who, k)
        fi
    fi
}

// The lower switch.

#ifdef ONE_BELOW
#define L_COMPLETE(k) 1
#else
#define L_COMPLETE(k) (l_in[SLOT(k)] == 3)
#endif

inline l_answer(w, k) {
    down[w] = down[w] | BIT(k)
}

// The quorum is in, or a FLUSH closes: the partial result goes up, and the slot waits.
inline l_close(k) {
#ifdef WITHOUT_WAITS
    l_phase[SLOT(k)] = CLOSED;
    l_sums[k] = l_sum[SLOT(k)]; l_bitmaps[k] = l_in[SLOT(k)];
    l_answer(0, k); l_answer(1, k);
#else
    l_phase[SLOT(k)] = WAITING;
#endif
    part = part | BIT(k)
}

inline l_fold(w, k) {
    MUST(!HAS(l_sum[SLOT(k)], w), "! a partial result counts each worker once\n");
    l_in[SLOT(k)] = l_in[SLOT(k)] | BIT(w);
    l_sum[SLOT(k)] = l_sum[SLOT(k)] | BIT(w);
    moved = 1;
    if
    :: L_COMPLETE(k) -> l_close(k)
    :: else
    fi
}

inline l_open(k) {
    l_used[SLOT(k)] = 1; l_round[SLOT(k)] = ROUND(k); l_phase[SLOT(k)] = OPEN; l_in[SLOT(k)] = 0; l_sum[SLOT(k)] = 0;
    l_out[SLOT(k)] = 0
}

// ASK: the partial result goes up once more.
inline l_ask(k, gives_up) {
#ifndef WITHOUT_ASK
    if
#ifndef WITHOUT_FLUSH_UP
    :: gives_up -> part_flush = part_flush | BIT(k)
#else
    :: 0
#endif
    :: else -> part = part | BIT(k)
    fi
#else
    skip
#endif
}

inline l_receive(w, k, flush) {
    if
    :: !l_used[SLOT(k)] || ROUND(k) > l_round[SLOT(k)] -> l_open(k); l_fold(w, k)
    :: l_used[SLOT(k)] && ROUND(k) < l_round[SLOT(k)] -> stale[w] = stale[w] | BIT(l_round[SLOT(k)] * SLOTS + SLOT(k))
    :: l_used[SLOT(k)] && ROUND(k) == l_round[SLOT(k)] ->
        if
        :: l_phase[SLOT(k)] == CLOSED -> l_answer(w, k)
        :: l_phase[SLOT(k)] == WAITING -> l_ask(k, flush)
        :: l_phase[SLOT(k)] == OPEN && HAS(l_in[SLOT(k)], w) ->
            if
            :: flush -> moved = 1; l_close(k)
            :: else
            fi
        :: else -> l_fold(w, k)
        fi
    fi
}

// The bitmap of this switch's workers in a result: its own, if the switch above has it in.
#ifdef WITHOUT_OWN_BITMAP
#define BITMAP(k) (seats[k])
#elif defined(WITHOUT_LEFT_OUT)
#define BITMAP(k) (l_in[SLOT(k)])
#else
#define BITMAP(k) ((seats[k] & BELOW) != 0 -> l_in[SLOT(k)] : 0)
#endif

// DOWN: the result of chunk k, in the slot's present round.
inline l_take(k) {
    l_phase[SLOT(k)] = CLOSED;
    l_sums[l_round[SLOT(k)] * SLOTS + SLOT(k)] = sums[k];
    l_bitmaps[l_round[SLOT(k)] * SLOTS + SLOT(k)] = BITMAP(k);
    l_draws[l_round[SLOT(k)] * SLOTS + SLOT(k)] = draws[k];
    down[0] = down[0] | BIT(l_round[SLOT(k)] * SLOTS + SLOT(k));
    down[1] = down[1] | BIT(l_round[SLOT(k)] * SLOTS + SLOT(k));
    moved = 1
}

inline l_result(k) {
    if
    :: !l_used[SLOT(k)] || ROUND(k) > l_round[SLOT(k)] ->
#ifndef WITHOUT_DOWN
        l_open(k); l_take(k)
#endif
    :: l_used[SLOT(k)] && ROUND(k) < l_round[SLOT(k)] ->             // KNOWN
#ifdef WITHOUT_KNOWN
        l_take(k)
#endif
    :: l_used[SLOT(k)] && ROUND(k) == l_round[SLOT(k)] ->
#ifndef WITHOUT_DOWN
        if
        :: l_phase[SLOT(k)] != CLOSED -> l_take(k)
        :: else                                                      // KNOWN
        fi
#endif
    fi
}

// STALE from above, with the round of chunk k.
inline l_stale(k) {
#ifndef WITHOUT_RELAY
    if
    :: !l_used[SLOT(k)] || ROUND(k) > l_round[SLOT(k)] -> stale[0] = stale[0] | BIT(k); stale[1] = stale[1] | BIT(k)
    :: else                                                          // KNOWN
    fi
#else
    skip
#endif
}

// Workers.

#define VALUE(w, k) ((w) == 2 -> sums[k] : l_sums[k])
#define SEES_ITSELF(w, k) ((w) == 2 -> (seats[k] & BESIDE) != 0 : HAS(l_bitmaps[k], w))
#define DRAW(w, k) ((w) == 2 -> draws[k] : l_draws[k])

#ifdef LEFT_OUT
#define MUST_BE_WHOLE(k)
#else
#define MUST_BE_WHOLE(k) \
    MUST(sums[k] == EVERYBODY, "! a result counts each worker once, and nothing else\n"); \
    MUST(counts[k] == WORKERS, "! the count says how many are in\n");
#endif
#define APPLY(w, k, value, draw) \
    got[w] = got[w] | BIT(k); moved = 1; \
    MUST((value) == sums[k], "! replicas are equal\n"); \
    MUST_BE_WHOLE(k) \
    MUST(!HAS(applied, k) || HAS(drawn, k) == (draw), "! replicas are equal in merged signs\n"); \
    applied = applied | BIT(k); \
    drawn = (drawn & ~BIT(k)) | ((draw) << (k))

#ifdef LEFT_OUT
#define WAITS_FOR(w, k) (!HAS(got[w], k))                            // also of chunks that were not sent
#else
#define WAITS_FOR(w, k) FLIES(w, k)
#endif

inline accept(w, k) {
    if
    :: WAITS_FOR(w, k) && !ended[w] ->
        if
        :: HAS(incomplete, k) -> ended[w] = 1; moved = 1             // DeadlineError
        :: else ->
            MUST(SEES_ITSELF(w, k) == HAS(VALUE(w, k), w), "! a worker sees whether it is in\n");
            APPLY(w, k, VALUE(w, k), DRAW(w, k))
        fi
    :: else
    fi
}

// A worker that hears of a later round of the slot asks the others for the result of its own chunk.
inline hear(w, k) {
    if
    :: (k) >= SLOTS && FLIES(w, (k) - SLOTS) && !HAS(lost[w], (k) - SLOTS) -> lost[w] = lost[w] | BIT((k) - SLOTS); moved = 1
    :: else
    fi
}

// Without LEFT_OUT a worker that hears of a later round knows of another run only: nobody has left it out.
#ifdef LEFT_OUT
#define OTHERS(w) ((w) == 0 -> got[1] | got[2] : ((w) == 1 -> got[0] | got[2] : got[0] | got[1]))
#define RECOVER(w, k) \
    :: d_step { HAS(lost[w] & ~got[w] & OTHERS(w), k) -> \
        printf("@ recover %d %d\n", w, k); APPLY(w, k, sums[k], draws[k]) }
#else
#define RECOVER(w, k)
#endif

// The network.

#define CARRY(set, k, name, w, action) \
    :: d_step { HAS(set, k) -> printf("@ %e %d %d\n", name, w, k); set = set & ~BIT(k); action } \
    :: d_step { HAS(set, k) && copies < COPIES -> printf("@ %e %d %d\n", name, w, k); copies++; action } \
    :: d_step { HAS(set, k) && losses < LOSSES -> \
        printf("@ lose %e %d %d\n", name, w, k); losses++; moved = 1; set = set & ~BIT(k) }
mtype = { arrive, flushed, answer, told, partial, flush_up, from_above, stale_from_above };

inline arrives(w, k, forced) {
    if
    :: w == 2 -> u_receive(BESIDE, 4, k, forced, down[2], stale[2])
    :: else -> l_receive(w, k, forced)
    fi
}

#define OF_WORKER(w, k) \
    CARRY(up[w], k, arrive, w, arrives(w, k, 0)) \
    CARRY(up_flush[w], k, flushed, w, arrives(w, k, 1)) \
    CARRY(down[w], k, answer, w, accept(w, k)) \
    CARRY(stale[w], k, told, w, hear(w, k))
#define BETWEEN_SWITCHES(OPTION, k) \
    CARRY(part, k, partial, 0, u_receive(BELOW, PARTIAL, k, 0, result, stale_down)) \
    CARRY(part_flush, k, flush_up, 0, u_receive(BELOW, PARTIAL, k, 1, result, stale_down)) \
    CARRY(result, k, from_above, 0, l_result(k)) \
    CARRY(stale_down, k, stale_from_above, 0, l_stale(k))

#define ENDED(w) (!LIVES(w) || ended[w] || got[w] == BIT(CHUNKS) - 1)
#ifdef DEAD
#define SEND_AGAIN(w) up_flush[w] = (ended[w] -> 0 : sent[w] & ~got[w]);
#else
#define SEND_AGAIN(w) up[w] = sent[w] & ~got[w];
#endif

active proctype network() {
    do
    FOR_EACH(SEND)
    FOR_EACH(OF_WORKER)
    EACH_CHUNK(BETWEEN_SWITCHES, )
    FOR_EACH(RECOVER)
    :: else ->
        if
        :: ENDED(0) && ENDED(1) && ENDED(2) -> break
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
