// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A run's token (docs/protocol.md, "Runs"): two workers in a run whose switch forgets all its slots at any moment, and
// their next run after that. A slot may close before all are in, as with a loss bound.
//
// The network keeps every packet for ever, so each can be lost, come late or come again. Greetings are one step here, with
// the run that they make or without one: renewal.pml has their own. What has opened a run may come
// once more and close its slots again, as by a quorum of one.
//
// WITHOUT_<RULE> takes a rule out.

#define WORKERS 2
#ifndef CHUNKS
#define CHUNKS 4
#endif
#ifndef STOPS
#define STOPS 1
#endif
#ifndef RUNS
#define RUNS 2
#endif
#ifndef GREETINGS
#define GREETINGS 0
#endif
#include "each.pml"

#define SLOTS 2
#define APART 3
// The opening takes slot 0 only; slot 1 is of the run with its first contribution.
#define ROUND(r, k) (base[(r) - 1] + 1 + (k) / SLOTS)
#define SLOT(k) ((k) % SLOTS)
#define PLACE(r, k) (((r) - 1) * CHUNKS + (k))
#define ALL ((1 << CHUNKS) - 1)

// Workers: the run that each is in, 1 or 2; the results that it has; whether it has lost its switch.
byte now[WORKERS], got[WORKERS];
bool ended[WORKERS];
byte base[RUNS];
// The network: who has sent a chunk of a run, who has sent it with FLUSH, and the results, each a set of sums.
byte sent[RUNS * CHUNKS], flushed[RUNS * CHUNKS];
short results[RUNS * CHUNKS];
// The first result of a chunk that a worker has taken, + 1.
byte first[RUNS * CHUNKS];

// The switch: the job's run, 0 for none, and its first round; what each slot has. A sum is kept as the runs of the two
// contributions, 0 for none.
byte known, opened, generation;
// By run: the generation that its opening names.
byte named[RUNS];
bool used[SLOTS], closed[SLOTS];
byte owner[SLOTS], round[SLOTS], in_0[SLOTS], in_1[SLOTS];
byte stops, greetings;

#define SUM(s) (in_0[s] * (RUNS + 1) + in_1[s])
#define SUMS ((RUNS + 1) * (RUNS + 1))
#define FIRST_OF(sum) ((sum) / (RUNS + 1))
#define SECOND_OF(sum) ((sum) % (RUNS + 1))

#ifdef WITHOUT_TOKEN
#define ADMITTED(r, k) 1
#else
#ifdef WITHOUT_OPENING
#define IS_JOBS(r) (known == (r) || known == 0)
#else
#define IS_JOBS(r) (known == (r))
#endif
#define ADMITTED(r, k) (used[SLOT(k)] && owner[SLOT(k)] == (r) -> ROUND(r, k) <= round[SLOT(k)] + 1 : \
    (IS_JOBS(r) && (ROUND(r, k) == opened || ROUND(r, k) == opened + 1)))
#endif
#ifdef WITHOUT_BEHIND
#define FRESH(r, k) (!used[SLOT(k)] || ROUND(r, k) > round[SLOT(k)] || owner[SLOT(k)] != (r))
#else
#define FRESH(r, k) (!used[SLOT(k)] || ROUND(r, k) > round[SLOT(k)])
#endif
#ifdef WITHOUT_TOKEN
#define IS_OWN(r, k) 1
#else
#define IS_OWN(r, k) (owner[SLOT(k)] == (r))
#endif
#define OPEN(r, k) (used[SLOT(k)] && IS_OWN(r, k) && ROUND(r, k) == round[SLOT(k)] && !closed[SLOT(k)])
#define IN(w, s) (w == 0 -> in_0[s] : in_1[s])
#define TAKES(w, r, k) (ADMITTED(r, k) && (FRESH(r, k) || (OPEN(r, k) && IN(w, SLOT(k)) == 0)))

inline fold(w, r, k) {
    if
    :: FRESH(r, k) ->
        used[SLOT(k)] = 1; owner[SLOT(k)] = r; round[SLOT(k)] = ROUND(r, k); closed[SLOT(k)] = 0;
        in_0[SLOT(k)] = 0; in_1[SLOT(k)] = 0
    :: else
    fi;
    if
    :: w == 0 -> in_0[SLOT(k)] = r
    :: else -> in_1[SLOT(k)] = r
    fi;
    if
    :: in_0[SLOT(k)] != 0 && in_1[SLOT(k)] != 0 -> close_slot(r, k)
    :: else
    fi
}

inline close_slot(r, k) {
    closed[SLOT(k)] = 1; results[PLACE(r, k)] = results[PLACE(r, k)] | BIT(SUM(SLOT(k)))
}

// A chunk's turn comes with the result of the one before. Sending it again is the same packet.
#define SEND(w, k) \
    :: d_step { !ended[w] && !HAS(got[w], k) && (got[w] & (BIT(k) - 1)) == BIT(k) - 1 && \
                !HAS(sent[PLACE(now[w], k)], w) -> \
        printf("@ send %d %d\n", w, k); sent[PLACE(now[w], k)] = sent[PLACE(now[w], k)] | BIT(w) }
#define SEND_FLUSH(w, k) \
    :: d_step { !ended[w] && HAS(sent[PLACE(now[w], k)], w) && !HAS(got[w], k) && !HAS(flushed[PLACE(now[w], k)], w) -> \
        printf("@ flush %d %d\n", w, k); flushed[PLACE(now[w], k)] = flushed[PLACE(now[w], k)] | BIT(w) }
