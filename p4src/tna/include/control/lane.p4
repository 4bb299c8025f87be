// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// One lane: 32 bits of every slot in one stateful ALU, and what the packet does to them. The packet leaves with what the
// slot holds then.

#ifndef SUMWIRE_TNA_LANE_P4_
#define SUMWIRE_TNA_LANE_P4_

#include "../headers.p4"
#include "../metadata.p4"

control TnaLane(inout bit<32> lane, in cell_t cell, in lane_op_t lane_op) {
    Register<bit<32>, cell_t>(TNA_SLOTS) slots;

    RegisterAction<bit<32>, cell_t, bit<32>>(slots) set_slot = {
        void apply(inout bit<32> slot, out bit<32> result) {
            slot = lane;
            result = slot;
        }
    };

    // Four sums of THC never leave their bytes, since granularity * n <= 255, and SUM32 wraps.
    RegisterAction<bit<32>, cell_t, bit<32>>(slots) add_slot = {
        void apply(inout bit<32> slot, out bit<32> result) {
            slot = slot + lane;
            result = slot;
        }
    };

    RegisterAction<bit<32>, cell_t, bit<32>>(slots) max_slot = {
        void apply(inout bit<32> slot, out bit<32> result) {
            slot = max(slot, lane);
            result = slot;
        }
    };

    RegisterAction<bit<32>, cell_t, bit<32>>(slots) read_slot = {
        void apply(inout bit<32> slot, out bit<32> result) {
            result = slot;
        }
    };

    action set() {
        lane = set_slot.execute(cell);
    }

    action add() {
        lane = add_slot.execute(cell);
    }

    action maximum() {
        lane = max_slot.execute(cell);
    }

    action read() {
        lane = read_slot.execute(cell);
    }

    table fold {
        key = {
            lane_op : exact;
        }
        actions = {
            set;
            add;
            maximum;
            read;
            @defaultonly NoAction;
        }
        const entries = {
            LANE_SET : set();
            LANE_ADD : add();
            LANE_MAX : maximum();
            LANE_READ : read();
        }
        const default_action = NoAction();
        size = 4;
    }

    apply {
        fold.apply();
    }
}

#endif
