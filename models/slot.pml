// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The slot protocol of one switch (docs/protocol.md; p4src/include/control/slot.p4, host/sumwire/transport/scheduling.py).
//
// A packet is a bit: it is in the network or not. The network loses LOSSES packets and hands over COPIES packets while
// it keeps them, in any order. With FOREVER it keeps every packet that was ever sent: any number of losses, of copies,
// and any delay.
//
// With PROMPT, and without losses, no worker may have to send anything again.
// WITHOUT_<RULE> takes a rule out.

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef CHUNKS
#define CHUNKS 5
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef COPIES
#define COPIES 1
#endif
#include "each.pml"

// Rounds are counted modulo 8, and begin just before the end.
#define ROUNDS 8
#define ROUND(k) ((6 + (k) / SLOTS) % ROUNDS)
#define SLOT(k) ((k) % SLOTS)
// Half of the slots; the other half, which is more for an odd number.
#define SHORT (SLOTS / 2)
#define LONG (SLOTS - SHORT)
// A chunk is sent only when all chunks so many rounds before have their results (12 in the real protocol).
#define SPREAD 1

#ifdef WITHOUT_SERIAL
#define NEWER(a, b) ((a) > (b))
#else
#define NEWER(a, b) ((a) != (b) && ((a) - (b) + ROUNDS) % ROUNDS < ROUNDS / 2)
#endif

// Worker 1 calls something else in chunk 1, with CALLS.
#ifdef CALLS
#define CALL(w, k) ((w) == 1 && (k) == 1)
#else
#define CALL(w, k) 0
#endif

// By worker: chunks that were sent, that have their results, and packets to and from the switch.
short sent[WORKERS], got[WORKERS], up[WORKERS], down[WORKERS];
bool refused[WORKERS];

// The switch.
bool used[SLOTS], closed[SLOTS], call[SLOTS];
byte round[SLOTS], in[SLOTS];

// What is really in the sums: who, contributions to which chunk, and whether anything is in twice or does not belong.
byte sum[SLOTS], chunk[SLOTS];
bool bad[SLOTS];
short made;

byte losses, copies;
bool moved = 1;

#ifdef WITHOUT_TURN
#define TURN(w, k) ((k) < SLOTS || HAS(got[w], (k) - SLOTS))
#else
#ifdef WITHOUT_TURN_SHORT
#define TURN_SHORT(w, k) 1
#else
#define TURN_SHORT(w, k) ((k) < SHORT || HAS(got[w], (k) - SHORT))
#endif
#ifdef WITHOUT_TURN_LONG
#define TURN_LONG(w, k) 1
#else
#define TURN_LONG(w, k) ((k) < LONG || HAS(got[w], (k) - LONG))
#endif
#define TURN(w, k) (TURN_SHORT(w, k) && TURN_LONG(w, k))
#endif

#define UNTIL(k) (BIT((k) + 1) - 1)
#ifdef WITHOUT_SPREAD
#define NEAR(w, k) 1
#else
#define NEAR(w, k) ((k) < SPREAD * SLOTS || (got[w] & UNTIL((k) - SPREAD * SLOTS)) == UNTIL((k) - SPREAD * SLOTS))
#endif

// Whoever looks at slot 0 knows in which rounds packets can be (a new run begins beyond them).
#define SEEN_IN_SLOT_0(k) ((k) / SLOTS - (used[0] -> chunk[0] / SLOTS : -1) <= SPREAD + 1)

#define SEND(w, k) \
    :: d_step { !HAS(sent[w], k) && !refused[w] && TURN(w, k) && NEAR(w, k) -> \
        printf("@ send %d %d\n", w, k); \
        MUST(SEEN_IN_SLOT_0(k), "! slot 0 shows in which rounds packets can be\n"); \
        sent[w] = sent[w] | BIT(k); up[w] = up[w] | BIT(k) }

inline open_round(w, k) {
    used[SLOT(k)] = 1; closed[SLOT(k)] = 0; round[SLOT(k)] = ROUND(k); in[SLOT(k)] = 0; call[SLOT(k)] = CALL(w, k);
#ifndef WITHOUT_OVERWRITE
    sum[SLOT(k)] = 0; bad[SLOT(k)] = 0;
#endif
    chunk[SLOT(k)] = k
}

inline fold(w, k) {
    if
    :: HAS(sum[SLOT(k)], w) || chunk[SLOT(k)] != k || call[SLOT(k)] != CALL(w, k) -> bad[SLOT(k)] = 1
    :: else
    fi;
    sum[SLOT(k)] = sum[SLOT(k)] | BIT(w);
    in[SLOT(k)] = in[SLOT(k)] | BIT(w);
    moved = 1
}

#ifdef WITHOUT_QUORUM
#define COMPLETE(k) 1
#else
#define COMPLETE(k) (in[SLOT(k)] == EVERYBODY)
#endif

#define ANSWER(w, k) down[w] = down[w] | BIT(k);

// The sum is complete: it counts each worker once, nothing else, and is made once.
inline close_if_complete(w, k) {
    if
    :: COMPLETE(k) ->
        closed[SLOT(k)] = 1;
        MUST(!bad[SLOT(k)] && sum[SLOT(k)] == EVERYBODY, "! a result counts each worker once, and nothing else\n");
        MUST(!HAS(made, k), "! a result is made once\n");
        made = made | BIT(k);
        ANSWER(w, k)
#ifndef WITHOUT_TO_ALL
        EACH_OF_WORKERS(ANSWER, k)
#endif
    :: else
    fi
}

