// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs that begin anew (docs/protocol.md, "Runs"; host/sumwire/job/joining.py and greeting.py): two workers whose processes
// are killed and started again at any moment.
//
// A run has 3 chunks in its first round, one for each slot: nonces, digests, data; then data only. A process sends one
// chunk at a time, again and again until it has the result, so its packet can arrive at any moment. The nonce of a process
// is its number: how often its worker was started. Of each worker the network may keep one packet that is out of date,
// and hand it over at any time and often. With OTHERS slot 2 holds what another owner has left there.
// With SAFE only sums are looked at, not whether all come together.
//
// WITHOUT_<RULE> takes a rule out.

#define WORKERS 2
#define CHUNKS 3
#ifndef KILLS
#define KILLS 1
#endif
#include "each.pml"

#define SLOTS 3
// From the newest round of earlier runs to a new run's first (16 in the real protocol, where the spread is 12).
#ifdef WITHOUT_APART
#define APART 1
#else
#define APART 3
#endif
// A run begins in a multiple of it.
#ifdef WITHOUT_MULTIPLES
#define LATER(r) ((r) + APART)
#define FIRST_FROM(r) (r)
#else
#define LATER(r) (((r) + APART - 1) / APART * APART + APART)
#define FIRST_FROM(r) ((r) % APART == 0 -> (r) : LATER(r))
#endif
#ifndef ROUNDS
#define ROUNDS 16
#endif
#define ROUND(p) ((p) / SLOTS)
#define SLOT(p) ((p) % SLOTS)
#ifndef RESULTS
#define RESULTS 2                   // of data, then a process wants no more
#endif

// What a process does: it asks for slot 0, greets, is in a run.
#define ASKS 0
#define GREETS 1
#define RUNS 2
// What it sends. Data has the run's token, which a greeting has not; every step of a greeting has a bucket of its own.
#define NONCES 1
#define DIGESTS 2
#define DATA 3
#ifdef WITHOUT_TOKEN
#define CALL(step) 0
#elif defined(WITHOUT_BUCKETS)
#define CALL(step) ((step) == DATA)
#else
#define CALL(step) (step)
#endif

// Processes. `base`: the run's first round. `least`: it is not before this one. `peer`: the other process, by its nonce.
byte number[WORKERS], does[WORKERS], base[WORKERS], place[WORKERS], least[WORKERS], peer[WORKERS], data[WORKERS];
// The nonces that a process has seen in the greeting's first result.
byte seen[WORKERS];
// Packets that are out of date: place (0 for none, else + 1), step, number of the process, digest.
byte old_place[WORKERS], old_step[WORKERS], old_number[WORKERS], old_digest[WORKERS];

// The switch: for each slot and worker the process and its digest, 0 if it is not in.
bool used[SLOTS], closed[SLOTS], foreign[SLOTS];
byte round[SLOTS], call[SLOTS], who[SLOTS * WORKERS], digest[SLOTS * WORKERS], step[SLOTS * WORKERS];

// The first round, + 1, in which a process has last found its own nonce.
byte found[WORKERS * 8];
byte kills;

#define OTHER(w) (1 - (w))
#define STEP(w) (SLOT(place[w]) == 0 && ROUND(place[w]) == base[w] -> NONCES : \
    (SLOT(place[w]) == 1 && ROUND(place[w]) == base[w] -> DIGESTS : DATA))
#define AT(s, w) ((s) * WORKERS + (w))
#define S(w) SLOT(place[w])

#ifdef WITHOUT_GENERATION
#define IS_FOREIGN(s) 0
#else
#define IS_FOREIGN(s) foreign[s]
#endif
#define FRESH(p) (!used[SLOT(p)] || IS_FOREIGN(SLOT(p)) || ROUND(p) > round[SLOT(p)])
#define SAME_ROUND(p) (!FRESH(p) && ROUND(p) == round[SLOT(p)])
#define OPEN(p, its, w) (SAME_ROUND(p) && !closed[SLOT(p)] && call[SLOT(p)] == CALL(its) && who[AT(SLOT(p), w)] == 0)
#define CHANGES(p, its, w) (FRESH(p) || OPEN(p, its, w))

