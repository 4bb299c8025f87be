// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// A process of the software aggregator, as a target of libFuzzer: messages that a kernel could have received go through
// aggregator_serve, and its replies to a kernel that takes some, all or none of them.
//
// An input says what a message has: a packet that its job admits, with tag and length as they must be; one with a byte
// changed before or behind the tag; or bytes as they are.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "aggregator.h"
#include "fuzz_input.h"
#include "packet.h"

enum {
  JOBS = 6,
  SEATS = 5,
  SLOTS = 3,  // of a job
  PLACES = JOBS * (SEATS + 1),
  MESSAGES = 8,     // of one call
  MOST = 24,        // datagrams of one call
  ROOM = MOST + 4,  // datagrams that are taken apart
  REPLIES = MOST * SEATS,
  // A word longer than any packet, as a row of the aggregator's is.
  SIZE_MOST = SUMWIRE_BYTES + PAYLOAD_BYTES + WORD_BYTES,
  LONGEST = 4 * SIZE_MOST,
  CONTROLS = 2 * CMSG_SPACE(sizeof(int)),
  NAME = sizeof(struct sockaddr_in),
  CALLS_MOST = 48,
  ANY_OP = 1 << OP_THC | 1 << OP_MAX32 | 1 << OP_SUM32 | 1 << OP_SIGN | 1 << OP_VOTE | 1 << OP_MIN32,
};

static const uint64_t RUN_TOKENS[] = {TOKENS_OF_RUNS, TOKENS_OF_RUNS + 7};
static const uint32_t GENERATION = 9;

// A job; one with a key, whose packets may name a quorum; a root of lower aggregators; a lower aggregator with a key; one
// of two ops, whose aggregator above is in doubt; and one of which any packet completes a slot.
static struct aggregator_job jobs[JOBS];
static int32_t job_of[1 << 16];
static uint8_t names[PLACES * NAME];

static void add_job(uint32_t number, uint32_t quorum, int keyed, uint32_t lower, int above) {
  struct aggregator_job *job = &jobs[number];
  *job = (struct aggregator_job){.first_slot = number * SLOTS, .slots = SLOTS, .quorum = quorum, .ops = ANY_OP,
                                 .digest = 0xABCD1234, .generation = GENERATION, .in_tree = lower != 0 || above,
                                 .lower = lower, .above = -1, .above_seat = 1};
  for (int k = 0; k < SLOT_WORDS; k++) job->coefficients[k] = 0x9E37u >> k & 0xFFFF;
  for (int seat = 0; seat < JOB_WORKERS_MAX; seat++) job->places[seat] = -1;
  for (uint32_t seat = 0; seat < SEATS; seat++) {
    // One of them is the last seat that there can be.
    const uint32_t at = seat == SEATS - 1 ? JOB_WORKERS_MAX - 1 : seat;
    job->places[at] = (int32_t)(number * (SEATS + 1) + seat);
    job->addresses[at] = 0x0A000001 + at;
    job->udp_ports[at] = (uint16_t)(5000 + at);
    job->weights[at] = lower >> at & 1 ? 3 : 1;
  }
  if (above) {
    job->above = (int32_t)(number * (SEATS + 1) + SEATS);
    job->above_address = 0x0A0000FE;
    job->above_port = 6000;
  }
  if (keyed) {
    fill((uint8_t *)&job->key, sizeof job->key, 5);
    fill((uint8_t *)&job->above_key, sizeof job->above_key, 6);
    job->key.present = job->above_key.present = 1;
  }
  job_of[number] = (int32_t)number;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  memset(job_of, 0xFF, sizeof job_of);
  add_job(0, SEATS, 0, 0, 0);
  add_job(1, SEATS, 1, 0, 0);
  add_job(2, 2, 0, 3, 0);
  add_job(3, 2, 1, 0, 1);
  add_job(4, 3, 0, 1, 1);
  add_job(5, 1, 0, 0, 0);
  jobs[1].quorum_least = 2;
  jobs[4].in_doubt = 1;
  jobs[4].ops = 1 << OP_THC | 1 << OP_SUM32;
  for (int place = 0; place < PLACES; place++) names[place * NAME] = AF_INET;
  return 0;
}

// ---------------------------------------------------------------- packets

struct datagram {
  uint8_t bytes[LONGEST];
  uint32_t size, source;
  uint16_t port;
};

static const uint8_t KINDS[] = {KIND_CONTRIBUTE, KIND_CONTRIBUTE, KIND_CONTRIBUTE, KIND_PROBE,
                                KIND_RESULT, KIND_RESULT, KIND_STALE, KIND_REFUSED};