#ifdef WITHOUT_NEWER
#define IS_FRESH(k) (!used[SLOT(k)])
#else
#define IS_FRESH(k) (!used[SLOT(k)] || NEWER(ROUND(k), round[SLOT(k)]))
#endif
#ifdef WITHOUT_OLDER
#define OVERWRITES(k) (IS_FRESH(k) || round[SLOT(k)] != ROUND(k))
#else
#define OVERWRITES(k) IS_FRESH(k)
#endif
#ifdef WITHOUT_CALL
#define IS_OF_ANOTHER_CALL(w, k) 0
#else
#define IS_OF_ANOTHER_CALL(w, k) (call[SLOT(k)] != CALL(w, k))
#endif

// The verdict on worker w's contribution to chunk k.
inline receive(w, k) {
    if
    :: OVERWRITES(k) -> open_round(w, k); fold(w, k); close_if_complete(w, k)   // FIRST
    :: else ->
        if
        :: round[SLOT(k)] != ROUND(k)                              // STALE
        :: round[SLOT(k)] == ROUND(k) && IS_OF_ANOTHER_CALL(w, k) -> refused[w] = 1; moved = 1
        :: round[SLOT(k)] == ROUND(k) && !IS_OF_ANOTHER_CALL(w, k) && closed[SLOT(k)] ->
#ifndef WITHOUT_DUPLICATE
            ANSWER(w, k)
#endif
        :: round[SLOT(k)] == ROUND(k) && !IS_OF_ANOTHER_CALL(w, k) && !closed[SLOT(k)] ->
            if
#ifndef WITHOUT_REPEAT
            :: HAS(in[SLOT(k)], w)                                 // REPEAT
#else
            :: 0
#endif
            :: else -> fold(w, k); close_if_complete(w, k)         // ADD or LAST
            fi
        fi
    fi
}

#ifdef FOREVER
#define ARRIVE(w, k) :: d_step { HAS(up[w], k) -> printf("@ arrive %d %d\n", w, k); receive(w, k) }
#define RESULT(w, k) :: d_step { HAS(down[w], k) -> printf("@ result %d %d\n", w, k); accept(w, k) }
#define LOSE(w, k)
#else
#define ARRIVE(w, k) \
    :: d_step { HAS(up[w], k) -> \
        printf("@ arrive %d %d\n", w, k); up[w] = up[w] & ~BIT(k); receive(w, k) } \
    :: d_step { HAS(up[w], k) && copies < COPIES -> \
        printf("@ arrive %d %d\n", w, k); copies++; receive(w, k) }
#define RESULT(w, k) \
    :: d_step { HAS(down[w], k) -> \
        printf("@ result %d %d\n", w, k); down[w] = down[w] & ~BIT(k); accept(w, k) } \
    :: d_step { HAS(down[w], k) && copies < COPIES -> \
        printf("@ result %d %d\n", w, k); copies++; accept(w, k) }
#define LOSE(w, k) \
    :: d_step { HAS(up[w], k) && losses < LOSSES -> \
        printf("@ lose_up %d %d\n", w, k); losses++; moved = 1; up[w] = up[w] & ~BIT(k) } \
    :: d_step { HAS(down[w], k) && losses < LOSSES -> \
        printf("@ lose_down %d %d\n", w, k); losses++; moved = 1; down[w] = down[w] & ~BIT(k) }
#endif

#define FLIES(w, k) (HAS(sent[w], k) && !HAS(got[w], k))

#define SEND_AGAIN(w) up[w] = sent[w] & ~got[w];
// At most half of the slots are in flight, so at most one chunk of a slot.
#define NOTHING 255
#define EARLIER(w, k, before) ((k) >= (before) && FLIES(w, (k) - (before)) -> (k) - (before) : NOTHING)
#define LATER(w, k, after) ((k) + (after) < CHUNKS && FLIES(w, (k) + (after)) -> (k) + (after) : EARLIER(w, k, after))
#define FLYING_IN_SLOT(w, k) (FLIES(w, k) -> (k) : LATER(w, k, SLOTS))

// Worker w gets the result of chunk k.
inline accept(w, k) {
#ifndef WITHOUT_MATCH
    if
    :: FLIES(w, k) -> got[w] = got[w] | BIT(k); moved = 1
    :: else                                                        // it has this result
    fi
#else
    if
    :: FLYING_IN_SLOT(w, k) != NOTHING ->
        MUST(FLYING_IN_SLOT(w, k) == k, "! replicas are equal\n");
        got[w] = got[w] | BIT(FLYING_IN_SLOT(w, k)); moved = 1
    :: else
    fi
#endif
}

#define ALL_CHUNKS (BIT(CHUNKS) - 1)
#ifdef CALLS
#define ENDED(w) (got[w] == ALL_CHUNKS || refused[1] || refused[0])
#else
#define ENDED(w) (got[w] == ALL_CHUNKS)
#endif

active proctype network() {
    do
    FOR_EACH(SEND)
    FOR_EACH(ARRIVE)
    FOR_EACH(RESULT)
    FOR_EACH(LOSE)
    :: else ->
        if
        :: ENDED(0) && ENDED(1) && ENDED(WORKERS - 1) -> break
        :: else
        fi;
        // Nothing is on its way: all timers expire.
        d_step {
#ifdef PROMPT
            MUST(0, "! where nothing is lost, nothing is sent again\n");
#endif
            MUST(moved, "! no slot is stuck\n");
            moved = 0;
#ifndef WITHOUT_RETRANSMISSION
            printf("@ again\n");
            EACH_WORKER(SEND_AGAIN)
#endif
        }
    od
}