#define RECEIVE(w, p, its, sender, vouches) \
    if \
    :: FRESH(p) -> \
        used[SLOT(p)] = 1; foreign[SLOT(p)] = 0; round[SLOT(p)] = ROUND(p); call[SLOT(p)] = CALL(its); \
        who[AT(SLOT(p), 0)] = 0; who[AT(SLOT(p), 1)] = 0 \
    :: else \
    fi; \
    who[AT(SLOT(p), w)] = sender; digest[AT(SLOT(p), w)] = vouches; step[AT(SLOT(p), w)] = its; \
    closed[SLOT(p)] = who[AT(SLOT(p), 0)] != 0 && who[AT(SLOT(p), 1)] != 0

#define ARRIVE(w) \
    :: d_step { does[w] != ASKS && data[w] < RESULTS && CHANGES(place[w], STEP(w), w) -> \
        printf("@ arrive %d %d\n", w, place[w]); RECEIVE(w, place[w], STEP(w), number[w], seen[w]) }
#define ARRIVE_LATE(w) \
    :: d_step { old_place[w] != 0 && CHANGES(old_place[w] - 1, old_step[w], w) -> \
        printf("@ late %d %d\n", w, old_place[w] - 1); \
        RECEIVE(w, (old_place[w] - 1), old_step[w], old_number[w], old_digest[w]) }

// HELLO about slot 0: where the run begins.
#define IN_SLOT_0(w) (who[AT(0, w)] != 0)
#ifdef WITHOUT_JOIN
#define JOINS(w) 0
#else
#define JOINS(w) (!IN_SLOT_0(w) && !closed[0])
#endif
#define CHOSEN(w) (!used[0] || IS_FOREIGN(0) -> least[w] : (least[w] > round[0] -> least[w] : \
    (JOINS(w) -> FIRST_FROM(round[0]) : LATER(round[0]))))
#define ASK(w) \
    :: d_step { does[w] == ASKS -> \
        base[w] = CHOSEN(w); printf("@ greet %d %d\n", w, base[w]); \
        MUST(base[w] < ROUNDS, "! greetings come to an end\n"); \
        place[w] = base[w] * SLOTS; peer[w] = 0; seen[w] = 0; does[w] = GREETS }

// The process leaves where it is. The network may keep its packet.
#define KEEP(w) old_place[w] = place[w] + 1; old_step[w] = STEP(w); old_number[w] = number[w]; old_digest[w] = seen[w]
#define LEAVE(w, from) least[w] = from; does[w] = ASKS
#define END(w) number[w] = number[w] + 1; data[w] = 0; LEAVE(w, 0)

#ifdef WITHOUT_AGAIN
#define AGAIN 0
#else
#define AGAIN 1
#endif
#define SPOILED(w) LEAVE(w, LATER(base[w]))
#ifdef WITHOUT_NONCES
#define OWN_NONCE(w) 1
#else
#define OWN_NONCE(w) (who[AT(S(w), w)] == number[w])
#endif
#define EQUAL_DIGESTS(w) (digest[AT(S(w), 0)] == seen[w] && digest[AT(S(w), 1)] == seen[w])
#define JOIN(w) \
    MUST(found[OTHER(w) * 8 + peer[w]] == base[w] + 1, \
         "! exactly the processes that have found their nonces make the run\n"); \
    does[w] = RUNS
#ifdef WITHOUT_DIGESTS
#define AFTER_NONCES(w) JOIN(w); place[w] = place[w] + 2
#else
#define AFTER_NONCES(w) place[w] = place[w] + 1
#endif
#define HAS_RESULT(w) (does[w] != ASKS && data[w] < RESULTS && SAME_ROUND(place[w]) && closed[S(w)] && \
    call[S(w)] == CALL(STEP(w)))

#define TAKE_NONCES(w) \
    :: d_step { HAS_RESULT(w) && STEP(w) == NONCES && OWN_NONCE(w) -> \
        printf("@ nonces %d\n", w); \
        peer[w] = who[AT(S(w), OTHER(w))]; seen[w] = who[AT(S(w), 0)] * 8 + who[AT(S(w), 1)]; \
        if \
        :: who[AT(S(w), w)] == number[w] -> found[w * 8 + number[w]] = base[w] + 1 \
        :: else \
        fi; \
        AFTER_NONCES(w) } \
    :: d_step { HAS_RESULT(w) && STEP(w) == NONCES && !OWN_NONCE(w) && AGAIN -> printf("@ spoiled %d\n", w); SPOILED(w) }
