// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The agreed fall-back and the return (docs/protocol.md, "Fall-back and return"; host/sumwire/job/agreement.py, member.py,
// control.py and agreed_fallback.py). The switch is a place where contributions meet; it may stop and start again empty.
// A round is: each rank sends its standing when it likes, and when all have, each follows the decision when it likes.
//
// WITHOUT_<RULE> takes a rule out.

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 3
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RETURNS
#define RETURNS 1
#endif
#define CHUNKS 3
#include "each.pml"

#define NETWORK 0
#define HALTING 1
#define FALLBACK 2
#define HOLDING 3
#define RETURNING 4

#define NO_DECISION 0
#define HALT 1
#define FALL_BACK 2
#define HOLD 3
#define LIMIT 4
#define RETURN 5
#define DONE 6

#define NO_LIMIT 100
// How a result was made: by the switch in a run, or by the process group.
#define BY_GROUP 9
#define BY_RUN(run) (1 + (run))

// Ranks.
byte completed[WORKERS], first[WORKERS], limit[WORKERS], times[WORKERS], begun[WORKERS];
bool working[WORKERS], in_network[WORKERS], network[WORKERS], halting[WORKERS], lost[WORKERS], stalled[WORKERS];
bool ended[WORKERS], waits_in_group[WORKERS];
// A round: who has sent, what, and who has yet to follow.
byte have_sent, to_follow, decision, operation, phase;
byte t_completed[WORKERS];
bool t_working[WORKERS], t_halted[WORKERS], t_lost[WORKERS], t_stalled[WORKERS], t_sees[WORKERS];
bool news;

// The switch: contributions by place, and of which operation they are.
bool up = 1, gone;
byte crashes, given[OPERATIONS * (RETURNS + 2)], call[OPERATIONS * (RETURNS + 2)];
// The process group: who has entered the collective of an operation. And how each result was made.
byte entered[OPERATIONS], made[OPERATIONS];

// Where a rank's operation meets the others': after a greeting all count alike again.
#ifdef WITHOUT_GREETING
#define PLACE(w) (begun[w] - 1)
#else
#define PLACE(w) (times[w] * OPERATIONS + completed[w])
#endif
#define STARTED(w) (completed[w] + working[w])

inline finish(w, how) {
    MUST(made[completed[w]] == 0 || made[completed[w]] == (how), "! replicas are equal\n");
    made[completed[w]] = how;
    completed[w] = completed[w] + 1; working[w] = 0; news = 1
}

#define BEGIN(w) \
    :: d_step { !ended[w] && !working[w] && completed[w] < OPERATIONS && completed[w] < limit[w] -> \
        printf("@ begin %d\n", w); \
        working[w] = 1; in_network[w] = network[w]; begun[w] = begun[w] + network[w]; news = 1 }
#define CONTRIBUTE(w) \
    :: d_step { in_network[w] && up && !HAS(given[PLACE(w)], w) -> \
        printf("@ contribute %d\n", w); \
        MUST(given[PLACE(w)] == 0 || call[PLACE(w)] == completed[w], "! a sum is of one operation\n"); \
        call[PLACE(w)] = completed[w]; given[PLACE(w)] = given[PLACE(w)] | BIT(w) }
#define GET(w) \
    :: d_step { in_network[w] && up && given[PLACE(w)] == EVERYBODY -> \
        printf("@ result %d\n", w); in_network[w] = 0; stalled[w] = 0; finish(w, BY_RUN(times[w])) }
#define LOSE(w) \
    :: d_step { in_network[w] && !up && !lost[w] -> \
        printf("@ lose %d\n", w); in_network[w] = 0; stalled[w] = 0; lost[w] = 1; news = 1 }
#define STALL(w) \
    :: d_step { in_network[w] && up && !stalled[w] && HAS(given[PLACE(w)], w) && given[PLACE(w)] != EVERYBODY -> \
        printf("@ stall %d\n", w); stalled[w] = 1; news = 1 }