#define ARRIVE_OF(w, r, k) \
    :: d_step { HAS(sent[PLACE(r, k)], w) && TAKES(w, r, k) -> \
        printf("@ arrive %d %d %d\n", w, r, k); fold(w, r, k) } \
    :: d_step { HAS(flushed[PLACE(r, k)], w) && ADMITTED(r, k) && OPEN(r, k) && IN(w, SLOT(k)) != 0 -> \
        printf("@ flushes %d %d %d\n", w, r, k); close_slot(r, k) }
#if RUNS == 2
#define ARRIVE(w, k) ARRIVE_OF(w, 1, k) ARRIVE_OF(w, 2, k)
#else
#define ARRIVE(w, k) ARRIVE_OF(w, 1, k)
#endif

#define IS_OF(sum, r) \
    ((FIRST_OF(sum) == 0 || FIRST_OF(sum) == (r)) && (SECOND_OF(sum) == 0 || SECOND_OF(sum) == (r)))
inline take(w, k, sum) {
    printf("@ result %d %d %d\n", w, k, sum);
    MUST(IS_OF(sum, now[w]), "! a sum is of one run\n");
    MUST(first[PLACE(now[w], k)] == 0 || first[PLACE(now[w], k)] == sum + 1, "! replicas are equal\n");
    first[PLACE(now[w], k)] = sum + 1;
    got[w] = got[w] | BIT(k)
}
#define TAKE_SUM(w, k, sum) \
    :: d_step { !ended[w] && HAS(sent[PLACE(now[w], k)], w) && !HAS(got[w], k) && \
                HAS(results[PLACE(now[w], k)], sum) -> take(w, k, sum) }
#if RUNS == 2
#define TAKE(w, k) \
    TAKE_SUM(w, k, 1) TAKE_SUM(w, k, 2) TAKE_SUM(w, k, 3) TAKE_SUM(w, k, 4) \
    TAKE_SUM(w, k, 5) TAKE_SUM(w, k, 6) TAKE_SUM(w, k, 7) TAKE_SUM(w, k, 8)
#else
#define TAKE(w, k) TAKE_SUM(w, k, 1) TAKE_SUM(w, k, 2) TAKE_SUM(w, k, 3)
#endif

// A worker hears that its run is not the job's, or that the slot's round is past its own.
#define IS_REFUSED(w, k) (!ADMITTED(now[w], k) || (!FRESH(now[w], k) && ROUND(now[w], k) < round[SLOT(k)]))
#define END(w, k) \
    :: d_step { !ended[w] && HAS(sent[PLACE(now[w], k)], w) && !HAS(got[w], k) && IS_REFUSED(w, k) -> \
        printf("@ ends %d\n", w); ended[w] = 1 }

inline forget() {
    stops++; generation++;
    used[0] = 0; used[1] = 0; closed[0] = 0; closed[1] = 0; owner[0] = 0; owner[1] = 0; round[0] = 0; round[1] = 0;
    in_0[0] = 0; in_0[1] = 0; in_1[0] = 0; in_1[1] = 0;
#ifndef WITHOUT_FORGETS_RUN
    known = 0; opened = 0
#endif
}

// Packets of an opening that come again, where slot 0 has no newer round.
#ifdef WITHOUT_GENERATION
#define NAMES_IT(r) 1
#else
#define NAMES_IT(r) (named[(r) - 1] == generation)
#endif
#define REOPEN(r) \
    :: d_step { now[0] >= r && known != (r) && NAMES_IT(r) && (!used[0] || base[(r) - 1] > round[0]) -> \
        printf("@ reopens %d\n", r); known = (r); opened = base[(r) - 1]; \
        used[0] = 1; closed[0] = 1; owner[0] = (r); round[0] = opened; in_0[0] = 0; in_1[0] = 0 }

inline open_run(r) {
    base[r - 1] = (used[0] -> round[0] + APART : 0);
    known = r; opened = base[r - 1]; named[r - 1] = generation;
    used[0] = 1; closed[0] = 1; owner[0] = r; round[0] = opened; in_0[0] = 0; in_1[0] = 0;
    now[0] = r; now[1] = r; got[0] = 0; got[1] = 0; ended[0] = 0; ended[1] = 0
}

// A process that has started again greets in slot 0, and the run goes on without it.
inline greet() {
    greetings++;
    round[0] = (used[0] -> round[0] + APART : 0);
    used[0] = 1; closed[0] = 1; owner[0] = 0; in_0[0] = 0; in_1[0] = 0
}

active proctype workers() {
    d_step { open_run(1) }
    do
    FOR_EACH(SEND)
    FOR_EACH(SEND_FLUSH)
    FOR_EACH(ARRIVE)
    FOR_EACH(TAKE)
    FOR_EACH(END)
    :: d_step { stops < STOPS -> printf("@ forget\n"); forget() }
    :: d_step { greetings < GREETINGS -> printf("@ greets\n"); greet() }
    REOPEN(1)
#if RUNS == 2
    REOPEN(2)
    :: d_step { ended[0] && ended[1] && now[0] == 1 -> printf("@ opens 2\n"); open_run(2) }
#endif
    :: else ->
        MUST((ended[0] || got[0] == ALL) && (ended[1] || got[1] == ALL), "! no worker is stuck\n");
        break
    od
}
