// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may contribute to which slot. Fills meta.admission, or sets meta.reject to the reason.

#ifndef SUMWIRE_ADMISSION_P4_
#define SUMWIRE_ADMISSION_P4_

#include "../headers.p4"
#include "../ids.p4"
#include "../metadata.p4"

control Admission(inout headers_t hdr,
                  inout metadata_t meta,
                  in standard_metadata_t standard_metadata) {
    bit<16> slots = 0;
    bit<8> least = 0;           // the fewest workers that a run may have; 0 for a job that has no such runs
    bit<8> ops = 0;
    port_t worker_port = 0;
    ipv4_t worker_address = 0;
    bit<8> weight = 0;          // hosts that the worker stands for: 1, or those of a lower switch
    bit<1> sends_partials = 0;  // a lower switch
    bit<1> slot_outside = 0;
    bit<1> op_refused = 0;

    @id(ID_DIRECT_COUNTER_WORKER_PACKETS)
    direct_counter(CounterType.packets_and_bytes) worker_packets;

    @id(ID_ACTION_ADMIT_JOB)
    action admit_job(@id(1) bit<32> generation, @id(2) slot_t slot_base, @id(3) bit<16> job_slots,
                     @id(4) bit<8> quorum, @id(5) bit<16> group, @id(6) bit<8> job_ops, @id(7) bit<1> spray,
                     @id(8) bit<8> quorum_least, @id(9) @name("digest") bit<32> job_digest) {
        meta.admission.generation = generation;
        meta.admission.slot = slot_base + (slot_t)hdr.sumwire.slot;
        meta.admission.quorum = quorum;
        least = quorum_least;
        meta.admission.digest = job_digest;
        meta.admission.group = group;
        meta.uplink.sprays = spray;
        slots = job_slots;
        ops = job_ops;
    }

    @id(ID_ACTION_UNKNOWN_JOB)
    action unknown_job() {
        meta.reject = REJECT_JOB;
    }

    @id(ID_ACTION_ADMIT_WORKER)
    action admit_worker(@id(1) port_t port, @id(2) ipv4_t address, @id(3) bitmap_t worker_bit,
                        @id(4) bit<8> worker_weight, @id(5) bit<1> is_switch) {
        worker_packets.count();
        worker_port = port;
        worker_address = address;
        meta.admission.worker_bit = worker_bit;
        weight = worker_weight;
        sends_partials = is_switch;
    }

    @id(ID_ACTION_UNKNOWN_WORKER)
    action unknown_worker() {
        worker_packets.count();
        meta.reject = REJECT_WORKER;
    }

    @id(ID_TABLE_JOB)
    table job {
        key = {
            hdr.sumwire.job : exact @id(1) @name("job");
        }
        actions = {
            admit_job;
            @defaultonly unknown_job;
        }
        const default_action = unknown_job();
        size = JOBS_MAX;
    }

    @id(ID_TABLE_WORKER)
    table worker {
        key = {
            hdr.sumwire.job : exact @id(1) @name("job");
            hdr.sumwire.worker : exact @id(2) @name("worker");
        }
        actions = {
            admit_worker;
            @defaultonly unknown_worker;
        }
        const default_action = unknown_worker();
        counters = worker_packets;
        size = WORKERS_MAX;
    }

    // A run of fewer workers says how many they are.
    action take_run_quorum() {
        meta.admission.quorum = hdr.sumwire.flags & FLAG_FLUSH == 0 && hdr.sumwire.contributors >= (bit<32>)least &&
            hdr.sumwire.contributors < (bit<32>)meta.admission.quorum ?
            hdr.sumwire.contributors[7:0] : meta.admission.quorum;
    }

    // Rules of the job, for every sender: the slot and the op.
    action check_job() {
        // The parser knows only ops below 8, and OP_NONE only of a HELLO.
        bit<8> op_bit = 8w1 << (bit<3>)hdr.sumwire.op;
        slot_outside = (bit<1>)(hdr.sumwire.slot >= slots);
        op_refused = (bit<1>)((ops | (1 << OP_NONE)) & op_bit == 0);
    }

    apply {
        if (standard_metadata.checksum_error == 1) {
            meta.reject = REJECT_CHECKSUM;
        } else if (job.apply().hit) {
            if (least != 0) {
                take_run_quorum();
            }
            if (meta.from_above == 0 && worker.apply().hit) {
                if (standard_metadata.ingress_port != worker_port) {
                    meta.reject = REJECT_PORT;
                } else if (hdr.ipv4.src != worker_address) {
                    meta.reject = REJECT_ADDRESS;
                }
            }
            if (meta.reject == REJECT_NONE) {
                check_job();
                if (slot_outside == 1) {
                    meta.reject = REJECT_SLOT;
                } else if (op_refused == 1) {
                    meta.reject = REJECT_JOB_OP;
                } else if (meta.from_above == 0) {
                    if (hdr.sumwire.count == 0 || hdr.sumwire.count > weight) {
                        meta.reject = REJECT_COUNT;
                    } else if (meta.bare == 0 && meta.partial != sends_partials &&
                               (hdr.sumwire.op == OP_THC || hdr.sumwire.op == OP_VOTE)) {
                        meta.reject = REJECT_WORDS;
                    }
                }
            }
        }
    }
}

#endif
