// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// An exchange of a worker, as a target of libFuzzer: the C that receives results, checks their tags, puts them in their
// places and sends what they allow, beside a kernel and a switch that the input plays.
//
// C goes on alone, by the fast path, with a key and without. What Python does in between, retransmissions, is done here.
#define _GNU_SOURCE
#include "constants.h"

#include "fuzz_input.h"

// Their structures are in no headers. Names that two of them have differ here.
#define note arrivals_note
#define receive arrivals_receive
#define number_at tags_number_at
#include "arrivals.c"
#include "tags.c"
#undef note
#undef receive
#undef number_at
#include "fast_path.c"
#include "trains.c"

enum { DATAGRAMS = 3, CONTROLS = 2 * CMSG_SPACE(sizeof(int)), CALLS_MOST = 64, BATCH_MOST = 8, RESENT_MOST = 8 };

static struct {
  struct input input;
  double now;
  uint64_t looked_at;
  uint64_t batch, message_bytes, size;
  struct mmsghdr *in, *out;
  uint8_t *memory, *rows, *names;
  struct arrivals_in arrivals;
  struct trains_out trains;
  struct runs_messages messages;
  struct runs_exchange run;
  struct steady_exchange exchange;
  struct fast_path_socket socket;
  struct fast_path path;
  struct tags_key key;
} world;

// ---------------------------------------------------------------- the switch

// The head of a chunk's result. Contributors and count are of no mask.
static void write_head(uint8_t *head, uint64_t chunk) {
  memset(head, 0, HEADER_BYTES);
  head[0] = 2 << 4 | 2;
  head[COUNT_AT] = 4;
  for (int i = 0; i < 3; i++) head[CHUNK_AT + 1 + i] = (uint8_t)(chunk >> (16 - 8 * i));
}

// The result of a chunk, of size + 9 bytes at most.
static uint64_t write_result(uint8_t *to, uint64_t chunk) {
  struct input *input = &world.input;
  const uint8_t form = take8(input);
  const uint64_t payload = world.run.payload_bytes;
  write_head(to, chunk);
  fill(to + HEADER_BYTES, payload, form);
  if (form == 0xF0) to[take8(input) % HEADER_BYTES] ^= (uint8_t)(1 + take8(input));
  if (form == 0xF1) to[COUNT_AT] = 0;
  if (form == 0xF2) to[0] = KIND_REFUSED;
  if (world.key.present) tags_store(to + HEADER_BYTES + payload, tags_of(&world.key, to, to + HEADER_BYTES, payload));
  if (form == 0xF3) to[take16(input) % world.size] ^= (uint8_t)(1 + take8(input));
  if (form == 0xF4) return world.size + 1 + take8(input) % 9;
  if (form == 0xF5) return take16(input) % world.size;
  if (form == 0xF6) return HEADER_BYTES;
  return world.size;
}

static void append_control(struct msghdr *message, int level, int type, int value, size_t bytes) {
  struct cmsghdr *head = (struct cmsghdr *)((uint8_t *)message->msg_control + message->msg_controllen);
  *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = type};
  memcpy(CMSG_DATA(head), &value, bytes);
  message->msg_controllen += CMSG_SPACE(bytes);
}

static uint64_t first_flying(uint64_t from) {
  for (; from < world.run.chunks; from++)
    if (world.run.flying[from]) return from;
  return from;
}

// A message with the results of some chunks from `chunk` on. Returns the chunk behind them.
static uint64_t arrive(struct mmsghdr *message, uint8_t *to, uint64_t chunk) {
  const uint8_t form = take8(&world.input);
  struct msghdr *header = &message->msg_hdr;
  const uint64_t count = 1 + (form & 3) % DATAGRAMS;
  uint64_t length = 0;
  if (header->msg_controllen != CONTROLS) fail("room for control messages, bytes", header->msg_controllen);
  for (uint64_t i = 0; i < count; i++) length += write_result(to + length, chunk++);
  if (length > world.message_bytes) fail("the switch's message is too long", length);
  message->msg_len = (unsigned)length;
  int segment = (int)world.size;
  if ((form & 0xF0) == 0xF0) segment = take16(&world.input);
  header->msg_controllen = 0;
  if (count > 1 || form & 4) append_control(header, SOL_UDP, (form & 0xF0) == 0xE0 ? 0 : UDP_GRO, segment, sizeof(int));
  if ((form & 0xF0) == 0xD0) append_control(header, SOL_IP, form & 8 ? IP_TTL : IP_TOS, take8(&world.input), 1);
  return chunk;
}