// As many words as are right for the packet, mostly.
static uint8_t words_of(const struct aggregator_job *job, uint8_t kind, uint8_t op, uint32_t seat, uint8_t choice) {
  const struct op_words known = OP_WORDS[op];
  const int is_lower = job->lower >> seat & 1;
  if (kind == KIND_RESULT) return choice == 1 && op == OP_THC ? THC_WORDS_CUT : known.down;
  if (kind != KIND_CONTRIBUTE) return 0;
  if (choice == 1 && op == OP_THC) return THC_WORDS_TRIMMED;
  return is_lower != (choice == 2) ? known.partial : known.up;
}

// What contributions to one slot have in common.
struct common {
  uint8_t job, what, call, when;
};

static struct {
  struct input input;
  struct common common;  // of the packet before
  struct mmsghdr messages[MESSAGES];
  struct iovec vectors[MESSAGES];
  uint8_t controls[MESSAGES][CONTROLS];
  struct sockaddr_in from[MESSAGES];
  uint64_t replied;
} run;

// A packet of its job. The first bytes of a payload that opens a run are the generation.
static void make_packet(struct input *input, struct common common, struct datagram *out) {
  const uint32_t number = common.job % JOBS;
  const struct aggregator_job *job = &jobs[number];
  const uint8_t kind = KINDS[common.what & 7], op = (uint8_t)((common.what >> 3) % 7), call = common.call;
  const uint8_t who = take8(input), choice = who >> 5, when = common.when;
  const uint32_t seat = who % SEATS == SEATS - 1 ? JOB_WORKERS_MAX - 1 : who % SEATS;
  const uint8_t words = choice == 7 ? take8(input) % (SLOT_WORDS + 2) : words_of(job, kind, op, seat, choice);
  const int opens = (call & 0x0C) == 0x04, of_run = opens || (call & 0x0C) == 0x08;
  uint8_t *row = out->bytes;
  memset(row, 0, SUMWIRE_BYTES);
  row[AT_VERSION_KIND] = (uint8_t)(SUMWIRE_VERSION << 4 | kind);
  row[AT_OP] = op;
  store16(row + AT_JOB, (uint16_t)number);
  store16(row + AT_SLOT, (call & 3) % SLOTS);
  row[AT_WORKER] = (uint8_t)seat;
  row[AT_COUNT] = job->lower >> seat & 1 ? 1 + (call >> 6) % 3 : 1;
  // Few rounds, around 0: some are older than others also across the wrap.
  store32(row + AT_ROUND, (uint32_t)((when & 7) - 4));
  store32(row + AT_CONTRIBUTORS, when >> 4);
  // No flags of switches from a host, mostly.
  const uint8_t flags = take8(input), kept = choice == 3 || job->lower >> seat & 1 ? 0xFF : 0xFF ^ FLAGS_OF_SWITCHES;
  row[AT_FLAGS] = (flags & kept) | (choice == 1 ? FLAG_TRIMMED : 0);
  row[AT_WORDS] = words;
  store16(row + AT_BUCKET, opens ? BUCKET_OPENS_RUN : call >> 4 & 1);
  const uint64_t token = of_run ? RUN_TOKENS[call >> 5 & 1] : call & 0x20 ? TOKEN_NONE : GENERATION;
  store32(row + AT_TOKEN, (uint32_t)(token >> 32));
  store32(row + AT_TOKEN + 4, (uint32_t)token);
  row[AT_CUT_CHUNK] = choice == 1 ? CUT_RESULT : 0;
  fill(row + SUMWIRE_BYTES, SIZE_MOST - SUMWIRE_BYTES, take8(input));
  if (opens && words) store32(row + SUMWIRE_BYTES, GENERATION);
  out->size = SUMWIRE_BYTES + words * WORD_BYTES;
  out->source = from_above(kind) ? job->above_address : job->addresses[seat];
  out->port = from_above(kind) ? job->above_port : job->udp_ports[seat];
}

static void add_tag(struct datagram *out) {
  const uint16_t number = load16(out->bytes + AT_JOB);
  const struct aggregator_job *job = number < JOBS ? &jobs[number] : &jobs[0];
  const uint32_t tag = tag_bytes(job, out->bytes), all = out->size - SUMWIRE_BYTES;
  const uint32_t bytes = all > SLOT_BYTES ? SLOT_BYTES : all;
  const struct tags_key *key = from_above(kind_of(out->bytes)) ? &job->above_key : &job->key;
  if (tag) tags_store(out->bytes + out->size, tags_of(key, out->bytes, out->bytes + SUMWIRE_BYTES, bytes));
  out->size += tag;
}

static void make_raw(struct input *input, struct datagram *out) {
  out->size = take16(input) % (SIZE_MOST + 1);
  out->source = take8(input);
  out->port = take8(input);
  for (uint32_t i = 0; i < out->size; i++) out->bytes[i] = take8(input);
}