#ifdef WITHOUT_EXCHANGES_END
#define LEAVE(w)
#else
#define LEAVE(w) \
    :: d_step { in_network[w] && halting[w] -> \
        printf("@ leave %d\n", w); in_network[w] = 0; stalled[w] = 0; news = 1 }
#endif

#ifdef WITHOUT_HAND_OUT
#define HANDED_OUT(w) 0
#else
#define HANDED_OUT(w) (completed[w] < first[w])
#endif
#define TAKE(w) \
    :: d_step { working[w] && !network[w] && HANDED_OUT(w) -> \
        printf("@ take %d\n", w); finish(w, made[completed[w]]) }
// Collectives of a group meet in the order in which they are called.
#define ALONE(w, other) ((w) == (other) || !waits_in_group[other] || completed[w] == completed[other])
#define ENTER(w) \
    :: d_step { working[w] && !network[w] && !HANDED_OUT(w) && !HAS(entered[completed[w]], w) -> \
        printf("@ enter %d\n", w); \
        MUST(ALONE(w, 0) && ALONE(w, 1) && ALONE(w, WORKERS - 1), "! a collective is of one operation\n"); \
        waits_in_group[w] = 1; entered[completed[w]] = entered[completed[w]] | BIT(w); \
        if \
        :: entered[completed[w]] == EVERYBODY -> \
            waits_in_group[0] = 0; waits_in_group[1] = 0; waits_in_group[WORKERS - 1] = 0 \
        :: else \
        fi }
#define OF_GROUP(w) \
    :: d_step { working[w] && !network[w] && !HANDED_OUT(w) && entered[completed[w]] == EVERYBODY -> \
        printf("@ group %d\n", w); finish(w, BY_GROUP) }

// Rounds.

#define TELL(w) \
    :: d_step { !ended[w] && !HAS(have_sent | to_follow, w) && (news || have_sent != 0) -> \
        printf("@ tell %d\n", w); \
        if \
        :: have_sent == 0 -> news = 0 \
        :: else \
        fi; \
        have_sent = have_sent | BIT(w); \
        t_completed[w] = completed[w]; t_working[w] = working[w]; t_halted[w] = halting[w] && !in_network[w]; \
        t_lost[w] = lost[w]; t_stalled[w] = stalled[w]; t_sees[w] = !network[w] && up && times[w] < RETURNS }
#define T_STARTED(w) (t_completed[w] + t_working[w])
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define LASTLY (WORKERS - 1)
#define ANY(of) (of[0] || of[1] || of[LASTLY])
#define ALL(of) (of[0] && of[1] && of[LASTLY])
#define MOST_COMPLETED MAX(t_completed[0], MAX(t_completed[1], t_completed[LASTLY]))
#define LEAST_COMPLETED MIN(t_completed[0], MIN(t_completed[1], t_completed[LASTLY]))
#define MOST_STARTED MAX(T_STARTED(0), MAX(T_STARTED(1), T_STARTED(LASTLY)))
// All have begun the oldest operation, and those who wait for it are stalled.
#define STALLED_ONE(w) (T_STARTED(w) > LEAST_COMPLETED && (t_completed[w] != LEAST_COMPLETED || t_stalled[w]))
#ifdef WITHOUT_STALLED
#define IS_STALLED 0
#else
#define IS_STALLED (STALLED_ONE(0) && STALLED_ONE(1) && STALLED_ONE(LASTLY))
#endif
#ifdef WITHOUT_LOST
#define IS_LOST 0
#else
#define IS_LOST ANY(t_lost)
#endif
#ifdef WITHOUT_ALL_HALTED
#define HAVE_HALTED ANY(t_halted)
#else
#define HAVE_HALTED ALL(t_halted)
#endif
#ifdef WITHOUT_LARGEST
#define FIRST_BY_GROUP LEAST_COMPLETED
#else
#define FIRST_BY_GROUP MOST_COMPLETED
#endif
#ifdef WITHOUT_KEPT
#define KEPT 0
#else
#define KEPT 1
#endif
#ifdef WITHOUT_BEGUN_COMPLETE
#define ARE_COMPLETE 1
#else
#define ARE_COMPLETE (LEAST_COMPLETED >= MOST_STARTED)
#endif
#ifdef WITHOUT_ALL_SEE
#define SEEN ANY(t_sees)
#else
#define SEEN ALL(t_sees)
#endif
#define DECIDE(what, next) decision = what; phase = next

