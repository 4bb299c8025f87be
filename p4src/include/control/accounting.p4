// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts every packet to the aggregator: by its verdict, and if it is refused by the reason.

#ifndef SUMWIRE_ACCOUNTING_P4_
#define SUMWIRE_ACCOUNTING_P4_

#include "../ids.p4"
#include "../metadata.p4"

control Accounting(inout metadata_t meta) {
    @id(ID_COUNTER_VERDICTS)
    counter(VERDICTS, CounterType.packets_and_bytes) verdicts;

    @id(ID_COUNTER_REJECTS)
    counter(REJECTS, CounterType.packets_and_bytes) rejects;

    apply {
        if (meta.reject != REJECT_NONE) {
            meta.verdict = VERDICT_REJECT;
            rejects.count(meta.reject);
        }
        verdicts.count(meta.verdict);
    }
}

#endif