int recvmmsg(int descriptor, struct mmsghdr *messages, unsigned room, int flags, struct timespec *timeout) {
  (void)descriptor, (void)flags, (void)timeout;
  static const int errors[] = {EAGAIN, EINTR, ECONNREFUSED, ENOMEM};
  const uint8_t form = take8(&world.input);
  if (form >= 0xF0) {
    errno = errors[form & 3];
    return -1;
  }
  const unsigned count = (form & 0x0F) % (room + 1);
  const uint64_t place = (uint64_t)(messages - world.in);
  // Mostly all that is in flight, from the oldest on; else what was overtaken, or never sent.
  uint64_t chunk = first_flying(0);
  if (form & 0x40) chunk = first_flying(chunk + 1);
  if ((form & 0xB0) == 0xB0) chunk += take8(&world.input);
  for (unsigned i = 0; i < count; i++)
    chunk = arrive(&messages[i], world.memory + (place + i) * world.message_bytes, chunk);
  return (int)count;
}

// ---------------------------------------------------------------- the kernel, on the way out

int sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags) {
  (void)descriptor, (void)flags;
  for (unsigned i = 0; i < count; i++) {
    const struct iovec *vector = messages[i].msg_hdr.msg_iov;
    for (size_t k = 0; k < vector->iov_len; k++) world.looked_at += ((const uint8_t *)vector->iov_base)[k];
    if (vector->iov_len % world.trains.row_bytes) fail("a train of part of a row, bytes", vector->iov_len);
  }
  const uint8_t form = take8(&world.input);
  errno = EAGAIN;
  return form & 1 ? (int)((form >> 1) % (count + 1)) : form == 2 ? -1 : (int)count;
}

int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
  (void)polled, (void)count, (void)mask;
  if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000) fail("a time to wait, s", 0);
  const uint8_t form = take8(&world.input);
  return form == 0xFF ? 0 : form == 0xFE ? -1 : 1;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  world.now += 1e-3;
  *now = (struct timespec){(time_t)world.now, (long)((world.now - (double)(time_t)world.now) * 1e9)};
  return 0;
}

// ---------------------------------------------------------------- the worker

static void prepare_messages(struct input *input) {
  const uint64_t batch = world.batch;
  world.message_bytes = DATAGRAMS * (world.size + 9);
  world.in = calloc(batch, sizeof *world.in);
  world.out = calloc(batch, sizeof *world.out);
  world.memory = malloc(batch * world.message_bytes);
  world.arrivals = (struct arrivals_in){.messages = world.in, .control_bytes = CONTROLS, .segments = calloc(batch, 4),
                                        .marks = calloc(batch, 1), .room = batch, .filled = batch};
  const uint64_t chunks = world.run.chunks;
  const uint64_t row_bytes = HEADER_BYTES + WORD_BYTES + world.run.tag_bytes;
  uint8_t *tos = NULL;
  world.rows = calloc(chunks, row_bytes);
  for (uint64_t row = 0; row < chunks; row++) world.rows[row * row_bytes] = 2 << 4 | (row % 8 ? KIND_CONTRIBUTE : KIND_PROBE);
  if (take8(input) & 1) fill(tos = malloc(chunks), chunks, take8(input));
  world.trains = (struct trains_out){.base = (uint64_t)(uintptr_t)world.rows, .row_bytes = row_bytes,
                                     .phase = take8(input) & 7, .tos = tos, .vectors = calloc(batch, sizeof(struct iovec)),
                                     .controls = calloc(batch, 4), .control_bytes = 4, .room = batch};
  for (uint64_t i = 0; i < batch; i++) {
    // One vector and room for control messages each; the vectors of received messages are the switch's business here.
    world.in[i].msg_hdr = (struct msghdr){.msg_control = calloc(1, CONTROLS), .msg_controllen = CONTROLS};
    world.out[i].msg_hdr.msg_iov = &world.trains.vectors[i];
  }
  world.messages = (struct runs_messages){
      .memory = world.memory, .message_bytes = world.message_bytes,
      .lengths = (uint8_t *)&world.in[0].msg_len, .length_bytes = sizeof *world.in,
      .segments = (uint8_t *)world.arrivals.segments, .segment_bytes = 4};
}