// Half of the packets are of the last one's slot and call. One in four has something wrong.
static void make_datagram(struct input *input, struct datagram *out) {
  const uint8_t form = take8(input), wrong = form < 0xC0 ? 0 : form & 7;
  if (wrong == 7) {
    make_raw(input, out);
    return;
  }
  if (form & 0x20) run.common = (struct common){take8(input), take8(input), take8(input), take8(input)};
  make_packet(input, run.common, out);
  if (wrong == 6) {
    out->bytes[take8(input) % SUMWIRE_BYTES] = take8(input);
    const uint32_t words = out->bytes[AT_WORDS];
    out->size = SUMWIRE_BYTES + (words > SLOT_WORDS ? SLOT_WORDS + 1 : words) * WORD_BYTES;
  }
  add_tag(out);
  if (wrong == 5) out->bytes[take16(input) % out->size] ^= (uint8_t)(1 + take8(input));
  if (wrong == 4) out->size = take16(input) % (SIZE_MOST + 1);
  if (wrong == 3) out->source ^= form >> 3;
  if (wrong == 2) out->port ^= form >> 3;
}

// ---------------------------------------------------------------- the kernel

static void append_control(struct msghdr *message, int level, int type, int value, size_t bytes) {
  struct cmsghdr *head = (struct cmsghdr *)((uint8_t *)message->msg_control + message->msg_controllen);
  *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = type};
  memcpy(CMSG_DATA(head), &value, bytes);
  message->msg_controllen += CMSG_SPACE(bytes);
}

// Up to four packets as one message, each of the first one's size, but the last maybe shorter.
static void arrive(struct mmsghdr *message) {
  static struct datagram one;
  static uint8_t bytes[LONGEST];
  const uint8_t form = take8(&run.input);
  struct sockaddr_in *from = message->msg_hdr.msg_name;
  struct iovec *vector = message->msg_hdr.msg_iov;
  uint32_t length = 0, segment = 0;
  for (int left = 1 + (form & 3); left > 0; left--) {
    make_datagram(&run.input, &one);
    if (!segment) segment = one.size;
    if (one.size > segment) one.size = segment;
    if (length + one.size > LONGEST) break;
    memcpy(bytes + length, one.bytes, one.size);
    length += one.size;
    *from = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = one.port, .sin_addr.s_addr = one.source};
    if (one.size < segment) break;
  }
  free(vector->iov_base);
  *vector = (struct iovec){copied(bytes, length), length};
  message->msg_len = length;
  message->msg_hdr.msg_controllen = 0;
  if (form & 0x20) segment = take16(&run.input);
  if (form & 0x43) append_control(&message->msg_hdr, SOL_UDP, form & 0x80 ? 0 : UDP_GRO, (int)segment, sizeof(int));
  if (form & 0x0C) append_control(&message->msg_hdr, SOL_IP, form & 0x10 ? IP_TTL : IP_TOS, take8(&run.input), 1);
}

int recvmmsg(int descriptor, struct mmsghdr *messages, unsigned room, int flags, struct timespec *timeout) {
  (void)descriptor, (void)flags, (void)timeout;
  static const int errors[] = {EAGAIN, EINTR, ENOMEM, ECONNREFUSED};
  const uint8_t form = take8(&run.input);
  if (form >= 0xF8) {
    errno = errors[form & 3];
    return -1;
  }
  const unsigned count = form % (room + 1);
  for (unsigned i = 0; i < count; i++) arrive(&messages[i]);
  return (int)count;
}

// Every byte of a reply is looked at.
static void leave(const struct msghdr *message) {
  uint64_t sum = 0, bytes = 0;
  if (message->msg_namelen != NAME) fail("a reply to an address of so many bytes", message->msg_namelen);
  if (((const uint8_t *)message->msg_name)[0] != AF_INET) fail("a reply to nobody", 0);
  for (size_t i = 0; i < message->msg_iovlen; i++) {
    const uint8_t *piece = message->msg_iov[i].iov_base;
    for (size_t k = 0; k < message->msg_iov[i].iov_len; k++) sum += piece[k];
    bytes += message->msg_iov[i].iov_len;
  }
  for (size_t i = 0; i < message->msg_controllen; i++) sum += ((const uint8_t *)message->msg_control)[i];
  if (bytes > TRAIN_BYTES) fail("a reply of so many bytes", bytes);
  run.replied += sum;
}

int sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags) {
  (void)descriptor, (void)flags;
  for (unsigned i = 0; i < count; i++) leave(&messages[i].msg_hdr);
  const uint8_t form = take8(&run.input);
  errno = EAGAIN;
  return form & 1 ? (int)(1 + (form >> 1) % count) : form & 2 ? -1 : (int)count;
}

// ---------------------------------------------------------------- the process

