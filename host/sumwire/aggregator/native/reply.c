// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The replies to a packet, and who gets them.
#include "packet.h"

// One reply, without its receiver.
struct answer {
  uint8_t head[SUMWIRE_BYTES];
  uint8_t tos;
  // To the aggregator above.
  uint8_t up;
  int32_t payload;
};

static void copy_words(const struct one *p, const struct answer *answer, uint8_t *payload) {
  if (answer->up && p->op == OP_VOTE) fold_pass_votes(p->words, payload);
  else memcpy(payload, p->words, (uint32_t)answer->head[AT_WORDS] * WORD_BYTES);
}

// Copies the slot's words, which a later packet of the batch may change, and adds the tag of a job with a key.
static void keep_payload(const struct one *p, struct aggregator_replies *out, struct answer *answer) {
  const uint32_t bytes = (uint32_t)answer->head[AT_WORDS] * WORD_BYTES, tag = tag_bytes(p->job, answer->head);
  const struct tags_key *key = answer->up ? &p->job->above_key : &p->job->key;
  uint8_t *payload = out->payloads + out->payload_count * PAYLOAD_BYTES;
  answer->payload = (int32_t)out->payload_count;
  if (bytes) copy_words(p, answer, payload);
  if (tag) tags_store(payload + bytes, tags_of(key, answer->head, payload, bytes));
  if (bytes || tag) out->payload_count++;
}

// `place`: whose reply it is.
static uint64_t give(const struct aggregator_replies *out, uint64_t at, const struct one *p,
                     const struct answer *answer, uint32_t seat, int32_t place) {
  uint8_t *head = out->heads + at * SUMWIRE_BYTES;
  memcpy(head, answer->head, SUMWIRE_BYTES);
  head[AT_WORKER] = (uint8_t)seat;
  out->payload_of[at] = answer->payload;
  out->sizes[at] = SUMWIRE_BYTES + (uint32_t)answer->head[AT_WORDS] * WORD_BYTES + tag_bytes(p->job, answer->head);
  out->places[at] = place;
  out->tos[at] = answer->tos;
  return at + 1;
}

static void fill_head(uint8_t *head, int kind, uint8_t words) {
  head[AT_VERSION_KIND] = (uint8_t)(SUMWIRE_VERSION << 4 | kind);
  head[AT_WORDS] = words;
}

// Fills in the slot's state.
static void describe(const struct one *p, uint8_t *head) {
  const struct aggregator_slot *slot = p->slot;
  head[AT_COUNT] = slot->count;
  store32(head + AT_CONTRIBUTORS, slot->contributors);
  head[AT_FLAGS] = slot->flags;
  head[AT_CUT_CHUNK] = slot->cut;
}

static void make_result(const struct one *p, uint8_t *head) {
  describe(p, head);
  // What comes down goes on in as many words.
  const uint8_t words = kind_of(p->row) == KIND_RESULT ? p->row[AT_WORDS] : OP_WORDS[p->op].down;
  fill_head(head, KIND_RESULT, p->trimmed ? THC_WORDS_CUT : words);
}

// To the aggregator above this one is a worker. A FLUSH is passed on if any number is enough for it, since how many are
// in here says nothing of the whole tree. It goes along when a partial result is sent again: by then the one above has
// had time for the others.
static void make_partial(const struct one *p, int verdict, uint8_t *head) {
  const int flushes = verdict == VERDICT_ASK && load32(p->row + AT_CONTRIBUTORS) == 0;
  describe(p, head);
  fill_head(head, KIND_CONTRIBUTE, OP_WORDS[p->op].partial);
  head[AT_WORKER] = (uint8_t)p->job->above_seat;
  if (flushes) head[AT_FLAGS] |= p->flags & FLAG_FLUSH;
  store32(head + AT_CONTRIBUTORS, 0);
}

// What a HELLO is told beside the slot's state.
static void introduce(const struct one *p, uint8_t *head) {
  store32(head + AT_ROUND, p->slot->round);
  store16(head + AT_BUCKET, (uint16_t)(p->job->digest >> 16));
  head[AT_CUT_CHUNK + 1] = PROGRAM_REVISION;
  store16(head + AT_CUT_CHUNK + 2, (uint16_t)p->job->digest);
  store32(head + AT_TOKEN, 0);
  store32(head + AT_TOKEN + 4, p->job->generation);
}

static void make_inform(const struct one *p, uint8_t *head) {
  describe(p, head);
  fill_head(head, KIND_INFORM, 0);
  if (p->slot->phase == PHASE_CLOSED) head[AT_FLAGS] |= FLAG_CLOSED;
  if (is_hello(p->row)) introduce(p, head);
}

static void make_stale(const struct one *p, uint8_t *head) {
  fill_head(head, KIND_STALE, 0);
  head[AT_COUNT] = head[AT_FLAGS] = head[AT_CUT_CHUNK] = 0;
  store32(head + AT_ROUND, p->slot->round);
  store32(head + AT_CONTRIBUTORS, 0);
}

static uint64_t give_all(const struct one *p, struct aggregator_replies *out, struct answer *answer, uint64_t at) {
  keep_payload(p, out, answer);
  for (uint32_t seat = 0; seat < JOB_WORKERS_MAX; seat++)
    if (p->job->places[seat] >= 0) at = give(out, at, p, answer, seat, p->job->places[seat]);
  return at;
}

static uint64_t give_up(const struct one *p, int verdict, struct aggregator_replies *out, struct answer *answer,
                        uint64_t at) {
  answer->up = 1;
  make_partial(p, verdict, answer->head);
  keep_payload(p, out, answer);
  return give(out, at, p, answer, p->job->above_seat, p->job->above);
}

uint64_t packet_reply(const struct one *p, int verdict, struct aggregator_replies *out, uint64_t at) {
  struct answer answer;
  memcpy(answer.head, p->row, SUMWIRE_BYTES);
  answer.tos = (p->tos & TOS_PRIORITY_BITS) | ECN_ECT;
  answer.up = 0;
  const int closes = verdict == VERDICT_LAST || verdict == VERDICT_FLUSH;
  if (verdict == VERDICT_ASK || (closes && has_above(p->job))) return give_up(p, verdict, out, &answer, at);
  // What the aggregator above has refused goes on as it is.
  if (verdict == VERDICT_RELAY) return give_all(p, out, &answer, at);
  if (closes || verdict == VERDICT_DOWN) {
    make_result(p, answer.head);
    return give_all(p, out, &answer, at);
  }
  if (verdict == VERDICT_STALE) make_stale(p, answer.head);
  else if (verdict == VERDICT_INFORM) make_inform(p, answer.head);
  else if (verdict == VERDICT_DUPLICATE) make_result(p, answer.head);
  else return at;
  keep_payload(p, out, &answer);
  return give(out, at, p, &answer, p->seat, p->job->places[p->seat]);
}
