// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may contribute to which slot. One row for each worker of a run: the switch takes packets with the run's token
// from this worker's port, address and UDP port, and for slots 0 to 4095. Everything else is forwarded or dropped.

#ifndef SUMWIRE_TNA_ADMISSION_P4_
#define SUMWIRE_TNA_ADMISSION_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaAdmission(inout tna_headers_t hdr,
                     inout tna_metadata_t meta,
                     in ingress_intrinsic_metadata_t ig_intr_md) {
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) worker_packets;

    // `block`: the job's slots are 4096 * block to 4096 * block + 4095. `others`: bits of the job's other workers.
    action admit_worker(bit<4> block, bitmap_t worker_bit, bitmap_t others, bitmap_t everyone, bit<8> workers,
                        MulticastGroupId_t group, bit<4> codebook, bit<8> seat) {
        worker_packets.count();
        meta.admitted = 1;
        meta.cell = block ++ hdr.sumwire.slot[11:0];
        meta.worker_bit = worker_bit;
        meta.others = others;
        meta.everyone = everyone;
        meta.workers = workers;
        meta.group = group;
        meta.codebook = codebook;
        meta.seat = seat;
    }

    action unknown_worker() {
        worker_packets.count();
    }

    table worker {
        key = {
            hdr.sumwire.job : exact @name("job");
            hdr.sumwire.worker : exact @name("worker");
            hdr.sumwire.slot[15:12] : exact @name("slot_high");
            hdr.sumwire.token : exact @name("token");
            hdr.ipv4.src : exact @name("address");
            hdr.ipv4.dst : exact @name("aggregator");
            hdr.udp.src_port : exact @name("udp_port");
            ig_intr_md.ingress_port : exact @name("port");
        }
        actions = {
            admit_worker;
            @defaultonly unknown_worker;
        }
        const default_action = unknown_worker();
        counters = worker_packets;
        size = TNA_WORKERS_MAX;
    }

    apply {
        worker.apply();
    }
}

#endif
