// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Sending: one sendmmsg per port and flush; frames of impaired ports one by one.

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

int ss_outbox_new(struct ss_outbox *outbox, uint32_t ports) {
  outbox->messages = calloc(SS_SINK_FRAMES, sizeof *outbox->messages);
  outbox->pieces = calloc(SS_SINK_FRAMES, sizeof *outbox->pieces);
  outbox->starts = calloc((size_t)ports + 1, sizeof *outbox->starts);
  if (outbox->messages == NULL || outbox->pieces == NULL || outbox->starts == NULL) return 0;
  for (uint32_t i = 0; i < SS_SINK_FRAMES; i++) {
    outbox->messages[i].msg_hdr.msg_iov = &outbox->pieces[i];
    outbox->messages[i].msg_hdr.msg_iovlen = 1;
  }
  return 1;
}

void ss_outbox_free(struct ss_outbox *outbox) {
  free(outbox->messages);
  free(outbox->pieces);
  free(outbox->starts);
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
static int count_refusal(struct ss_port *port, int error) {
  switch (error) {
  case ENOBUFS:
  case EAGAIN:
  case ENETDOWN:
  case ENXIO:
  case ENODEV:
    port->counters.tx_dropped++;
    return 0;
  case EMSGSIZE:
  case EINVAL:
    port->counters.tx_refused++;
    return 0;
  default:
    return error;
  }
}

static void count_sent(struct ss_port *port, const struct mmsghdr *messages, uint32_t count) {
  port->counters.tx_frames += count;
  for (uint32_t i = 0; i < count; i++) port->counters.tx_bytes += messages[i].msg_hdr.msg_iov->iov_len;
}

// 0 or errno. Never blocks; frames that the interface does not take are counted and lost.
static int send_all(struct ss_port *port, struct mmsghdr *messages, uint32_t count) {
  for (uint32_t done = 0; done < count;) {
    int sent = sendmmsg(port->fd, messages + done, count - done, MSG_DONTWAIT);
    if (sent > 0) {
      count_sent(port, messages + done, (uint32_t)sent);
      done += (uint32_t)sent;
      continue;
    }
    if (errno == EINTR) continue;
    // The error belongs to the first of these frames: sendmmsg reports frames sent before an error as success.
    int error = count_refusal(port, errno);
    if (error != 0) return error;
    done++;
  }
  return 0;
}

struct departure {
  struct ss_port *port;
  int error;
};

static void send_passed(void *to, const uint8_t *frame, uint32_t length) {
  struct departure *departure = to;
  struct iovec piece = {(void *)frame, length};
  struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
  int error = send_all(departure->port, &message, 1);
  if (error != 0) departure->error = error;
}

static int send_one(struct ss_port *port, const uint8_t *frame, uint32_t length) {
  struct departure departure = {port, 0};
  if (port->outbound == NULL) send_passed(&departure, frame, length);
  else ss_impair_push(port->outbound, frame, length, ss_now_ns(), send_passed, &departure);
  return departure.error;
}

// ---------------------------------------------------------------- sending at a flush

struct ss_port *ss_port_of(struct ss_ports *ports, uint32_t number) {
  if (number >= SS_PORTS || ports->positions[number] == SS_NO_PORT) return NULL;
  return &ports->ports[ports->positions[number]];
}

// Counting sort: messages of port p at starts[p]..starts[p + 1], in the order of the frames.
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
    outbox->pieces[starts[port - ports->ports]++] = (struct iovec){frame->data, frame->length};
  }
}

static void mail_cpu_frames(struct ss_ports *ports, const struct ss_sink *sink) {
  for (uint32_t i = 0; i < sink->count; i++) {
    const struct ss_frame *frame = &sink->frames[i];
    if (frame->port == ports->cpu_port) ss_mail(ports, SS_MAIL_FRAME, frame->data, frame->length);
  }
}

static int send_run(struct ss_ports *ports, struct ss_port *port, uint32_t start, uint32_t end) {
  const struct iovec *pieces = ports->outbox.pieces;
  if (port->outbound == NULL) return send_all(port, ports->outbox.messages + start, end - start);
  int error = 0;
  for (uint32_t i = start; i < end && error == 0; i++)
    error = send_one(port, pieces[i].iov_base, (uint32_t)pieces[i].iov_len);
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
