// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Setting up, receiving, and the loop.

#include "ports.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#define BATCH_PACKETS 64  // from one port, before the other ports are served; a train is not divided

// ---------------------------------------------------------------- setting up

static int allocate(struct ss_ports *ports, uint32_t most_ports) {
  struct ss_sink *sink = &ports->sink;
  ports->ports = calloc(most_ports, sizeof *ports->ports);
  ports->room = aligned_alloc(64, (SS_FRAME_BYTES + 63) & ~63u);
  sink->frames = calloc(SS_SINK_FRAMES, sizeof *sink->frames);
  sink->arena = aligned_alloc(64, SS_SINK_BYTES);
  sink->limit = SS_SINK_FRAMES;
  sink->capacity = SS_SINK_BYTES;
  sink->flush = ss_sink_flush;
  sink->owner = ports;
  return ss_outbox_new(&ports->outbox, most_ports) && ports->ports != NULL && ports->room != NULL &&
         sink->frames != NULL && sink->arena != NULL;
}

struct ss_ports *ss_ports_new(struct ss_lock *lock, uint32_t most_ports, uint32_t cpu_port, int mail, int wake) {
  struct ss_ports *ports = calloc(1, sizeof *ports);
  if (ports == NULL) return NULL;
  ports->lock = lock;
  ports->cpu_port = cpu_port;
  ports->mail = mail;
  ports->wake = wake;
  for (uint32_t number = 0; number < SS_PORTS; number++) ports->positions[number] = SS_NO_PORT;
  pthread_mutex_init(&ports->sending, NULL);
  if (allocate(ports, most_ports)) return ports;
  ss_ports_free(ports);
  return NULL;
}

void ss_ports_free(struct ss_ports *ports) {
  for (uint32_t p = 0; p < ports->count; p++) {
    ss_ring_close(&ports->ports[p].ring);
    ss_impair_free(ports->ports[p].inbound);
    ss_impair_free(ports->ports[p].outbound);
  }
  ss_outbox_free(&ports->outbox);
  pthread_mutex_destroy(&ports->sending);
  free(ports->ports);
  free(ports->room);
  free(ports->sink.frames);
  free(ports->sink.arena);
  free(ports);
}

int ss_ports_add(struct ss_ports *ports, uint32_t number, int fd, const struct ss_port_spec *spec) {
  if (number >= SS_PORTS) return EINVAL;
  struct ss_port *port = &ports->ports[ports->count];
  int error = ss_ring_open(&port->ring, fd, spec->mtu, spec->ring_bytes, (int)spec->unfinished);
  if (error != 0) return error;
  port->number = number;
  port->fd = fd;
  port->train_bytes = spec->unfinished ? spec->train_bytes : 0;
  port->most_length = spec->mtu + SS_ETHERNET_BYTES;
  port->unfinished = spec->unfinished;
  ports->positions[number] = ports->count++;
  return 0;
}

int ss_ports_impair(struct ss_ports *ports, uint32_t number, enum ss_direction direction,
                    const struct ss_impair_spec *spec) {
  struct ss_port *port = ss_port_of(ports, number);
  struct ss_impair *impair = port == NULL ? NULL : ss_impair_new(spec);
  if (impair == NULL) return port == NULL ? EINVAL : ENOMEM;
  *(direction == SS_RECEIVE ? &port->inbound : &port->outbound) = impair;
  ports->impaired = 1;
  return 0;
}

// ---------------------------------------------------------------- counters

// Reading the kernel's counter resets it.
static void collect_drops(struct ss_port *port) {
  struct tpacket_stats statistics;
  socklen_t length = sizeof statistics;
  if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &length) == 0)
    port->counters.rx_dropped += statistics.tp_drops;
}

void ss_ports_read_counters(struct ss_ports *ports, uint32_t number, struct ss_port_counters *out) {
  struct ss_port *port = ss_port_of(ports, number);
  if (port == NULL) return;
  ss_lock_enter(ports->lock);
  pthread_mutex_lock(&ports->sending);
  collect_drops(port);
  *out = port->counters;
  pthread_mutex_unlock(&ports->sending);
  ss_lock_leave(ports->lock);
}

uint64_t ss_ports_cpu_dropped(struct ss_ports *ports) {
  pthread_mutex_lock(&ports->sending);
  uint64_t dropped = ports->cpu_dropped;
  pthread_mutex_unlock(&ports->sending);
  return dropped;
}

// ---------------------------------------------------------------- receiving; `lock` is held

struct passage {
  struct ss_ports *ports;
  uint32_t number;
  uint64_t now_ns;
};

static void run(void *to, const uint8_t *frame, uint32_t length) {
  const struct passage *passage = to;
  struct ss_lock *lock = passage->ports->lock;
  if (lock->machine == NULL) return;
  uint64_t now_us = (passage->now_ns - lock->start_ns) / 1000;
  lock->machine->program->process(lock->machine, passage->number, frame, length, now_us, &passage->ports->sink);
}

static void mail_first(struct ss_ports *ports, const struct ss_port *port, uint64_t *counter, enum ss_mail_kind kind) {
  if ((*counter)++ == 0) ss_mail(ports, kind, &port->number, sizeof port->number);
}

static void take_packet(struct passage *passage, struct ss_port *port, const uint8_t *packet, uint32_t length) {
  port->counters.rx_frames++;
  port->counters.rx_bytes += length;
  if (port->inbound == NULL) run(passage, packet, length);
  else ss_impair_push(port->inbound, packet, length, passage->now_ns, run, passage);
  if (__builtin_expect(ss_lock_wanted(passage->ports->lock), 0)) ss_lock_yield(passage->ports->lock);
}