// The decision of a round, which each rank comes to by itself from the standings of all.
inline decide() {
    decision = NO_DECISION; operation = 0;
    if
    :: LEAST_COMPLETED == OPERATIONS -> decision = DONE
    :: else ->
        if
        :: phase == NETWORK && (IS_LOST || IS_STALLED) -> DECIDE(HALT, HALTING)
        :: phase == HALTING && HAVE_HALTED ->
            operation = FIRST_BY_GROUP;
            // Each rank keeps its latest result, so there must be only one to hand out.
            MUST(LEAST_COMPLETED == operation || (KEPT && LEAST_COMPLETED + 1 >= operation),
                 "! the fall-back is agreed on\n");
            DECIDE(FALL_BACK, FALLBACK)
        :: phase == FALLBACK && SEEN && LEAST_COMPLETED < OPERATIONS -> 
#ifdef WITHOUT_HOLDING
            operation = MOST_STARTED; DECIDE(LIMIT, RETURNING)
#else
            DECIDE(HOLD, HOLDING)
#endif
        :: phase == HOLDING -> operation = MOST_STARTED; DECIDE(LIMIT, RETURNING)
        :: phase == RETURNING && ARE_COMPLETE -> operation = MOST_STARTED; DECIDE(RETURN, NETWORK)
        :: else
        fi
    fi
}

#define FOLLOW(w) \
    :: d_step { HAS(to_follow, w) -> \
        printf("@ follow %d %d\n", w, decision); \
        to_follow = to_follow & ~BIT(w); news = 1; \
        if \
        :: decision == HALT -> halting[w] = 1; limit[w] = STARTED(w) \
        :: decision == FALL_BACK -> \
            network[w] = 0; halting[w] = 0; lost[w] = 0; first[w] = operation; limit[w] = NO_LIMIT \
        :: decision == HOLD -> limit[w] = STARTED(w) \
        :: decision == LIMIT -> limit[w] = operation \
        :: decision == RETURN -> network[w] = 1; times[w] = times[w] + 1; limit[w] = NO_LIMIT \
        :: decision == DONE -> ended[w] = 1 \
        fi }

#define INIT(w) network[w] = 1; limit[w] = NO_LIMIT;

active proctype ranks() {
    byte place;
    d_step { EACH_WORKER(INIT) }
    do
    EACH_WORKER(BEGIN)
    EACH_WORKER(CONTRIBUTE)
    EACH_WORKER(GET)
    EACH_WORKER(LOSE)
    EACH_WORKER(STALL)
    EACH_WORKER(LEAVE)
    EACH_WORKER(TAKE)
    EACH_WORKER(ENTER)
    EACH_WORKER(OF_GROUP)
    EACH_WORKER(TELL)
    EACH_WORKER(FOLLOW)
    :: d_step { have_sent == EVERYBODY ->
        have_sent = 0;
        decide();
        if
        :: decision != NO_DECISION -> to_follow = EVERYBODY
        :: else
        fi }
    :: d_step { up && crashes < CRASHES -> printf("@ stop\n"); up = 0; crashes++ }
    :: d_step { !up && !gone -> printf("@ gone\n"); gone = 1 }
    :: d_step { !up && !gone -> printf("@ start\n");
        up = 1; news = 1; place = 0;
        do
        :: place < OPERATIONS * (RETURNS + 2) -> given[place] = 0; place++
        :: else -> break
        od;
        place = 0 }
    :: else ->
        MUST(ended[0] && ended[1] && ended[WORKERS - 1], "! nobody is stuck\n");
        break
    od
}
