// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts every packet to the aggregator by its verdict, and every frame that is refused. control/guard.p4 counts reasons.

#ifndef SUMWIRE_ACCOUNTING_P4_
#define SUMWIRE_ACCOUNTING_P4_

#include "../ids.p4"
#include "../codes.p4"

control Accounting(in bit<32> verdict) {
    @id(ID_COUNTER_VERDICTS)
    counter(VERDICTS, CounterType.packets_and_bytes) verdicts;

    apply {
        if (verdict != VERDICT_NONE) {
            verdicts.count(verdict);
        }
    }
}

#endif
