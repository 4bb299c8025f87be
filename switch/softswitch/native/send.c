// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Sending: one sendmmsg per port and flush, with packets that follow one another joined into trains. Packets of
// impaired ports leave one by one.

#include "ports.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

uint64_t ss_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// A packet takes two pieces (what the kernel is told, the packet), a train of n packets n + 2.
#define PIECES_MOST (2 * SS_SINK_FRAMES)

static struct virtio_net_hdr nothing_to_do;

int ss_outbox_new(struct ss_outbox *outbox, uint32_t ports) {
  outbox->frames = calloc(SS_SINK_FRAMES, sizeof *outbox->frames);
  outbox->starts = calloc((size_t)ports + 1, sizeof *outbox->starts);
  outbox->messages = calloc(SS_SINK_FRAMES, sizeof *outbox->messages);
  outbox->parcels = calloc(SS_SINK_FRAMES, sizeof *outbox->parcels);
  outbox->pieces = calloc(PIECES_MOST, sizeof *outbox->pieces);
  return outbox->frames != NULL && outbox->starts != NULL && outbox->messages != NULL && outbox->parcels != NULL &&
         outbox->pieces != NULL;
}

void ss_outbox_free(struct ss_outbox *outbox) {
  free(outbox->frames);
  free(outbox->starts);
  free(outbox->messages);
  free(outbox->parcels);
  free(outbox->pieces);
}

void ss_fail(struct ss_ports *ports, uint32_t number, int error) {
  ports->failed_port = number;
  atomic_store(&ports->failure, error);
  atomic_store(&ports->stopping, 1);
}