// Returns what counts towards BATCH_PACKETS. The packets of a train came at the same time.
static uint32_t take_frame(struct ss_ports *ports, struct ss_port *port, const struct ss_arrived *arrived) {
  struct passage passage = {ports, port->number, ss_now_ns()};
  struct ss_cutter *cutter = &ports->cutter;
  uint32_t packets = ss_cut_begin(cutter, arrived->frame, arrived->length, &arrived->told), length;
  if (packets == 0) mail_first(ports, port, &port->counters.rx_refused, SS_MAIL_REFUSED);
  port->counters.rx_trains += packets > 1;
  for (uint32_t left = packets; left > 0; left--) {
    const uint8_t *packet = ss_cut_next(cutter, &length);
    take_packet(&passage, port, packet, length);
  }
  return packets == 0 ? 1 : packets;
}

static uint32_t count_lost(const struct ss_arrived *arrived) {
  return ss_cut_count(arrived->frame, arrived->there, arrived->length, &arrived->told);
}

static uint32_t drain(struct ss_ports *ports, struct ss_port *port) {
  if (!ss_ring_ready(&port->ring)) return 0;
  uint32_t handled = 0;
  ss_lock_enter(ports->lock);
  while (handled < BATCH_PACKETS) {
    struct ss_arrived arrived;
    enum ss_arrival arrival = ss_ring_frame(&port->ring, ports->room, &arrived);
    if (arrival == SS_NOTHING) break;
    if (arrival == SS_FRAME) handled += take_frame(ports, port, &arrived);
    else handled++;
    if (arrival == SS_CUT) mail_first(ports, port, &port->counters.rx_cut, SS_MAIL_CUT);
    if (arrival == SS_LOST) port->counters.rx_dropped += count_lost(&arrived);
    ss_ring_release(&port->ring);
  }
  ss_lock_leave(ports->lock);
  return handled;
}

static void receive_due(struct ss_ports *ports, uint64_t now_ns) {
  ss_lock_enter(ports->lock);
  for (uint32_t p = 0; p < ports->count; p++) {
    struct passage passage = {ports, ports->ports[p].number, now_ns};
    if (ports->ports[p].inbound != NULL) ss_impair_poll(ports->ports[p].inbound, now_ns, run, &passage);
  }
  ss_lock_leave(ports->lock);
}

// ---------------------------------------------------------------- the loop

static uint64_t earlier(const struct ss_impair *impair, uint64_t deadline) {
  uint64_t other = impair == NULL ? UINT64_MAX : ss_impair_deadline(impair);
  return other < deadline ? other : deadline;
}

static uint64_t next_deadline(struct ss_ports *ports) {
  uint64_t deadline = UINT64_MAX;
  pthread_mutex_lock(&ports->sending);
  for (uint32_t p = 0; p < ports->count; p++)
    deadline = earlier(ports->ports[p].inbound, earlier(ports->ports[p].outbound, deadline));
  pthread_mutex_unlock(&ports->sending);
  return deadline;
}

// An interface that went down reports an error once. Reading clears it; otherwise poll() would never wait again.
static void take_error(struct ss_ports *ports, const struct ss_port *port) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(port->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0 && error != ENETDOWN && error != ENXIO && error != ENODEV) ss_fail(ports, port->number, error);
}

static void await(struct ss_ports *ports, struct pollfd *events) {
  struct timespec timeout, *limit = NULL;
  uint64_t deadline = ports->impaired ? next_deadline(ports) : UINT64_MAX, now = ss_now_ns();
  if (deadline != UINT64_MAX) {
    uint64_t left = deadline > now ? deadline - now : 0;
    timeout = (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    limit = &timeout;
  }
  int ready = ppoll(events, ports->count + 1, limit, NULL);
  if (ready < 0 && errno != EINTR) ss_fail(ports, SS_NO_PORT, errno);
  if (ready <= 0) return;
  eventfd_t count;
  if (events[ports->count].revents != 0) eventfd_read(ports->wake, &count);
  for (uint32_t p = 0; p < ports->count; p++) {
    if (events[p].revents & ~POLLIN) take_error(ports, &ports->ports[p]);
  }
}

static void turn(struct ss_ports *ports, struct pollfd *events) {
  uint32_t handled = 0;
  for (uint32_t p = 0; p < ports->count; p++) handled += drain(ports, &ports->ports[p]);
  if (ports->impaired) receive_due(ports, ss_now_ns());
  ss_sink_flush(&ports->sink);
  if (ports->impaired) ss_send_due(ports, ss_now_ns());
  if (handled == 0) await(ports, events);
}

int ss_ports_run(struct ss_ports *ports) {
  struct pollfd *events = calloc(ports->count + 1, sizeof *events);
  if (events == NULL) return ENOMEM;
  for (uint32_t p = 0; p < ports->count; p++) events[p] = (struct pollfd){ports->ports[p].fd, POLLIN, 0};
  events[ports->count] = (struct pollfd){ports->wake, POLLIN, 0};
  while (!atomic_load_explicit(&ports->stopping, memory_order_relaxed)) turn(ports, events);
  free(events);
  return atomic_load(&ports->failure);
}

void ss_ports_stop(struct ss_ports *ports) {
  atomic_store(&ports->stopping, 1);
  eventfd_write(ports->wake, 1);
}

uint32_t ss_ports_failed(const struct ss_ports *ports) { return ports->failed_port; }
