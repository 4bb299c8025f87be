// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Admission: which datagrams are refused, and why, as in sumwire.aggregator.admission.
#include "packet.h"

const struct op_words OP_WORDS[] = OP_TABLE;
enum { OPS = sizeof OP_WORDS / sizeof *OP_WORDS };

static int from_worker(int kind) { return kind == KIND_CONTRIBUTE || kind == KIND_PROBE; }

// Whether a packet of this kind has the number of words that its op asks for.
static int words_fit(int kind, const uint8_t *row) {
  const struct op_words known = OP_WORDS[row[AT_OP]];
  const int words = row[AT_WORDS], cut = row[AT_OP] == OP_THC && row[AT_CUT_CHUNK] & CUT_RESULT;
  if (kind != KIND_CONTRIBUTE && kind != KIND_RESULT) return words == 0;
  if (kind == KIND_RESULT) return words == known.down || (cut && words == THC_WORDS_CUT);
  if (lost_planes(row)) return (row[AT_FLAGS] & FLAG_TRIMMED) != 0;
  return words == known.up || words == known.partial;
}

static int malformed(const uint8_t *row, uint32_t size) {
  if (size < SUMWIRE_BYTES) return REJECT_LENGTH;
  if (row[AT_VERSION_KIND] >> 4 != SUMWIRE_VERSION) return REJECT_VERSION;
  const int kind = kind_of(row), op = row[AT_OP], words = row[AT_WORDS];
  if (!from_worker(kind) && !from_above(kind)) return REJECT_KIND;
  if (!is_hello(row) && (op >= OPS || OP_WORDS[op].up == 0)) return REJECT_OP;
  if (!words_fit(kind, row)) return REJECT_WORDS;
  const uint32_t bare = SUMWIRE_BYTES + (uint32_t)words * WORD_BYTES;
  return size == bare || size == bare + TAG_BYTES ? REJECT_NONE : REJECT_LENGTH;
}

static int unknown_sender(const struct aggregator_job *job, const uint8_t *row, const uint8_t *source,
                          const uint8_t *port) {
  const uint32_t seat = row[AT_WORKER];
  if (seat >= JOB_WORKERS_MAX || job->places[seat] < 0) return REJECT_WORKER;
  uint32_t address;
  memcpy(&address, source, sizeof address);
  if (address != job->addresses[seat]) return REJECT_ADDRESS;
  uint16_t udp_port;
  memcpy(&udp_port, port, sizeof udp_port);
  return udp_port == job->udp_ports[seat] ? REJECT_NONE : REJECT_UDP_PORT;
}

static int is_from_above(const struct aggregator_job *job, const uint8_t *source, const uint8_t *port) {
  uint32_t address;
  uint16_t udp_port;
  memcpy(&address, source, sizeof address);
  memcpy(&udp_port, port, sizeof udp_port);
  return has_above(job) && address == job->above_address && udp_port == job->above_port;
}

// Whether the payload is of the form that its sender has: sums and counters of lower aggregators, indices and votes of
// hosts. Other ops have one form.
static int form_fits(const uint8_t *row, int is_lower) {
  const struct op_words known = OP_WORDS[row[AT_OP]];
  return row[AT_WORDS] == 0 || known.up == known.partial || (row[AT_WORDS] == known.partial) == is_lower;
}

static int not_admitted(const struct aggregator_job *job, const uint8_t *row, const uint8_t *source,
                        const uint8_t *port) {
  const int to_lower = from_above(kind_of(row)), op = row[AT_OP];
  const int sender = to_lower ? REJECT_NONE : unknown_sender(job, row, source, port);
  if (sender != REJECT_NONE) return sender;
  if (load16(row + AT_SLOT) >= job->slots) return REJECT_SLOT;
  if (!is_hello(row) && !(job->ops >> op & 1)) return REJECT_JOB_OP;
  if (to_lower) return is_from_above(job, source, port) ? REJECT_NONE : REJECT_PARENT;
  const uint32_t seat = row[AT_WORKER];
  const int is_lower = job->lower >> seat & 1;
  if (row[AT_COUNT] - 1u >= job->weights[seat]) return REJECT_COUNT;
  if (!form_fits(row, is_lower)) return REJECT_WORDS;
  if (row[AT_FLAGS] & FLAGS_OF_SWITCHES && !is_lower) return REJECT_FLAGS;
  // Missing planes are made up at the root only.
  return lost_planes(row) && has_above(job) ? REJECT_WORDS : REJECT_NONE;
}

// Whether a well-formed packet has the tag that it must have, or none where the job has no key.
static int has_right_tag(const struct aggregator_job *job, const uint8_t *row, uint32_t size) {
  const uint32_t payload = (uint32_t)row[AT_WORDS] * WORD_BYTES;
  const uint8_t *words = row + SUMWIRE_BYTES;
  const uint32_t tag = tag_bytes(job, row);
  if (size != SUMWIRE_BYTES + payload + tag) return 0;
  const struct tags_key *key = from_above(kind_of(row)) ? &job->above_key : &job->key;
  return !tag || tags_of(key, row, words, payload) == tags_load(words + payload);
}

int packet_admit(const struct aggregator_state *state, const struct aggregator_batch *batch, uint64_t i,
                 struct one *p) {
  const uint8_t *row = batch->data[i];
  uint32_t size;
  memcpy(&size, batch->sizes + i * batch->size_bytes, sizeof size);
  int reason = malformed(row, size);
  if (reason != REJECT_NONE) return reason;
  const int32_t number = state->job_of[load16(row + AT_JOB)];
  if (number < 0) return REJECT_JOB;
  const struct aggregator_job *job = &state->jobs[number];
  reason = not_admitted(job, row, batch->sources + i * batch->source_bytes, batch->ports + i * batch->port_bytes);
  if (reason != REJECT_NONE) return reason;
  if (!has_right_tag(job, row, size)) return REJECT_TAG;
  const uint32_t slot = job->first_slot + load16(row + AT_SLOT);
  *p = (struct one){.state = state,
                    .job = job,
                    .run = &state->runs[number],
                    .row = row,
                    .slot = &state->slots[slot],
                    .words = state->words + (uint64_t)slot * SLOT_BYTES,
                    .token = load64(row + AT_TOKEN),
                    .number = slot,
                    .round = load32(row + AT_ROUND),
                    .seat = row[AT_WORKER],
                    .bucket = load16(row + AT_BUCKET),
                    .op = row[AT_OP],
                    .flags = row[AT_FLAGS],
                    .tos = batch->tos[i * batch->tos_bytes],
                    .trimmed = (uint8_t)lost_planes(row)};
  return REJECT_NONE;
}