#define TAKE_DIGESTS(w) \
    :: d_step { HAS_RESULT(w) && STEP(w) == DIGESTS && EQUAL_DIGESTS(w) -> \
        printf("@ joined %d\n", w); \
        JOIN(w); place[w] = place[w] + 1 } \
    :: d_step { HAS_RESULT(w) && STEP(w) == DIGESTS && !EQUAL_DIGESTS(w) && AGAIN -> printf("@ spoiled %d\n", w); SPOILED(w) }
#define IS_OF(w) (who[AT(S(w), w)] == number[w] && who[AT(S(w), OTHER(w))] == peer[w] && \
    step[AT(S(w), 0)] == DATA && step[AT(S(w), 1)] == DATA)
#define TAKE_DATA(w) \
    :: d_step { HAS_RESULT(w) && STEP(w) == DATA -> \
        printf("@ data %d\n", w); \
        MUST(IS_OF(w), "! a sum is of exactly the processes of its run\n"); \
        data[w] = data[w] + 1; place[w] = place[w] + 1 }
// REFUSED: the slot's round is of another call.
#define REFUSED(w) \
    :: d_step { does[w] == GREETS && SAME_ROUND(place[w]) && call[S(w)] != CALL(STEP(w)) && AGAIN -> \
        printf("@ refused %d\n", w); SPOILED(w) }
// STALE, or a HELLO that shows a newer run: whoever greets goes there, whoever runs ends and is started again.
#define IS_STALE(w) (used[S(w)] && !IS_FOREIGN(S(w)) && round[S(w)] > ROUND(place[w]))
#ifdef WITHOUT_NEWEST
#define HEARS(w) 0
#else
#define HEARS(w) (used[0] && !IS_FOREIGN(0) && round[0] > base[w] + APART - 1)
#endif
#define HEAR(w) \
    :: d_step { does[w] == GREETS && (HEARS(w) || (S(w) == 0 && IS_STALE(w))) -> \
        printf("@ hears %d %d\n", w, round[0]); KEEP(w); LEAVE(w, FIRST_FROM(round[0])) } \
    :: d_step { does[w] == GREETS && S(w) != 0 && IS_STALE(w) -> \
        printf("@ stale %d\n", w); KEEP(w); LEAVE(w, LATER(base[w])) }
#ifdef WITHOUT_STALE_RUN
#define ENDS(w) 0
#else
#define ENDS(w) (does[w] == RUNS && (IS_STALE(w) || (HEARS(w) && round[0] > ROUND(place[w]) + 1)))
#endif
#define END_STALE(w) :: d_step { ENDS(w) && number[w] < 6 -> printf("@ ends %d\n", w); KEEP(w); END(w) }
#define KILL(w) \
    :: d_step { does[w] != ASKS && kills < KILLS && data[0] < RESULTS && data[1] < RESULTS -> \
        printf("@ kill %d\n", w); kills++; KEEP(w); END(w) } \
    :: d_step { does[w] != ASKS && kills < KILLS && data[0] < RESULTS && data[1] < RESULTS -> printf("@ kill %d\n", w); kills++; END(w) }

#define TOGETHER (does[0] == RUNS && does[1] == RUNS && data[0] == RESULTS && data[1] == RESULTS && seen[0] == seen[1])

active proctype processes() {
    d_step {
        number[0] = 1; number[1] = 1;
#ifdef OTHERS
        used[2] = 1; foreign[2] = 1; call[2] = CALL(DATA); who[AT(2, 0)] = 7; step[AT(2, 0)] = DATA
#endif
    }
    do
    EACH_WORKER(ASK)
    EACH_WORKER(ARRIVE)
    EACH_WORKER(ARRIVE_LATE)
    EACH_WORKER(TAKE_NONCES)
    EACH_WORKER(TAKE_DIGESTS)
    EACH_WORKER(TAKE_DATA)
    EACH_WORKER(REFUSED)
    EACH_WORKER(HEAR)
    EACH_WORKER(END_STALE)
    EACH_WORKER(KILL)
    :: else ->
#ifndef SAFE
        MUST(TOGETHER, "! all live processes end in one run\n");
#endif
        break
    od
}
