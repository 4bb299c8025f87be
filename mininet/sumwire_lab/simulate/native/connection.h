// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// A flow from within.
//
// A flow is one direction of a connection that is open since the beginning: no handshake, and what it has learnt of the
// network carries over from message to message. Both ends live in one structure. Each reads only what packets have told
// it, with two exceptions that stand for things a real packet carries: which transmission of a segment came first
// (timestamps), and whether an NDP sender has anything left to send (its marked last packet).
#pragma once

#include "flows.h"

#define SECOND 1000000000000ull
#define MILLISECOND 1000000000ull
#define WINDOW_FIRST 10        // segments (RFC 6928)
#define WINDOW_MOST (1 << 16)  // segments: an ACK tells places within so many
#define LATER_ACKS 3           // of transmissions after a lost one (RFC 5681)

enum segment_state { UNUSED, FLYING, LOST, ARRIVED };

// A segment from its first transmission until it is acknowledged in order.
struct sent {
  ps at;           // its last transmission, and which of the flow's that was
  uint32_t order;
  uint32_t first;  // the transmission that arrived first, if one did
  uint32_t next, previous;  // segments in the same list
  uint32_t end;    // of its message, in segments
  uint32_t bytes;  // on the wire
  uint8_t state;
  bool again;      // sent more than once
  bool refused;    // NDP: its header has arrived without it
  bool idle;       // BBR: sent when there was too little to send
  uint64_t delivered;  // BBR: how many segments were acknowledged when it was sent, when the last of them was
  ps delivered_at, first_at;  // acknowledged, and when that one was sent
};

// Segments in the order in which they got into it.
struct list {
  uint32_t head, tail, count;
};

struct message {
  uint32_t task, end;  // end: the segment behind its last
  uint32_t last_bytes;
};

struct cubic {
  double before, estimate, turn;  // W_max, W_est, K
  ps epoch, round_least;
  uint32_t round_end, samples;
};

struct dctcp {
  double alpha;
  uint32_t acked, marked, end, calm;  // calm: no second reduction before this segment
};

#define BBR_ROUNDS 10
enum bbr_mode { STARTUP, DRAIN, PROBE_BANDWIDTH, PROBE_ROUND };

struct bbr {
  double rates[BBR_ROUNDS], best, full;  // segments a second
  double gain, kept;                     // kept: the window before it was made small
  ps least, least_at, phase_at, done_at, pace_at, delivered_at, first_at;
  uint64_t delivered, round_end, idle_until;
  uint32_t rounds, full_rounds, phase, burst;
  uint8_t mode;
  bool filled, round_done, lost, conserves;
};

struct ndp {
  uint32_t credit;           // segments that may be sent unasked
  uint32_t asked, answered;  // pulls that the receiver has sent, and those that the sender has
  uint32_t refused;          // segments whose headers have arrived without them, not sent again yet
  uint32_t owed, next;       // pulls that wait at the receiver, and the flow that waits behind this one
  uint32_t keeper;           // the flow that keeps the queue of its receiver's pulls, and there:
  uint32_t head, tail, timer;
  ps free_at;
};

enum flow_state { ORDERLY, RECOVERY, LOSS };

struct flow {
  uint32_t source, target, segment_bytes, header_bytes;
  uint64_t rate;
  uint8_t control, level, path, state;
  bool sprays, probing;
  // Messages, from the first whose end the receiver has not got.
  struct message *messages;
  uint32_t message_room, message_head, message_sending, message_end;
  // The sender's segments: una <= next <= end. No number comes twice: 2^32 segments are 6 TB.
  uint32_t una, next, end, room;
  struct sent *sent;
  uint64_t *known, *here;  // bits: arrived as the sender knows, arrived out of order
  struct list flying, lost;
  uint32_t order, latest[LATER_ACKS], recover, probe, probe_end;
  uint32_t most;                      // segments of a bandwidth-delay product (PFABRIC, NDP)
  double window, threshold;           // segments
  ps round, smoothed, varies, least;  // round trips: without load (PFABRIC, NDP), as in RFC 6298, the least so far
  ps pace;                            // of segments on the receiver's link (NDP)
  uint32_t backoff, timer, pacer;
  ps timer_at, timeout_at, probe_at, sent_at;
  // The receiver.
  uint32_t expected;
  uint64_t received;  // bytes
  uint64_t segments, repeats, timeouts, probes;
  // Of a stream: bytes of its messages, how many may be on the way, and the time from one message to the next.
  uint32_t stream_bytes, stream_most, streamer;
  ps stream_gap;
  union {
    struct cubic cubic;
    struct dctcp dctcp;
    struct bbr bbr;
    struct ndp ndp;
  };
};

