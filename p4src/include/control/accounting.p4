// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// One count for every packet to the aggregator's Sumwire port: its verdict, and if rejected the reason.

#ifndef SUMWIRE_ACCOUNTING_P4_
#define SUMWIRE_ACCOUNTING_P4_

#include "../metadata.p4"

control Accounting(inout metadata_t meta) {
    @id(0x12000001)
    counter(VERDICTS, CounterType.packets_and_bytes) verdicts;

    @id(0x12000002)
    counter(REJECTS, CounterType.packets_and_bytes) rejects;

    apply {
        if (meta.reject != REJECT_NONE) {
            meta.verdict = VERDICT_REJECT;
            rejects.count((bit<32>)meta.reject);
        }
        verdicts.count((bit<32>)meta.verdict);
    }
}

#endif
