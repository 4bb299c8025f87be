// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may add to which slot. Ends with meta.reject == REJECT_NONE and meta.admission filled, or with the reason.

#ifndef SUMWIRE_ADMISSION_P4_
#define SUMWIRE_ADMISSION_P4_

#include "../headers.p4"
#include "../metadata.p4"

control Admission(inout headers_t hdr,
                  inout metadata_t meta,
                  in standard_metadata_t standard_metadata) {
    bit<16> slots = 0;
    bit<8> ops = 0;
    port_t worker_port = 0;
    ipv4_t worker_address = 0;
    bit<8> weight = 0;  // how many contributors the worker may stand for

    @id(0x13000001)
    direct_counter(CounterType.packets_and_bytes) worker_packets;

    @id(0x01000005)
    action admit_job(@id(1) bit<32> generation, @id(2) slot_t slot_base, @id(3) bit<16> job_slots,
                     @id(4) bit<8> quorum, @id(5) bit<16> group, @id(6) bit<8> job_ops) {
        meta.admission.generation = generation;
        meta.admission.slot = slot_base + (slot_t)hdr.sumwire.slot;
        meta.admission.quorum = quorum;
        meta.admission.group = group;
        slots = job_slots;
        ops = job_ops;
    }

    @id(0x01000006)
    action unknown_job() {
        meta.reject = REJECT_JOB;
    }

    @id(0x01000007)
    action admit_worker(@id(1) port_t port, @id(2) ipv4_t address, @id(3) bitmap_t worker_bit,
                        @id(4) bit<8> worker_weight) {
        worker_packets.count();
        worker_port = port;
        worker_address = address;
        meta.admission.worker_bit = worker_bit;
        weight = worker_weight;
    }

    @id(0x01000008)
    action unknown_worker() {
        worker_packets.count();
        meta.reject = REJECT_WORKER;
    }

    @id(0x02000003)
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

    @id(0x02000004)
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

    apply {
        if (standard_metadata.checksum_error == 1) {
            meta.reject = REJECT_CHECKSUM;
        } else if (job.apply().hit && worker.apply().hit) {
            // p4c has no shift by more than 8 bits; an op the parser knows is far below.
            bit<8> op_bit = 8w1 << (bit<3>)hdr.sumwire.op;
            if (standard_metadata.ingress_port != worker_port) {
                meta.reject = REJECT_PORT;
            } else if (hdr.ipv4.src != worker_address) {
                meta.reject = REJECT_ADDRESS;
            } else if (hdr.sumwire.slot >= slots) {
                meta.reject = REJECT_SLOT;
            } else if (ops & op_bit == 0) {
                meta.reject = REJECT_JOB_OP;
            } else if (hdr.sumwire.count == 0 || hdr.sumwire.count > weight) {
                meta.reject = REJECT_COUNT;
            }
        }
    }
}

#endif
