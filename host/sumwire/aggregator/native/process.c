// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The slot protocol (docs/protocol.md), packet by packet.
#include "packet.h"

// Flags of a contribution that become flags of the result.
enum { FLAGS_KEPT = FLAG_INCOMPLETE | FLAG_OVERFLOW | FLAG_TRIMMED | FLAG_CE | FLAG_MISSING };

static int refuse(struct one *p, int reason) {
  p->reason = reason;
  return VERDICT_REJECT;
}

static int opens_run(const struct one *p) { return p->token >= TOKENS_OF_RUNS && p->bucket == BUCKET_OPENS_RUN; }

// Whether a packet that greets or opens a run is for this generation. A probe changes nothing, whatever it is for.
static int is_of_generation(const struct one *p) {
  const uint32_t generation = p->job->generation;
  if (kind_of(p->row) != KIND_CONTRIBUTE || p->token == TOKEN_NONE) return 1;
  return (opens_run(p) ? load32(p->row + SUMWIRE_BYTES) : p->token) == generation;
}

static int is_older(uint32_t ahead) { return ahead >= 0x80000000u; }

// Whether a packet of the slot's run may begin a round so far ahead. In a tree it may begin any: the workers may have
// results from others that this aggregator has missed.
static int is_next(const struct one *p, uint32_t ahead) { return ahead == 1 || (p->job->in_tree && !is_older(ahead)); }

// The slot's run is another one than the packet's: whether the packet is the job's run's first one in the slot. Where a
// newer greeting has begun the run has no rounds any more: a late packet must not close one of them a second time.
static int compare_runs(struct one *p, uint32_t ahead) {
  if (__atomic_load_n(&p->run->token, __ATOMIC_ACQUIRE) != p->token) return refuse(p, REJECT_TOKEN);
  // Behind the token: the process that opened the run wrote it before that.
  const uint32_t opened = __atomic_load_n(&p->run->round, __ATOMIC_RELAXED);
  if (p->slot->used && ahead == 0) return refuse(p, REJECT_CALL);
  if (p->slot->used && is_older(ahead)) return VERDICT_STALE;
  return p->round == opened || is_next(p, p->round - opened) ? VERDICT_FIRST : refuse(p, REJECT_ROUND);
}

static int is_of_call(const struct one *p) {
  return p->slot->op == p->op && p->slot->bucket == p->bucket && p->slot->token == p->token;
}

// What is to be done with a packet, by its run and round: VERDICT_FIRST in a slot that is to be cleared, VERDICT_NONE in
// one that stays, or a verdict.
static int compare(struct one *p) {
  const struct aggregator_slot *slot = p->slot;
  const uint32_t ahead = p->round - slot->round;
  const int of_run = p->token >= TOKENS_OF_RUNS && p->bucket != BUCKET_OPENS_RUN;
  if (of_run && slot->token != p->token) return compare_runs(p, ahead);
  if (!slot->used) return of_run || is_of_generation(p) ? VERDICT_FIRST : refuse(p, REJECT_TOKEN);
  if (ahead == 0) return is_of_call(p) ? VERDICT_NONE : refuse(p, REJECT_CALL);
  if (is_older(ahead)) return VERDICT_STALE;
  if (of_run) return is_next(p, ahead) ? VERDICT_FIRST : refuse(p, REJECT_ROUND);
  return is_of_generation(p) ? VERDICT_FIRST : refuse(p, REJECT_TOKEN);
}

static void begin_round(struct one *p) {
  *p->slot = (struct aggregator_slot){
      .used = 1, .round = p->round, .op = p->op, .bucket = p->bucket, .token = p->token};
}

// The verdict if run and round alone decide, else VERDICT_NONE. Clears a slot that the packet is the first one of.
static int compare_rounds(struct one *p) {
  const int found = compare(p);
  if (found != VERDICT_FIRST) return found;
  begin_round(p);
  return VERDICT_NONE;
}

