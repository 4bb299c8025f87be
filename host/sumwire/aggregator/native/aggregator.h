// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Processes a batch of datagrams as sumwire.aggregator.reference does in numpy. The structures are those of
// sumwire.aggregator.state and sumwire.aggregator.batches.
#pragma once

#include <stdint.h>

#include "constants.h"
#include "tags.h"

// Words of 64 bits in a plane, and bytes of a slot.
enum { PLANE_WORDS = WORD_BYTES / 8, SLOT_BYTES = SLOT_WORDS * WORD_BYTES };
// Of a reply: words, and an authentication tag behind them.
enum { PAYLOAD_BYTES = SLOT_BYTES + TAG_BYTES };

// Words of an op: in a host's contribution, in a lower switch's partial result, in a result.
struct op_words {
  uint8_t up, partial, down;
};

// By op code, from sumwire_protocol.ops. A code without an op has no words.
extern const struct op_words OP_WORDS[];

struct aggregator_slot {
  uint32_t round;
  uint32_t contributors;
  uint8_t count;
  uint8_t flags;
  uint8_t op;
  // PHASE_OPEN, PHASE_WAITING for the aggregator above, or PHASE_CLOSED.
  uint8_t phase;
  // As in a result's header: the planes that contributions lack, and CUT_RESULT.
  uint8_t cut;
  // Nobody has sent anything to it if 0.
  uint8_t used;
  uint16_t bucket;
  // Of the run; in a greeting the generation, or TOKEN_NONE.
  uint64_t token;
};

// A job's latest run, and the round in which it was opened; and the generation that the aggregator above has told.
struct aggregator_run {
  uint64_t token;
  uint32_t round;
  uint32_t generation;
};

// A job's part at this aggregator. At a leaf and in between there is one above, at the root and in between lower ones
// have seats.
struct aggregator_job {
  uint32_t first_slot;
  uint32_t slots;
  uint32_t quorum;
  // The least quorum that a contribution may name, or 0.
  uint32_t quorum_least;
  uint32_t ops;
  uint32_t digest;
  uint32_t generation;
  // Whether the job has more than one aggregator.
  uint32_t in_tree;
  // Of plane k of the table's values, the least significant first: bit m is the coefficient of monomial m.
  uint32_t coefficients[SLOT_WORDS];
  // By seat: where the worker's replies go, or -1; its address and UDP port as they stand in a packet; and how many
  // workers it stands for.
  int32_t places[JOB_WORKERS_MAX];
  uint32_t addresses[JOB_WORKERS_MAX];
  uint16_t udp_ports[JOB_WORKERS_MAX];
  uint8_t weights[JOB_WORKERS_MAX];
  // The seats of lower aggregators, a bit each.
  uint32_t lower;
  // The aggregator above: where partial results go, or -1; its address and UDP port; and this one's seat there.
  int32_t above;
  uint32_t above_address;
  uint16_t above_port;
  uint8_t above_seat;
  // Whether the one above is in doubt: a run that began now would come to nothing, so HELLOs get no answer.
  uint8_t in_doubt;
  struct tags_key key;
  // Of packets to and from the aggregator above.
  struct tags_key above_key;
};

struct aggregator_state {
  const int32_t *job_of;
  const struct aggregator_job *jobs;
  // By job, shared with other processes.
  struct aggregator_run *runs;
  struct aggregator_slot *slots;
  uint8_t *words;
  uint64_t *verdicts;
  uint64_t *rejects;
  uint64_t seed;
};

struct aggregator_batch {
  // Where each datagram is.
  const uint8_t *const *data;
  const uint8_t *sizes;
  uint64_t size_bytes;
  const uint8_t *sources;
  uint64_t source_bytes;
  const uint8_t *ports;
  uint64_t port_bytes;
  // IPv4's byte of priority, drop class and ECN.
  const uint8_t *tos;
  uint64_t tos_bytes;
  uint64_t count;
};

struct aggregator_replies {
  uint8_t *heads;
  // Of PAYLOAD_BYTES each. Replies with the same result share one.
  uint8_t *payloads;
  int32_t *payload_of;
  uint64_t payload_count;
  uint32_t *sizes;
  int32_t *places;
  uint8_t *tos;
  // Of each datagram of the batch: why it was refused.
  uint8_t *reasons;
};

