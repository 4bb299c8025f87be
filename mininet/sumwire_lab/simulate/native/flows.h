// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Flows: bytes from one host to another, reliably and in order, with a congestion control.
#pragma once

#include "core.h"

// CUBIC: RFC 9438. BBR: version 1, draft-cardwell-iccrg-bbr-congestion-control-00. DCTCP: RFC 8257. PFABRIC: Alizadeh
// et al., SIGCOMM 2013. NDP: Handley et al., SIGCOMM 2017.
enum flow_control { CUBIC, BBR, DCTCP, PFABRIC, NDP, CONTROLS };
// Added to the control: every packet takes its own way, as those of PFABRIC and NDP always do.
#define FLOW_SPRAYS 0x80

// Makes a flow, before sim_start. `segment_bytes`: at most in a packet, besides `header_bytes`. `level`: of its
// segments where links have several; NDP's ACKs and PULLs have level 0, and its segments at least 1. `rate`: of the
// source's link, for PFABRIC and NDP. What has not arrived yet may be 2^31 segments.
uint32_t sim_flow(struct sim *sim, uint32_t source, uint32_t target, uint32_t control, uint32_t segment_bytes,
                  uint32_t header_bytes, uint32_t level, uint64_t rate);
// Makes a flow a stream, before sim_start: cross traffic, which no task waits for. It sends a message of `bytes` every
// `gap`, from a random moment of the first one on, and leaves one out while `most` bytes are not acknowledged.
void sim_stream(struct sim *sim, uint32_t flow, uint32_t bytes, ps gap, uint32_t most);
// Starts all streams.
void flows_start(struct sim *sim);
// Sends the bytes of a MESSAGE task over its flow, behind earlier messages, and ends the task when they have arrived.
void flow_send(struct sim *sim, uint32_t flow, uint32_t task);
// A SEGMENT, ACK or PULL has arrived at its target.
void flow_receive(struct sim *sim, const struct packet *packet);
// Writes what a flow has done: segments sent, of these again, time-outs, loss probes, bytes received.
void sim_flow_counts(const struct sim *sim, uint32_t flow, uint64_t *counts);
// Frees all flows.
void flows_free(struct sim *sim);