struct memory {
  struct aggregator_state state;
  struct aggregator_socket udp;
  struct aggregator_datagrams datagrams;
  struct aggregator_batch batch;
  struct aggregator_replies replies;
  struct aggregator_messages out;
};

static void prepare(struct memory *m, uint8_t form) {
  m->state = (struct aggregator_state){
      .job_of = job_of, .jobs = jobs, .runs = calloc(JOBS, sizeof(struct aggregator_run)),
      .slots = calloc(JOBS * SLOTS, sizeof(struct aggregator_slot)), .words = calloc(JOBS * SLOTS, SLOT_BYTES),
      .verdicts = calloc(VERDICTS, 8), .rejects = calloc(REJECTS, 8), .seed = 3};
  m->udp = (struct aggregator_socket){.trains = form & 1, .messages = run.messages, .room = MESSAGES, .most = MOST};
  m->datagrams = (struct aggregator_datagrams){
      .room = ROOM, .control_bytes = CONTROLS, .data = calloc(ROOM, 8), .heads = calloc(ROOM, SUMWIRE_BYTES),
      .sizes = calloc(ROOM, 4), .sources = calloc(ROOM, 4), .ports = calloc(ROOM, 2), .tos = calloc(ROOM, 1)};
  m->batch = (struct aggregator_batch){
      .data = m->datagrams.data, .sizes = (uint8_t *)m->datagrams.sizes, .size_bytes = 4,
      .sources = (uint8_t *)m->datagrams.sources, .source_bytes = 4,
      .ports = (uint8_t *)m->datagrams.ports, .port_bytes = 2, .tos = m->datagrams.tos, .tos_bytes = 1};
  m->replies = (struct aggregator_replies){
      .heads = calloc(REPLIES, SUMWIRE_BYTES), .payloads = malloc(REPLIES * PAYLOAD_BYTES),
      .payload_of = calloc(REPLIES, 4), .sizes = calloc(REPLIES, 4), .places = calloc(REPLIES, 4),
      .tos = calloc(REPLIES, 1), .reasons = calloc(MOST, 1)};
  m->out = (struct aggregator_messages){
      .messages = calloc(REPLIES, sizeof(struct mmsghdr)), .vectors = calloc(2 * REPLIES, sizeof(struct iovec)),
      .names = names, .name_bytes = NAME, .controls = calloc(REPLIES, CONTROLS), .control_bytes = CONTROLS,
      .place_count = PLACES, .starts = calloc(PLACES + 1, 8), .tos = calloc(REPLIES, 1)};
  for (int i = 0; i < MESSAGES; i++) {
    run.vectors[i] = (struct iovec){0};
    run.messages[i].msg_hdr = (struct msghdr){.msg_name = &run.from[i], .msg_namelen = NAME, .msg_iov = &run.vectors[i],
                                              .msg_iovlen = 1, .msg_control = run.controls[i]};
  }
}

static void release(struct memory *m) {
  void *blocks[] = {m->state.runs, m->state.slots, m->state.words, m->state.verdicts, m->state.rejects,
                    m->datagrams.data, m->datagrams.heads, m->datagrams.sizes, m->datagrams.sources,
                    m->datagrams.ports, m->datagrams.tos, m->replies.heads, m->replies.payloads, m->replies.payload_of,
                    m->replies.sizes, m->replies.places, m->replies.tos, m->replies.reasons, m->out.messages,
                    m->out.vectors, m->out.controls, m->out.starts, m->out.tos};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
  for (int i = 0; i < MESSAGES; i++) free(run.vectors[i].iov_base);
}

// What every call must leave behind.
static void check(const struct memory *m, const struct aggregator_served *served) {
  if (served->sent > served->messages) fail("more messages sent than made", served->sent);
  for (uint32_t i = 0; i < JOBS * SLOTS; i++) {
    const struct aggregator_slot *slot = &m->state.slots[i];
    if (slot->phase > PHASE_CLOSED || slot->op > OP_MIN32) fail("a slot in a phase or op of", slot->phase);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct memory m;
  struct aggregator_served served;
  run.input = (struct input){data, data + size};
  run.common = (struct common){0};
  prepare(&m, take8(&run.input));
  for (int call = 0; call < CALLS_MOST && !is_over(&run.input); call++) {
    const int error = aggregator_serve(&m.udp, &m.state, &m.datagrams, &m.batch, &m.replies, &m.out, &served);
    if (error == EAGAIN || error == EINTR) fail("nothing is there, as an error", (uint64_t)error);
    check(&m, &served);
    // As after an error of sending: all of them once more, in other trains.
    const uint64_t joined = take8(&run.input), made = aggregator_arrange(&m.replies, served.replies, joined + 1, &m.out);
    for (uint64_t i = 0; i < made; i++) leave(&m.out.messages[i].msg_hdr);
  }
  release(&m);
  return 0;
}
