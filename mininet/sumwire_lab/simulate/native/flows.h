// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Flows: bytes from one host to another, reliably and in order, with a congestion control.
#pragma once

#include "core.h"

// Sends the bytes of a MESSAGE task over its flow, behind earlier messages, and ends the task when they have arrived.
void flow_send(struct sim *sim, uint32_t flow, uint32_t task);
// A SEGMENT, ACK or PULL has arrived at its target.
void flow_receive(struct sim *sim, const struct packet *packet);
// Frees all flows.
void flows_free(struct sim *sim);
