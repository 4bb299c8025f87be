// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Admission, the slot protocol, and the replies it leads to (docs/protocol.md).
#include <string.h>

#include "aggregator.h"

static uint16_t load16(const uint8_t *from) {
  uint16_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap16(value);
}

static uint32_t load32(const uint8_t *from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return __builtin_bswap32(value);
}

static void store32(uint8_t *to, uint32_t value) {
  value = __builtin_bswap32(value);
  memcpy(to, &value, sizeof value);
}

// Words of an op: from a host, from a lower switch, and of a result.
struct op_words {
  uint8_t up, partial, down;
};

static const struct op_words WORDS[] = {
    [OP_THC] = {THC_WORDS_UP, THC_WORDS_PARTIAL, THC_WORDS_DOWN},
    [OP_MAX32] = {MAX32_WORDS, MAX32_WORDS, MAX32_WORDS},
    [OP_SUM32] = {SUM32_WORDS, SUM32_WORDS, SUM32_WORDS},
    [OP_SIGN] = {SIGN_WORDS, SIGN_WORDS, SIGN_WORDS},
    [OP_VOTE] = {VOTE_WORDS_UP, VOTE_WORDS_PARTIAL, VOTE_WORDS_DOWN},
};
enum { OPS = sizeof WORDS / sizeof *WORDS };

// What a contribution's flags say that holds of the whole sum.
enum { EARNED_BELOW = FLAG_PARTIAL | FLAG_OVERFLOW | FLAG_TRIMMED | FLAG_CE | FLAG_MISSING };

static int lost_planes(const uint8_t *row) {
  return row[AT_OP] == OP_THC && row[AT_WORDS] == THC_WORDS_TRIMMED;
}

// Whether a packet of this kind has as many words as its op has.
static int words_fit(int kind, const uint8_t *row) {
  const struct op_words known = WORDS[row[AT_OP]];
  const int words = row[AT_WORDS], cut = row[AT_OP] == OP_THC && row[AT_CUT_CHUNK] & CUT_RESULT;
  if (kind == KIND_PROBE) return words == 0;
  if (kind == KIND_RESULT) return words == known.down || (cut && words == THC_WORDS_CUT);
  if (lost_planes(row)) return (row[AT_FLAGS] & FLAG_TRIMMED) != 0;
  return words == known.up || words == known.partial;
}

static int malformed(const uint8_t *row, uint32_t size) {
  if (size < SUMWIRE_BYTES) return REJECT_LENGTH;
  if (row[AT_VERSION_KIND] >> 4 != SUMWIRE_VERSION) return REJECT_VERSION;
  const int kind = row[AT_VERSION_KIND] & 0xF, op = row[AT_OP], words = row[AT_WORDS];
  if (kind != KIND_CONTRIBUTE && kind != KIND_RESULT && kind != KIND_PROBE) return REJECT_KIND;
  if (op >= OPS || WORDS[op].up == 0) return REJECT_OP;
  if (!words_fit(kind, row)) return REJECT_WORDS;
  return size == SUMWIRE_BYTES + (uint32_t)words * WORD_BYTES ? REJECT_NONE : REJECT_LENGTH;
}

static int unknown_sender(const struct aggregator_job *job, const uint8_t *row, const uint8_t *source) {
  const uint32_t seat = row[AT_WORKER];
  if (seat >= JOB_WORKERS_MAX || job->places[seat] < 0) return REJECT_WORKER;
  uint32_t address;
  memcpy(&address, source, sizeof address);
  return address == job->addresses[seat] ? REJECT_NONE : REJECT_ADDRESS;
}

static int not_admitted(const struct aggregator_job *job, const uint8_t *row, const uint8_t *source) {
  // There is no switch above that could send a result.
  const int from_above = (row[AT_VERSION_KIND] & 0xF) == KIND_RESULT, op = row[AT_OP];
  const int sender = from_above ? REJECT_NONE : unknown_sender(job, row, source);
  if (sender != REJECT_NONE) return sender;
  if (load16(row + AT_SLOT) >= job->slots) return REJECT_SLOT;
  if (!(job->ops >> op & 1)) return REJECT_JOB_OP;
  if (from_above) return REJECT_PARENT;
  if (row[AT_COUNT] != 1) return REJECT_COUNT;
  // What else is well formed is a lower switch's.
  const int from_host = row[AT_WORDS] == WORDS[op].up || row[AT_WORDS] == 0 || lost_planes(row);
  return from_host ? REJECT_NONE : REJECT_WORDS;
}

struct one {
  const struct aggregator_state *state;
  const struct aggregator_job *job;
  const uint8_t *row;
  struct aggregator_slot *slot;
  uint8_t *words;
  uint32_t number, generation, round, seat;
  uint8_t op, flags, tos;
  // A contribution without its low index planes.
  uint8_t trimmed;
};

