// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may contribute to which slot. Fills `admission` and `job_key`, or sets `reject` to the reason. The tables'
// actions check the rules, so that what an entry says of them need not be kept.

#ifndef SUMWIRE_ADMISSION_P4_
#define SUMWIRE_ADMISSION_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"
#include "../state.p4"

control Admission(in ethernet_h ethernet, in ipv4_h ipv4, in udp_h udp, in sumwire_h sumwire, inout key_h job_key,
                  inout bit<32> reject, in bit<16> traits, inout admission_t admission, inout scratch_t scratch,
                  in standard_metadata_t standard_metadata) {
    @id(ID_DIRECT_COUNTER_WORKER_PACKETS)
    direct_counter(CounterType.packets_and_bytes) worker_packets;

    // Of jobs with a limit, at their slot base.
    register<bit<48>>(SLOTS_TOTAL) budget_seen;  // us
    register<bit<64>>(SLOTS_TOTAL) budget_used;  // bytes << QUEUE_SHIFT, less what the limit has let through since

    @id(ID_ACTION_ADMIT_JOB)
    @brief("Admit") @description("What the job may do, and which slots are its own.")
    action admit_job(@id(1) bit<32> generation, @id(2) slot_t slot_base, @id(3) bit<16> job_slots,
                     @id(4) bit<8> quorum, @id(5) bit<16> group, @id(6) bit<16> job_ops, @id(7) spray_t spray,
                     @id(8) bit<8> quorum_least, @id(9) @name("digest") bit<32> job_digest) {
        admission.opening = ((opening_t)generation << OPENING_OWNER_AT)
            | ((opening_t)sumwire.token << OPENING_TOKEN_AT) | ((opening_t)sumwire.round << OPENING_ROUND_AT)
            | ((opening_t)sumwire.op << OPENING_OP_AT) | (opening_t)sumwire.bucket;
        // Saturates: whatever a row says, the sum is no other job's slot.
        admission.slot = slot_base |+| (slot_t)sumwire.slot;
        admission.group = group;
        admission.digest = job_digest;
        admission.sprays = spray;
        admission.selector = sumwire.slot;
        admission.quorum = quorum;
        // A run of fewer workers says how many they are. Most jobs have no such runs: least 0.
        if (quorum_least != 0) {
            if (sumwire.flags & FLAG_FLUSH == 0 && sumwire.contributors >= (bit<32>)quorum_least &&
                sumwire.contributors < (bit<32>)quorum) {
                admission.quorum = sumwire.contributors[7:0];
            }
        }
        if (sumwire.slot >= job_slots ||
            admission.slot >= (sumwire.op == OP_JUMBO ? (slot_t)JUMBO_SLOTS : SLOTS_TOTAL)) {
            reject = REJECT_SLOT;
        } else if (((job_ops | (1 << OP_NONE)) >> sumwire.op) & 1 == 0) {
            reject = REJECT_JOB_OP;
        }
    }

    @id(ID_ACTION_ADMIT_KEYED_JOB)
    @brief("Admit with a key") @description("As admit_job, with the keys of the universal hash and of SipHash.")
    action admit_keyed_job(@id(1) bit<32> generation, @id(2) slot_t slot_base, @id(3) bit<16> job_slots,
                           @id(4) bit<8> quorum, @id(5) bit<16> group, @id(6) bit<16> job_ops, @id(7) spray_t spray,
                           @id(8) bit<8> quorum_least, @id(9) @name("digest") bit<32> job_digest,
                           @id(10) word_t hash0, @id(11) word_t hash1, @id(12) word_t hash2, @id(13) word_t hash3,
                           @id(14) word_t hash4, @id(15) word_t hash5, @id(16) word_t hash6, @id(17) word_t hash7,
                           @id(18) bit<64> sip_low, @id(19) bit<64> sip_high) {
        admit_job(generation, slot_base, job_slots, quorum, group, job_ops, spray, quorum_least, job_digest);
        job_key.setValid();
        job_key.w0 = hash0;
        job_key.w1 = hash1;
        job_key.w2 = hash2;
        job_key.w3 = hash3;
        job_key.w4 = hash4;
        job_key.w5 = hash5;
        job_key.w6 = hash6;
        job_key.w7 = hash7;
        job_key.low = sip_low;
        job_key.high = sip_high;
    }

    @id(ID_ACTION_UNKNOWN_JOB)
    @brief("Refuse") @description("The job has no row.")
    action unknown_job() {
        reject = REJECT_JOB;
    }

    // `worker_weight`: hosts that the worker stands for, 1, or those of a lower switch. `is_switch`: a lower switch,
    // which sends partial results. `budget`: bytes of the job's workers in 1024 us, 0 for any number; it is charged for
    // packets with nothing else against them, so nobody else uses it up.
    @id(ID_ACTION_ADMIT_WORKER)
    @brief("Admit") @description("Where the worker's packets come from, and how many hosts it stands for.")
    action admit_worker(@id(1) port_t port, @id(2) ipv4_t address, @id(3) bitmap_t worker_bit,
                        @id(4) bit<8> worker_weight, @id(5) bit<1> is_switch, @id(6) mac_t mac,
                        @id(7) bit<16> udp_port, @id(8) bit<32> budget, @id(9) bit<32> budget_cell) {
        worker_packets.count();
        admission.worker_bit = worker_bit;
        if (standard_metadata.ingress_port != port) {
            reject = REJECT_PORT;
        } else if (ipv4.src != address || ethernet.src != mac) {
            reject = REJECT_ADDRESS;
        } else if (udp.src_port != udp_port) {
            reject = REJECT_UDP_PORT;
        } else if (reject != REJECT_NONE) {
            // The job's rules come first.
        } else if (sumwire.count - 1 >= worker_weight) {
            reject = REJECT_COUNT;
        } else if (traits & TRAIT_BARE == 0 && (sumwire.op == OP_THC || sumwire.op == OP_VOTE) &&
                   (bit<1>)(traits & TRAIT_PARTIAL != 0) != is_switch) {
            reject = REJECT_WORDS;
        } else if (sumwire.flags & FLAGS_OF_SWITCHES != 0 && is_switch == 0) {
            reject = REJECT_FLAGS;
        } else if (budget != 0) {
            budget_seen.read(scratch.passed, budget_cell);
            budget_seen.write(budget_cell, standard_metadata.ingress_global_timestamp);
            budget_used.read(scratch.number, budget_cell);
            scratch.passed = standard_metadata.ingress_global_timestamp - scratch.passed;
            if (scratch.passed > QUEUE_LOOKBACK_US) {
                scratch.passed = QUEUE_LOOKBACK_US;
            }
            bit<64> regained = (bit<64>)scratch.passed * (bit<64>)budget;
            if (scratch.number > regained) {
                scratch.number = scratch.number - regained;
            } else {
                scratch.number = 0;
            }
            if ((scratch.number >> QUEUE_SHIFT) >= BUDGET_BURST_BYTES) {
                reject = REJECT_BUDGET;
            } else {
                scratch.number = scratch.number + ((bit<64>)standard_metadata.packet_length << QUEUE_SHIFT);
            }
            budget_used.write(budget_cell, scratch.number);
        }
    }

    @id(ID_ACTION_UNKNOWN_WORKER)
    @brief("Refuse") @description("The worker has no row.")
    action unknown_worker() {
        worker_packets.count();
        reject = REJECT_WORKER;
    }

    @id(ID_TABLE_JOB)
    @brief("Jobs") @description("By number: the rules of the job.")
    table job {
        key = {
            sumwire.job : exact @id(1) @name("job");
        }
        actions = {
            admit_job;
            admit_keyed_job;
            @defaultonly unknown_job;
        }
        const default_action = unknown_job();
        size = JOBS_MAX;
    }

    @id(ID_TABLE_WORKER)
    @brief("Workers") @description("By job and number: hosts and lower switches that contribute.")
    table worker {
        key = {
            sumwire.job : exact @id(1) @name("job");
            sumwire.worker : exact @id(2) @name("worker");
        }
        actions = {
            admit_worker;
            @defaultonly unknown_worker;
        }
        const default_action = unknown_worker();
        counters = worker_packets;
        size = WORKERS_MAX;
    }

    apply {
        if (job.apply().hit) {
            if (traits & TRAIT_FROM_ABOVE == 0) {
                worker.apply();
            }
        }
    }
}

#endif