// The key depends on nothing else, so the draws are the same however packets are cut into batches (see
// sumwire.aggregator.folds).
static uint64_t draw_key(const struct one *p) {
  uint64_t key = mix64((p->state->seed ^ p->number) + GOLDEN);
  return mix64((key ^ ((uint64_t)p->round << 32 | p->slot->count)) + GOLDEN);
}

static void note_run(const struct one *p) {
  if (!opens_run(p)) return;
  __atomic_store_n(&p->run->round, p->round, __ATOMIC_RELAXED);
  __atomic_store_n(&p->run->token, p->token, __ATOMIC_RELEASE);
}

// The sum is complete here: a root has the result, a lower aggregator passes it on and waits.
static void close_slot(struct one *p) {
  note_run(p);
  p->slot->phase = has_above(p->job) ? PHASE_WAITING : PHASE_CLOSED;
  if (has_above(p->job)) return;
  if (p->op == OP_VOTE) fold_close_votes(p->slot->count, p->words);
  if (!p->trimmed) return;
  // A whole result has no room in so short a packet of a switch: all workers get the top planes, whenever they ask.
  fold_fill_sum(p->words);
  p->slot->cut |= CUT_RESULT;
}

// Counts a contribution in: all but its words.
static void count_in(struct one *p) {
  struct aggregator_slot *slot = p->slot;
  slot->contributors |= 1u << p->seat;
  slot->count = (uint8_t)(slot->count + p->row[AT_COUNT]);
  slot->flags |= p->flags & FLAGS_KEPT;
  if ((p->tos & TOS_ECN_BITS) == ECN_CE) slot->flags |= FLAG_CE;
  if (p->trimmed) slot->cut += THC_INDEX_PLANES - THC_WORDS_TRIMMED;
}

// How many contributions are in, each of a worker or of all below a lower aggregator.
static uint32_t arrived(const struct one *p) {
  return p->job->lower ? (uint32_t)__builtin_popcount(p->slot->contributors) : p->slot->count;
}

// How many contributions complete the slot: the job's quorum, or that of the run if the packet names one.
static uint32_t quorum_of(const struct one *p) {
  const uint32_t quorum = p->job->quorum, least = p->job->quorum_least, named = load32(p->row + AT_CONTRIBUTORS);
  return least != 0 && !(p->flags & FLAG_FLUSH) && least <= named && named < quorum ? named : quorum;
}

static int fold_in(struct one *p) {
  struct aggregator_slot *slot = p->slot;
  const uint8_t *payload = p->row + SUMWIRE_BYTES;
  uint8_t filled[THC_WORDS_UP * WORD_BYTES];
  const int first = slot->count == 0;
  count_in(p);
  const struct fold fold = {.job = p->job,
                            .key = p->op == OP_SIGN ? draw_key(p) : 0,
                            .count = slot->count,
                            .weight = p->row[AT_COUNT],
                            .partial = p->job->lower >> p->seat & 1};
  if (p->trimmed) {
    fold_fill_index(payload, filled);
    payload = filled;
  }
  if (first) fold_first(p->op, &fold, payload, p->words);
  else slot->flags |= fold_next(p->op, &fold, payload, p->words);
  if (arrived(p) < quorum_of(p)) return first ? VERDICT_FIRST : VERDICT_ADD;
  close_slot(p);
  return VERDICT_LAST;
}

static int decide(struct one *p) {
  const int verdict = compare_rounds(p);
  if (verdict != VERDICT_NONE) return verdict;
  // A trimmed packet gets the result only if that is cut as well. Else its sender is told to ask again.
  if (p->slot->phase == PHASE_CLOSED) return p->trimmed && !(p->slot->cut & CUT_RESULT) ? VERDICT_INFORM : VERDICT_DUPLICATE;
  if (p->slot->phase == PHASE_WAITING) return VERDICT_ASK;
  if (!(p->slot->contributors >> p->seat & 1)) return fold_in(p);
  if (!(p->flags & FLAG_FLUSH)) return VERDICT_REPEAT;
  // The fewest contributions that are enough for the sender; 0 is any number.
  const uint32_t least = load32(p->row + AT_CONTRIBUTORS);
  if (arrived(p) < least) return VERDICT_REPEAT;
  p->slot->flags |= least ? FLAG_MISSING : FLAG_INCOMPLETE;
  close_slot(p);
  return VERDICT_FLUSH;
}