// The verdict where the round alone decides, else NONE. Wipes a slot that is another owner's, or of an older round.
static int compare_rounds(struct one *p) {
  struct aggregator_slot *slot = p->slot;
  const uint32_t ahead = p->round - slot->round;
  if (slot->owner != p->generation || (ahead != 0 && ahead < 0x80000000u)) {
    *slot = (struct aggregator_slot){.owner = p->generation, .round = p->round, .op = p->op};
    return VERDICT_NONE;
  }
  if (ahead != 0) return VERDICT_STALE;
  return slot->op == p->op ? VERDICT_NONE : VERDICT_REJECT;
}

// The same draws whatever else came before or between: see sumwire.aggregator.draws.
static uint64_t draw_key(const struct one *p) {
  uint64_t key = mix64((p->state->seed ^ ((uint64_t)p->generation << 32 | p->number)) + GOLDEN);
  return mix64((key ^ ((uint64_t)p->round << 32 | p->slot->count)) + GOLDEN);
}

static void close_slot(struct one *p) {
  p->slot->closed = 1;
  if (p->op == OP_VOTE) fold_close_votes(p->slot->count, p->words);
  if (!p->trimmed) return;
  // A switch has no room to make a whole result of so short a packet: all get the top planes, whoever asks when.
  fold_fill_sum(p->words);
  p->slot->cut |= CUT_RESULT;
}

// What this contribution brings with it, but for its words.
static void count_in(struct one *p) {
  struct aggregator_slot *slot = p->slot;
  slot->contributors |= 1u << p->seat;
  slot->count++;
  slot->flags |= p->flags & EARNED_BELOW;
  if ((p->tos & TOS_ECN_BITS) == ECN_CE) slot->flags |= FLAG_CE;
  if (p->trimmed) slot->cut += THC_INDEX_PLANES - THC_WORDS_TRIMMED;
}

static int fold_in(struct one *p) {
  struct aggregator_slot *slot = p->slot;
  const uint8_t *payload = p->row + SUMWIRE_BYTES;
  uint8_t filled[THC_WORDS_UP * WORD_BYTES];
  const int first = slot->count == 0;
  count_in(p);
  if (p->trimmed) {
    fold_fill_index(payload, filled);
    payload = filled;
  }
  if (first) {
    fold_first(p->op, p->job, payload, p->words);
  } else {
    const struct fold fold = {p->job, p->op == OP_SIGN ? draw_key(p) : 0, slot->count};
    slot->flags |= fold_next(p->op, &fold, payload, p->words);
  }
  if (slot->count < p->job->quorum) return first ? VERDICT_FIRST : VERDICT_ADD;
  close_slot(p);
  return VERDICT_LAST;
}

static int decide(struct one *p) {
  const int verdict = compare_rounds(p);
  if (verdict != VERDICT_NONE) return verdict;
  // A packet without its low planes gets the result only where that has lost them as well, else comes again.
  if (p->slot->closed) return p->trimmed && !(p->slot->cut & CUT_RESULT) ? VERDICT_INFORM : VERDICT_DUPLICATE;
  if (!(p->slot->contributors >> p->seat & 1)) return fold_in(p);
  if (!(p->flags & FLAG_FLUSH)) return VERDICT_REPEAT;
  // The fewest contributions that the sender is content with; 0 closes with whatever is there.
  const uint32_t least = load32(p->row + AT_CONTRIBUTORS);
  if (p->slot->count < least) return VERDICT_REPEAT;
  p->slot->flags |= least ? FLAG_MISSING : FLAG_PARTIAL;
  close_slot(p);
  return VERDICT_FLUSH;
}

// Of a probe, which changes nothing: a slot that it finds in another's hands is only wiped in a copy, which it is told.
static int probe(struct one *p, struct aggregator_slot *copy) {
  *copy = *p->slot;
  p->slot = copy;
  const int verdict = compare_rounds(p);
  return verdict == VERDICT_NONE ? VERDICT_INFORM : verdict;
}

// One reply, but for whom it is.
struct answer {
  uint8_t head[SUMWIRE_BYTES];
  uint8_t tos;
};

static uint64_t give(const struct aggregator_replies *out, uint64_t at, const struct one *p, const struct answer *answer,
                     uint32_t seat) {
  uint8_t *row = out->rows + at * out->row_bytes;
  const uint32_t bytes = (uint32_t)answer->head[AT_WORDS] * WORD_BYTES;
  memcpy(row, answer->head, SUMWIRE_BYTES);
  row[AT_WORKER] = (uint8_t)seat;
  memcpy(row + SUMWIRE_BYTES, p->words, bytes);
  out->sizes[at] = SUMWIRE_BYTES + bytes;
  out->places[at] = p->job->places[seat];
  out->tos[at] = answer->tos;
  return at + 1;
}

