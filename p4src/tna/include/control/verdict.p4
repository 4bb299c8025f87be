// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// The verdict, and with it what the lanes do. A slot closes when all workers of the job are in.

#ifndef SUMWIRE_TNA_VERDICT_P4_
#define SUMWIRE_TNA_VERDICT_P4_

#include "../headers.p4"
#include "../metadata.p4"

// The worker in a seat: it alone was missing, or it was among those.
#define SEAT(seat) \
    (0, 0, seat, 1 << seat) : fold(VERDICT_LAST[3:0]); \
    (0, 0, seat, (1 << seat) &&& (1 << seat)) : fold(VERDICT_ADD[3:0]);

control TnaVerdict(inout tna_metadata_t meta) {
    action decide(tna_verdict_t verdict, lane_op_t lane_op) {
        meta.verdict = verdict;
        meta.lane_op = lane_op;
    }

    action fold(tna_verdict_t verdict) {
        meta.verdict = verdict;
        meta.lane_op = meta.fold;
    }

    // `missing` is what it was before the packet.
    table verdict {
        key = {
            meta.newer_round : ternary;
            meta.fresh : ternary;
            meta.seat : ternary;
            meta.missing : ternary;
        }
        actions = {
            decide;
            fold;
        }
        const entries = {
            (0, 1, _, _) : decide(VERDICT_FIRST[3:0], LANE_SET);
            (0, 0, _, 0) : decide(VERDICT_DUPLICATE[3:0], LANE_READ);
            SEAT(0)
            SEAT(1)
            SEAT(2)
            SEAT(3)
            SEAT(4)
            SEAT(5)
            SEAT(6)
            SEAT(7)
            SEAT(8)
            SEAT(9)
            SEAT(10)
            SEAT(11)
            SEAT(12)
            SEAT(13)
            SEAT(14)
            SEAT(15)
            SEAT(16)
            SEAT(17)
            SEAT(18)
            SEAT(19)
            SEAT(20)
            SEAT(21)
            SEAT(22)
            SEAT(23)
            SEAT(24)
            SEAT(25)
            SEAT(26)
            SEAT(27)
            SEAT(28)
            SEAT(29)
            SEAT(30)
            SEAT(31)
            (0, 0, _, _) : decide(VERDICT_REPEAT[3:0], LANE_IDLE);
            (_, _, _, _) : decide(VERDICT_STALE[3:0], LANE_IDLE);
        }
        size = 128;
    }

    apply {
        verdict.apply();
    }
}

#endif