// The result of the aggregator above replaces what is here. Its contributors are aggregators: a worker is in the result
// if it is in this one's partial result, and this one is in the result.
static void take_down(struct one *p) {
  struct aggregator_slot *slot = p->slot;
  const uint32_t bytes = (uint32_t)p->row[AT_WORDS] * WORD_BYTES;
  if (!(load32(p->row + AT_CONTRIBUTORS) >> p->job->above_seat & 1)) slot->contributors = 0;
  slot->count = p->row[AT_COUNT];
  slot->flags |= p->flags;
  slot->cut = p->row[AT_CUT_CHUNK];
  slot->phase = PHASE_CLOSED;
  memcpy(p->words, p->row + SUMWIRE_BYTES, bytes);
  if (p->op == OP_THC && bytes < SLOT_BYTES) fold_fill_sum(p->words);
  note_run(p);
}

// The verdict on what the aggregator above says. Only its results change a slot.
static int hear(struct one *p) {
  const struct aggregator_slot *slot = p->slot;
  const uint32_t ahead = p->round - slot->round;
  const int kind = kind_of(p->row), newer = !slot->used || (ahead && !is_older(ahead)), here = !newer && !ahead;
  if (kind == KIND_STALE) return newer ? VERDICT_RELAY : VERDICT_KNOWN;
  if (kind == KIND_REFUSED) return here && slot->phase != PHASE_CLOSED ? VERDICT_RELAY : VERDICT_KNOWN;
  const int found = compare_rounds(p);
  if (found == VERDICT_STALE) return VERDICT_KNOWN;
  if (found != VERDICT_NONE) return found;
  if (slot->phase == PHASE_CLOSED) return VERDICT_KNOWN;
  take_down(p);
  return VERDICT_DOWN;
}

// The verdict on a probe, which changes nothing: it works on a copy of the slot.
static int probe(struct one *p, struct aggregator_slot *copy) {
  *copy = *p->slot;
  p->slot = copy;
  const int verdict = compare_rounds(p);
  return verdict == VERDICT_NONE ? VERDICT_INFORM : verdict;
}

// The verdict on a HELLO: the slot as it is, whatever the packet's round. An unused one has nothing to tell.
static int hello(struct one *p, struct aggregator_slot *copy) {
  *copy = p->slot->used ? *p->slot : (struct aggregator_slot){.round = p->round};
  p->slot = copy;
  return VERDICT_INFORM;
}

// The verdict on a packet. Updates its slot and words.
static int settle(struct one *p, struct aggregator_slot *copy) {
  const int kind = kind_of(p->row);
  if (kind == KIND_CONTRIBUTE) return decide(p);
  if (from_above(kind)) return hear(p);
  if (!is_hello(p->row)) return probe(p, copy);
  return p->job->in_doubt ? VERDICT_KNOWN : hello(p, copy);
}

uint64_t aggregator_process(const struct aggregator_state *state, const struct aggregator_batch *batch,
                            struct aggregator_replies *replies) {
  uint64_t at = 0;
  replies->payload_count = 0;
  for (uint64_t i = 0; i < batch->count; i++) {
    struct one packet;
    struct aggregator_slot copy;
    int verdict = VERDICT_REJECT, reason = packet_admit(state, batch, i, &packet);
    if (reason == REJECT_NONE) {
      verdict = settle(&packet, &copy);
      if (verdict == VERDICT_REJECT) reason = packet.reason;
    }
    replies->reasons[i] = (uint8_t)reason;
    state->verdicts[verdict]++;
    if (verdict == VERDICT_REJECT) state->rejects[reason]++;
    else at = packet_reply(&packet, verdict, replies, at);
  }
  return at;
}