static void fill_head(uint8_t *head, int kind, uint8_t words) {
  head[AT_VERSION_KIND] = (uint8_t)(SUMWIRE_VERSION << 4 | kind);
  head[AT_WORDS] = words;
}

// The slot as it is, under a kind of packet.
static void describe(const struct one *p, uint8_t *head) {
  const struct aggregator_slot *slot = p->slot;
  head[AT_COUNT] = slot->count;
  store32(head + AT_CONTRIBUTORS, slot->contributors);
  head[AT_FLAGS] = slot->flags;
  head[AT_CUT_CHUNK] = slot->cut;
}

static void make_result(const struct one *p, uint8_t *head) {
  describe(p, head);
  fill_head(head, KIND_RESULT, p->trimmed ? THC_WORDS_CUT : WORDS[p->op].down);
}

static void make_inform(const struct one *p, uint8_t *head) {
  describe(p, head);
  fill_head(head, KIND_INFORM, 0);
  if (p->slot->closed) head[AT_FLAGS] |= FLAG_CLOSED;
}

static void make_stale(const struct one *p, uint8_t *head) {
  fill_head(head, KIND_STALE, 0);
  head[AT_COUNT] = head[AT_FLAGS] = head[AT_CUT_CHUNK] = 0;
  store32(head + AT_ROUND, p->slot->round);
  store32(head + AT_CONTRIBUTORS, 0);
}

static uint64_t reply(const struct one *p, int verdict, const struct aggregator_replies *out, uint64_t at) {
  struct answer answer;
  memcpy(answer.head, p->row, SUMWIRE_BYTES);
  answer.tos = (p->tos & TOS_PRIORITY_BITS) | ECN_ECT;
  if (verdict == VERDICT_LAST || verdict == VERDICT_FLUSH) {
    make_result(p, answer.head);
    for (uint32_t seat = 0; seat < JOB_WORKERS_MAX; seat++)
      if (p->job->places[seat] >= 0) at = give(out, at, p, &answer, seat);
    return at;
  }
  if (verdict == VERDICT_STALE) make_stale(p, answer.head);
  else if (verdict == VERDICT_INFORM) make_inform(p, answer.head);
  else if (verdict == VERDICT_DUPLICATE) make_result(p, answer.head);
  else return at;
  return give(out, at, p, &answer, p->seat);
}

// A reason to refuse the packet, or what it is about.
static int examine(const struct aggregator_state *state, const struct aggregator_batch *batch, uint64_t i,
                   struct one *p) {
  const uint8_t *row = batch->rows + i * batch->row_bytes;
  uint32_t size;
  memcpy(&size, batch->sizes + i * batch->size_bytes, sizeof size);
  int reason = malformed(row, size);
  if (reason != REJECT_NONE) return reason;
  const int32_t number = state->job_of[load16(row + AT_JOB)];
  if (number < 0) return REJECT_JOB;
  const struct aggregator_job *job = &state->jobs[number];
  reason = not_admitted(job, row, batch->sources + i * batch->source_bytes);
  if (reason != REJECT_NONE) return reason;
  state->heard_at[number] = batch->now;
  const uint32_t slot = job->first_slot + load16(row + AT_SLOT);
  *p = (struct one){.state = state,
                    .job = job,
                    .row = row,
                    .slot = &state->slots[slot],
                    .words = state->words + (uint64_t)slot * SLOT_BYTES,
                    .number = slot,
                    .generation = __atomic_load_n(&state->generations[number], __ATOMIC_RELAXED),
                    .round = load32(row + AT_ROUND),
                    .seat = row[AT_WORKER],
                    .op = row[AT_OP],
                    .flags = row[AT_FLAGS],
                    .tos = batch->tos[i * batch->tos_bytes],
                    .trimmed = (uint8_t)lost_planes(row)};
  return REJECT_NONE;
}

uint64_t aggregator_process(const struct aggregator_state *state, const struct aggregator_batch *batch,
                            const struct aggregator_replies *replies) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < batch->count; i++) {
    struct one packet;
    struct aggregator_slot copy;
    int verdict = VERDICT_REJECT, reason = examine(state, batch, i, &packet);
    if (reason == REJECT_NONE) {
      const int asks = (packet.row[AT_VERSION_KIND] & 0xF) == KIND_PROBE;
      verdict = asks ? probe(&packet, &copy) : decide(&packet);
      if (verdict == VERDICT_REJECT) reason = REJECT_SLOT_OP;
    }
    state->verdicts[verdict]++;
    if (verdict == VERDICT_REJECT) state->rejects[reason]++;
    else at = reply(&packet, verdict, replies, at);
  }
  return at;
}