struct mmsghdr;
struct iovec;

// The datagrams of received messages, one after the other.
struct aggregator_datagrams {
  uint64_t room;
  // Room for the control messages of each message.
  uint64_t control_bytes;
  // Where each is, and a copy of its header.
  const uint8_t **data;
  uint8_t *heads;
  uint32_t *sizes;
  uint32_t *sources;
  uint16_t *ports;
  uint8_t *tos;
  // How many the longest train had.
  uint64_t longest;
};

struct aggregator_messages {
  struct mmsghdr *messages;
  struct iovec *vectors;
  const uint8_t *names;
  uint64_t name_bytes;
  uint8_t *controls;
  uint64_t control_bytes;
  uint64_t place_count;
  // Of place_count + 1.
  uint64_t *starts;
  // Of each vector.
  uint8_t *tos;
};

// Returns the number of replies.
uint64_t aggregator_process(const struct aggregator_state *state, const struct aggregator_batch *batch,
                            struct aggregator_replies *replies);

// Takes messages apart that recvmmsg has filled. Returns the number of datagrams, no more than there is room for.
uint64_t aggregator_take_apart(struct mmsghdr *messages, uint64_t count, struct aggregator_datagrams *out);

// Makes messages for sendmmsg. Consecutive replies of one size and TOS to one worker are one message, of `joined`
// replies and TRAIN_BYTES at most. A message with another TOS than the socket's own, TOS_PLAIN_REPLY, says so in a
// control message. Returns the number of messages.
uint64_t aggregator_arrange(const struct aggregator_replies *replies, uint64_t count, uint64_t joined,
                            const struct aggregator_messages *out);

// A process's socket, and where its messages are received.
struct aggregator_socket {
  int32_t descriptor;
  // Whether it sends trains.
  uint32_t trains;
  struct mmsghdr *messages;
  uint64_t room;
  // Datagrams that one call of aggregator_process takes.
  uint64_t most;
};

// What aggregator_serve has done. Messages that were not sent are those behind the first `sent`.
struct aggregator_served {
  uint64_t datagrams, replies, messages, sent;
};

// Receives, processes and answers. Returns 0, or the error of receiving. If there are more datagrams than one call takes
// they are only received.
int aggregator_serve(const struct aggregator_socket *udp, const struct aggregator_state *state,
                     struct aggregator_datagrams *datagrams, struct aggregator_batch *batch,
                     struct aggregator_replies *replies, const struct aggregator_messages *out,
                     struct aggregator_served *served);

// A contribution that is folded in. `count`: of the slot's workers with those that it stands for, `weight`.
struct fold {
  const struct aggregator_job *job;
  // Of the stream of random bits for SIGN.
  uint64_t key;
  uint32_t count, weight;
  // A lower aggregator's: sums or counters, not indices or votes.
  int partial;
};

// Makes up the low index planes of a trimmed contribution: of the quarter q half of the values get the index 4q + 2, the
// others 4q + 1. `filled` has room for a whole contribution.
void fold_fill_index(const uint8_t *payload, uint8_t *filled);

// Makes up the low planes of a cut result.
void fold_fill_sum(uint8_t *words);

// Writes a slot's words from its first contribution.
void fold_first(uint8_t op, const struct fold *fold, const uint8_t *payload, uint8_t *words);

// Folds a contribution into a slot's words. Returns the flags that the slot gets for it.
uint8_t fold_next(uint8_t op, const struct fold *fold, const uint8_t *payload, uint8_t *words);

// Replaces the counters of `count` votes by the majority, in the first words.
void fold_close_votes(uint32_t count, uint8_t *words);

// Writes the counters of votes as a partial result has them, without their top planes.
void fold_pass_votes(const uint8_t *words, uint8_t *partial);

static inline uint64_t mix64(uint64_t word) {
  word = (word ^ word >> 30) * MIX_1;
  word = (word ^ word >> 27) * MIX_2;
  return word ^ word >> 31;
}
