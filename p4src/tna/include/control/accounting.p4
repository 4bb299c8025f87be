// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts each packet under its verdict.

#ifndef SUMWIRE_TNA_ACCOUNTING_P4_
#define SUMWIRE_TNA_ACCOUNTING_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaAccounting(in tna_metadata_t meta) {
    Counter<bit<64>, tna_verdict_t>(VERDICTS, CounterType_t.PACKETS) verdicts;

    apply {
        verdicts.count(meta.verdict);
    }
}

#endif