static void prepare_exchange(struct input *input) {
  const uint64_t chunks = 1 + take8(input) % 64, slots = 2 + take8(input) % 24, keyed = take8(input) & 1;
  uint64_t *expected = calloc(chunks, HEADER_BYTES);
  uint8_t *flying = calloc(chunks, 1);
  world.run = (struct runs_exchange){
      .expected = expected, .chunks = chunks, .payload_bytes = WORD_BYTES << take8(input) % 3,
      .tag_bytes = keyed ? TAG_BYTES : 0, .flying = flying, .counts = calloc(chunks, 1), .contributors = calloc(chunks, 4)};
  world.run.words = malloc(chunks * world.run.payload_bytes);
  world.size = HEADER_BYTES + world.run.payload_bytes + world.run.tag_bytes;
  uint8_t mask[HEADER_BYTES];
  memset(mask, 0xFF, sizeof mask);
  mask[COUNT_AT] = 0;
  memset(mask + CONTRIBUTORS_AT, 0, 4);
  memcpy(world.run.mask, mask, sizeof mask);
  for (uint64_t chunk = 0; chunk < chunks; chunk++) {
    uint8_t head[HEADER_BYTES];
    write_head(head, chunk);
    for (int i = 0; i < HEADER_BYTES; i++) head[i] &= mask[i];
    memcpy(expected + chunk * HEAD_NUMBERS, head, sizeof head);
  }
  const uint64_t turn = slots / 2 < chunks ? slots / 2 : chunks;
  world.exchange = (struct steady_exchange){
      .chunks = chunks, .short_step = slots / 2, .long_step = slots - slots / 2, .ready = malloc(chunks * 8),
      .flying = flying, .landed = calloc(chunks, 1), .first = calloc(chunks, 8), .latest = calloc(chunks, 8),
      .sent_at = calloc(chunks, 8), .log = malloc(8)};
  for (uint64_t i = 0; i < turn; i++) world.exchange.ready[i] = (int64_t)i;
  world.path = (struct fast_path){.socket = &world.socket, .messages = &world.messages, .run = &world.run,
                                  .exchange = &world.exchange, .spread = 2 * slots, .longest_in = 1, .to = turn,
                                  .most_in_flight = 1 + take8(input) % slots, .longest_train = 1u << take8(input) % 4,
                                  .landing = {.head = 1, .end = 1}};
  fill((uint8_t *)&world.key, sizeof world.key, 7);
  world.key.present = (uint32_t)keyed;
}

static int collect(void *arrivals, int socket, uint64_t wanted, int64_t nanoseconds) {
  return arrivals_collect(arrivals, socket, wanted, nanoseconds);
}

static uint64_t cut(void *trains, const int64_t *rows, uint64_t count, uint64_t longest) {
  return trains_cut(trains, rows, count, longest);
}

static void write_tags(const void *key, uint8_t *rows, uint64_t row_bytes, const int64_t *numbers, uint64_t count) {
  tags_write(key, rows, row_bytes, numbers, count);
}

static uint64_t check_tags(const void *key, const void *messages, uint64_t count) {
  return tags_check(key, messages, count);
}