// What an acknowledgement has told.
struct acked {
  uint32_t segments;
  uint32_t flying;  // before it
  bool marked, onward, repaired;
  const struct sent *newest;  // the latest transmission of which it tells, or NULL
};

// A congestion control that has a window.
struct control {
  void (*begin)(struct sim *sim, struct flow *flow);
  void (*acked)(struct sim *sim, struct flow *flow, const struct acked *acked);
  void (*lost)(struct sim *sim, struct flow *flow);                   // once for each recovery
  void (*timed_out)(struct sim *sim, struct flow *flow, bool first);  // first: since all was in order
  void (*resumed)(struct sim *sim, struct flow *flow, ps idle);       // begins to send after all has arrived
};
extern const struct control flow_controls[CONTROLS];

// ---- between flows.c, segments.c, congestion.c, bbr.c and pulls.c --------------------------------------------

static inline struct sent *flow_at(const struct flow *flow, uint32_t number) {
  return &flow->sent[number & (flow->room - 1)];
}
static inline bool before(uint32_t a, uint32_t b) { return (int32_t)(a - b) < 0; }
// The segment whose turn it is: a lost one or a new one, or NONE.
uint32_t flow_turn(const struct flow *flow);
void flow_transmit(struct sim *sim, struct flow *flow, uint32_t number);
// Takes a flying segment as lost.
void flow_lose(struct flow *flow, uint32_t number);
// Takes those as lost that were sent so long ago. Returns how many.
uint32_t flow_lose_late(const struct sim *sim, struct flow *flow, ps age);
// Takes all flying ones as lost, which come before those that were lost earlier.
void flow_lose_all(struct flow *flow);
// A segment has arrived. Returns whether it is the first time.
bool flow_take(struct flow *flow, const struct packet *packet);
bool flow_lacks(const struct flow *flow, uint32_t number);
// What an ACK tells of the segments up to this one besides those in order; and that it has told the sender so.
uint32_t flow_places(const struct flow *flow, uint32_t number);
void flow_know_places(struct flow *flow, uint32_t expected, uint32_t places, struct acked *acked);
// Sends a packet without bytes from one end to the other.
void flow_tell(struct sim *sim, const struct flow *flow, enum packet_kind kind, uint32_t number, uint32_t more,
               uint32_t marks);
// The time without load from one node to another, and the last link's rate.
ps flow_way(const struct sim *sim, uint32_t from, uint32_t to, uint32_t bytes, uint64_t *rate);
// The retransmission time-out.
ps flow_timeout(const struct flow *flow);

void bbr_begin(struct sim *sim, struct flow *flow);
void bbr_acked(struct sim *sim, struct flow *flow, const struct acked *acked);
void bbr_lost(struct sim *sim, struct flow *flow);
void bbr_timed_out(struct sim *sim, struct flow *flow, bool first);
void bbr_resumed(struct sim *sim, struct flow *flow, ps idle);
// When BBR may send, what it notes of a segment, and that there was too little to send.
ps bbr_turn(struct sim *sim, struct flow *flow);
void bbr_sent(struct sim *sim, struct flow *flow, struct sent *sent);
void bbr_idle(struct flow *flow);
void ndp_begin(struct sim *sim, struct flow *flow);
void ndp_make(struct sim *sim, struct flow *flow);
void ndp_send(struct sim *sim, struct flow *flow);
void ndp_arrived(struct sim *sim, struct flow *flow, uint32_t number, bool refused);
void ndp_acknowledged(struct flow *flow, const struct packet *packet);
void ndp_pulled(struct sim *sim, struct flow *flow, uint32_t number);
void ndp_late(struct sim *sim, struct flow *flow);