void ss_mail(struct ss_ports *ports, enum ss_mail_kind kind, const void *data, size_t length) {
  char first = (char)kind;
  struct iovec pieces[2] = {{&first, 1}, {(void *)data, length}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  if (sendmsg(ports->mail, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && kind == SS_MAIL_FRAME) ports->cpu_dropped++;
}

// ---------------------------------------------------------------- to an interface; `sending` is held

// Returns 0 if the error has been counted, else the error.
static int count_refusal(struct ss_port *port, int error, uint32_t packets) {
  switch (error) {
  case ENOBUFS:
  case EAGAIN:
  case ENETDOWN:
  case ENXIO:
  case ENODEV:
    port->counters.tx_dropped += packets;
    return 0;
  case EMSGSIZE:
  case EINVAL:
    port->counters.tx_refused += packets;
    return 0;
  default:
    return error;
  }
}

static void count_sent(struct ss_port *port, uint32_t packets, uint32_t bytes) {
  port->counters.tx_frames += packets;
  port->counters.tx_bytes += bytes;
  port->counters.tx_trains += packets > 1;
}

// 0 or errno. Never blocks; a packet that the interface does not take is counted and lost.
static int send_packet(struct ss_port *port, const uint8_t *packet, uint32_t length) {
  struct iovec pieces[2] = {{&nothing_to_do, sizeof nothing_to_do}, {(void *)packet, length}};
  int skipped = port->unfinished ? 0 : 1;
  struct msghdr message = {.msg_iov = pieces + skipped, .msg_iovlen = (size_t)(2 - skipped)};
  while (sendmsg(port->fd, &message, MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return count_refusal(port, errno, 1);
  }
  count_sent(port, 1, length);
  return 0;
}

struct departure {
  struct ss_port *port;
  int error;
};

static void send_passed(void *to, const uint8_t *packet, uint32_t length) {
  struct departure *departure = to;
  int error = send_packet(departure->port, packet, length);
  if (error != 0) departure->error = error;
}

static int send_one(struct ss_port *port, const uint8_t *packet, uint32_t length) {
  struct departure departure = {port, 0};
  if (port->outbound == NULL) send_passed(&departure, packet, length);
  else ss_impair_push(port->outbound, packet, length, ss_now_ns(), send_passed, &departure);
  return departure.error;
}

// ---------------------------------------------------------------- parcels; `sending` is held

static void pack_train(struct ss_parcel *parcel, struct msghdr *message, const struct ss_train *train,
                       const struct ss_frame *const *frames) {
  struct iovec *piece = message->msg_iov;
  uint32_t headers = train->at.payload;
  ss_train_head(train, parcel->headers, &parcel->told);
  parcel->packets = train->packets;
  parcel->bytes = train->bytes + (train->packets - 1) * headers;
  *piece++ = (struct iovec){&parcel->told, sizeof parcel->told};
  *piece++ = (struct iovec){parcel->headers, headers};
  for (uint32_t i = 0; i < train->packets; i++) {
    *piece++ = (struct iovec){frames[i]->data + headers, frames[i]->length - headers};
  }
  message->msg_iovlen = (size_t)(piece - message->msg_iov);
}

static void pack_packet(struct ss_parcel *parcel, struct msghdr *message, const struct ss_port *port,
                        const struct ss_frame *frame) {
  struct iovec *piece = message->msg_iov;
  parcel->packets = 1;
  parcel->bytes = frame->length;
  if (port->unfinished) *piece++ = (struct iovec){&nothing_to_do, sizeof nothing_to_do};
  *piece++ = (struct iovec){frame->data, frame->length};
  message->msg_iovlen = (size_t)(piece - message->msg_iov);
}

// Packs the frames start..end-1 of a port into messages; returns their number.
static uint32_t pack(const struct ss_outbox *outbox, const struct ss_port *port, uint32_t start, uint32_t end) {
  struct iovec *piece = outbox->pieces;
  uint32_t count = 0;
  while (start < end) {
    struct msghdr *message = &outbox->messages[count].msg_hdr;
    const struct ss_frame *const *frames = outbox->frames + start;
    struct ss_train train;
    ss_train_begin(&train, frames[0]->data, frames[0]->length, port->train_bytes, port->most_length);
    for (uint32_t i = 1; start + i < end && ss_train_take(&train, frames[i]->data, frames[i]->length);) i++;
    message->msg_iov = piece;
    if (train.packets > 1) pack_train(&outbox->parcels[count], message, &train, frames);
    else pack_packet(&outbox->parcels[count], message, port, frames[0]);
    piece += message->msg_iovlen;
    start += train.packets;
    count++;
  }
  return count;
}

// The kernel or the card takes no such train: this one and all later packets of the port go one by one.
static int unpack(struct ss_ports *ports, struct ss_port *port, const struct ss_frame *const *frames, uint32_t count) {
  if (port->train_bytes != 0) ss_mail(ports, SS_MAIL_SINGLY, &port->number, sizeof port->number);
  port->train_bytes = 0;
  int error = 0;
  for (uint32_t i = 0; i < count && error == 0; i++) error = send_packet(port, frames[i]->data, frames[i]->length);
  return error;
}

static int is_about_trains(int error) { return error == EINVAL || error == EOPNOTSUPP || error == EIO; }

// 0 or errno. Never blocks; packets that the interface does not take are counted and lost. `start`: the first frame.
static int send_parcels(struct ss_ports *ports, struct ss_port *port, uint32_t start, uint32_t count) {
  const struct ss_outbox *outbox = &ports->outbox;
  for (uint32_t done = 0; done < count;) {
    int sent = sendmmsg(port->fd, outbox->messages + done, count - done, MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    for (int i = 0; i < sent; i++, done++) {
      count_sent(port, outbox->parcels[done].packets, outbox->parcels[done].bytes);
      start += outbox->parcels[done].packets;
    }
    if (sent > 0) continue;
    // The error belongs to the first of these messages: sendmmsg reports messages sent before an error as success.
    uint32_t packets = outbox->parcels[done++].packets;
    int error = packets > 1 && is_about_trains(errno) ? unpack(ports, port, outbox->frames + start, packets)
                                                      : count_refusal(port, errno, packets);
    if (error != 0) return error;
    start += packets;
  }
  return 0;
}

// ---------------------------------------------------------------- sending at a flush

struct ss_port *ss_port_of(struct ss_ports *ports, uint32_t number) {
  if (number >= SS_PORTS || ports->positions[number] == SS_NO_PORT) return NULL;
  return &ports->ports[ports->positions[number]];
}

// Counting sort: frames of port p at starts[p]..starts[p + 1], in their order.
static void sort(struct ss_ports *ports, const struct ss_sink *sink) {
  struct ss_outbox *outbox = &ports->outbox;
  uint32_t *starts = outbox->starts;
  memset(starts, 0, (ports->count + 1) * sizeof *starts);
  for (uint32_t i = 0; i < sink->count; i++) {
    const struct ss_port *port = ss_port_of(ports, sink->frames[i].port);
    if (port != NULL) starts[port - ports->ports + 1]++;
  }
  for (uint32_t p = 0; p < ports->count; p++) starts[p + 1] += starts[p];
  // Filling moves each start to the port's end, which is where the next one starts.
  for (uint32_t i = 0; i < sink->count; i++) {
    const struct ss_frame *frame = &sink->frames[i];
    const struct ss_port *port = ss_port_of(ports, frame->port);
    if (port == NULL) continue;
    outbox->frames[starts[port - ports->ports]++] = frame;
  }
}

static void mail_cpu_frames(struct ss_ports *ports, const struct ss_sink *sink) {
  for (uint32_t i = 0; i < sink->count; i++) {
    const struct ss_frame *frame = &sink->frames[i];
    if (frame->port == ports->cpu_port) ss_mail(ports, SS_MAIL_FRAME, frame->data, frame->length);
  }
}

static int send_run(struct ss_ports *ports, struct ss_port *port, uint32_t start, uint32_t end) {
  const struct ss_outbox *outbox = &ports->outbox;
  if (port->outbound == NULL) return send_parcels(ports, port, start, pack(outbox, port, start, end));
  int error = 0;
  for (uint32_t i = start; i < end && error == 0; i++)
    error = send_one(port, outbox->frames[i]->data, outbox->frames[i]->length);
  return error;
}

void ss_sink_flush(struct ss_sink *sink) {
  struct ss_ports *ports = sink->owner;
  if (sink->count == 0) return;
  pthread_mutex_lock(&ports->sending);
  if (ports->cpu_port != SS_NO_PORT) mail_cpu_frames(ports, sink);
  sort(ports, sink);
  for (uint32_t p = 0, start = 0; p < ports->count; p++) {
    uint32_t end = ports->outbox.starts[p];
    int error = start == end ? 0 : send_run(ports, &ports->ports[p], start, end);
    if (error != 0) ss_fail(ports, ports->ports[p].number, error);
    start = end;
  }
  pthread_mutex_unlock(&ports->sending);
  sink->count = 0;
  sink->used = 0;
}

void ss_send_due(struct ss_ports *ports, uint64_t now_ns) {
  pthread_mutex_lock(&ports->sending);
  for (uint32_t p = 0; p < ports->count; p++) {
    struct departure departure = {&ports->ports[p], 0};
    if (ports->ports[p].outbound == NULL) continue;
    ss_impair_poll(ports->ports[p].outbound, now_ns, send_passed, &departure);
    if (departure.error != 0) ss_fail(ports, ports->ports[p].number, departure.error);
  }
  pthread_mutex_unlock(&ports->sending);
}

int ss_ports_send(struct ss_ports *ports, uint32_t number, const uint8_t *frame, uint32_t length) {
  struct ss_port *port = ss_port_of(ports, number);
  if (port == NULL) return 0;
  pthread_mutex_lock(&ports->sending);
  int error = send_one(port, frame, length);
  int held = port->outbound != NULL && ss_impair_deadline(port->outbound) != UINT64_MAX;
  pthread_mutex_unlock(&ports->sending);
  if (held) eventfd_write(ports->wake, 1);  // the sleeping loop does not know the deadline
  return error;
}