static void prepare(struct input *input) {
  world.now = 1;
  world.batch = 1 + take8(input) % BATCH_MOST;
  prepare_exchange(input);
  prepare_messages(input);
  world.socket = (struct fast_path_socket){
      .collect = collect, .arrivals = &world.arrivals, .filled = &world.arrivals.filled, .marked = &world.arrivals.marked,
      .cut = cut, .trains = &world.trains, .out = world.out, .collect_ns = 3000000, .row_bytes = world.trains.row_bytes,
      .batch = world.batch, .write_tags = write_tags, .check_tags = check_tags,
      .key = world.key.present ? &world.key : NULL, .rows = world.rows};
}

static void release(void) {
  for (uint64_t i = 0; i < world.batch; i++) free(world.in[i].msg_hdr.msg_control);
  void *blocks[] = {world.in, world.out, world.memory, world.rows, world.arrivals.segments, world.arrivals.marks,
                    (void *)world.trains.tos, world.trains.vectors, world.trains.controls, (void *)world.run.expected,
                    (void *)world.run.flying, world.run.words, world.run.counts, world.run.contributors,
                    world.exchange.ready, world.exchange.landed, world.exchange.first, world.exchange.latest,
                    world.exchange.sent_at, world.exchange.log};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
}

// The log has room for what can be sent now, and no more.
static void make_room(uint64_t more) {
  const struct fast_path *path = &world.path;
  const size_t bytes = (path->landing.end + more) * sizeof(int64_t);
  int64_t *log = malloc(bytes);
  memcpy(log, world.exchange.log, path->landing.end * sizeof(int64_t) < bytes ? path->landing.end * sizeof(int64_t) : bytes);
  free(world.exchange.log);
  world.exchange.log = log;
}

// The oldest chunks in flight are sent once more.
static void send_again(uint64_t most) {
  struct steady_exchange *exchange = &world.exchange;
  struct fast_path *path = &world.path;
  make_room(most);
  for (uint64_t chunk = path->prefix; chunk < exchange->chunks && most; chunk++) {
    if (!exchange->flying[chunk]) continue;
    exchange->log[path->landing.end] = (int64_t)chunk;
    exchange->latest[chunk] = (int64_t)path->landing.end++;
    exchange->sent_at[chunk] = world.now;
    most--;
  }
}

static void lend(struct input *input) {
  struct fast_path *path = &world.path;
  const uint64_t chunks = world.run.chunks, upto = path->prefix + 1 + take8(input) % 64, form = take8(input);
  make_room(chunks - path->taken);
  path->until_s = world.now + 1e-3 * (double)(form & 0x3F);
  path->waits = form >> 6 & 1;
  path->adaptive = form >> 7;
  path->filled = (int64_t)(upto < chunks ? upto : chunks);
  path->until_prefix = upto < chunks ? upto : chunks;
  path->at_end = path->in_flight <= TIMEOUT_BURST_CHUNKS && path->taken == path->to;
  path->results = path->messages_in = path->messages_out = path->sent = path->held = path->round_trips = 0;
  path->error = 0;
}

static void check(void) {
  const struct fast_path *path = &world.path;
  uint64_t flying = 0;
  for (uint64_t chunk = 0; chunk < world.run.chunks; chunk++) {
    flying += world.run.flying[chunk];
    if (world.run.flying[chunk] && world.exchange.landed[chunk]) fail("in flight, with its result: chunk", chunk);
    if (world.exchange.landed[chunk] && !world.run.counts[chunk]) fail("a result of nobody: chunk", chunk);
  }
  if (flying != path->in_flight) fail("chunks in flight are miscounted", path->in_flight);
  if (path->taken > path->to || path->to > world.run.chunks) fail("more chunks had their turn than there are", path->to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  world.input = (struct input){data, data + size};
  struct input *input = &world.input;
  prepare(input);
  for (int call = 0; call < CALLS_MOST && !is_over(input) && world.path.prefix < world.run.chunks; call++) {
    lend(input);
    const uint8_t form = take8(input);
    if (form & 1) fast_path_send(&world.path);
    else fast_path_run(&world.path);
    check();
    if (form & 2) send_again(1 + (form >> 2) % RESENT_MOST);
  }
  release();
  return 0;
}
