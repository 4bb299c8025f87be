// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Ports on Linux network interfaces, and the loop that runs the current program on what they receive.
//
// Two locks, taken in this order: `lock` (the program, what is received), `sending` (what is sent).
#pragma once

#include "cut.h"
#include "engine.h"
#include "impair.h"
#include "join.h"
#include "program_lock.h"
#include "ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define SS_PORTS 512u  // numbers of ports: 9 bits
#define SS_NO_PORT UINT32_MAX

// Names as in PortCounters of runtime/interface.py. All but the trains count packets.
struct ss_port_counters {
  uint64_t rx_frames, rx_bytes;
  uint64_t tx_frames, tx_bytes;
  uint64_t tx_dropped;  // the interface's queue was full, or the interface was down
  uint64_t tx_refused;  // longer than the interface's MTU
  uint64_t rx_dropped;  // the ring was full
  uint64_t rx_cut;      // longer than a slot of the ring
  uint64_t rx_refused;  // unfinished frames that this switch cannot finish
  uint64_t rx_trains, tx_trains;
};

struct ss_port_spec {
  uint32_t mtu;
  uint32_t train_bytes;  // the longest train that is sent; less than two packets: none
  uint32_t unfinished;   // receives and sends trains, and frames without checksums
  size_t ring_bytes;
};

struct ss_port {
  uint32_t number;
  int fd;
  uint32_t train_bytes;
  uint32_t most_length;  // of a packet in a train: what the MTU allows
  uint32_t unfinished;
  struct ss_ring ring;
  struct ss_impair *inbound;   // NULL: not impaired
  struct ss_impair *outbound;  // NULL: not impaired
  struct ss_port_counters counters;
};

// What a message to an interface carries: one packet, or a train.
struct ss_parcel {
  uint32_t packets;
  uint32_t bytes;  // of the packets, each with its headers
  struct virtio_net_hdr told;
  uint8_t headers[SS_TRAIN_HEADERS];  // of a train
};

// Frames of one flush, sorted by port for sendmmsg.
struct ss_outbox {
  const struct ss_frame **frames;
  uint32_t *starts;  // by position of the port, one more at the end
  // For one port, one after the other:
  struct mmsghdr *messages;
  struct ss_parcel *parcels;
  struct iovec *pieces;
};

struct ss_ports {
  struct ss_lock *lock;
  uint32_t cpu_port;  // SS_NO_PORT without one
  int mail;           // to Python, see ss_mail_kind
  int wake;           // non-blocking eventfd
  struct ss_port *ports;
  uint32_t count;
  uint32_t positions[SS_PORTS];  // of a number in `ports`, SS_NO_PORT where there is none
  uint8_t *room;  // for a train that came in
  struct ss_cutter cutter;
  struct ss_sink sink;
  pthread_mutex_t sending;
  struct ss_outbox outbox;
  uint64_t cpu_dropped;
  int impaired;
  atomic_int stopping;
  atomic_int failure;  // errno that ended the loop
  uint32_t failed_port;
};

// First byte of a message to Python.
enum ss_mail_kind {
  SS_MAIL_FRAME = 'F',  // a frame for the CPU port follows
  // What happened on a port for the first time; its number follows, 4 bytes in the machine's order:
  SS_MAIL_CUT = 'C',      // a frame was too long
  SS_MAIL_REFUSED = 'R',  // an unfinished frame could not be finished
  SS_MAIL_SINGLY = 'S',   // the interface takes no trains, so packets leave one by one
};

enum ss_direction { SS_RECEIVE, SS_SEND };

// `mail`: a SOCK_SEQPACKET socket; what it does not take at once is dropped. `wake`: a non-blocking eventfd. NULL: no
// memory.
struct ss_ports *ss_ports_new(struct ss_lock *lock, uint32_t most_ports, uint32_t cpu_port, int mail, int wake);
void ss_ports_free(struct ss_ports *ports);  // leaves the descriptors open

// Before the loop runs; the socket is not bound yet. 0 or errno.
int ss_ports_add(struct ss_ports *ports, uint32_t number, int fd, const struct ss_port_spec *spec);
int ss_ports_impair(struct ss_ports *ports, uint32_t number, enum ss_direction direction,
                    const struct ss_impair_spec *spec);

// The loop: returns after ss_ports_stop() with 0, or with the errno of `ports->failed_port`.
int ss_ports_run(struct ss_ports *ports);
void ss_ports_stop(struct ss_ports *ports);
uint32_t ss_ports_failed(const struct ss_ports *ports);

// From any thread. `send`: 0 or errno; a frame for a port that is not there is dropped.
int ss_ports_send(struct ss_ports *ports, uint32_t number, const uint8_t *frame, uint32_t length);
void ss_ports_read_counters(struct ss_ports *ports, uint32_t number, struct ss_port_counters *out);
uint64_t ss_ports_cpu_dropped(struct ss_ports *ports);

// -- send.c, for ports.c --

uint64_t ss_now_ns(void);
struct ss_port *ss_port_of(struct ss_ports *ports, uint32_t number);  // NULL: there is none
int ss_outbox_new(struct ss_outbox *outbox, uint32_t ports);          // 0: no memory
void ss_outbox_free(struct ss_outbox *outbox);
void ss_sink_flush(struct ss_sink *sink);          // owner: struct ss_ports
void ss_send_due(struct ss_ports *ports, uint64_t now_ns);  // held frames whose time is up
void ss_mail(struct ss_ports *ports, enum ss_mail_kind kind, const void *data, size_t length);
void ss_fail(struct ss_ports *ports, uint32_t number, int error);  // ends the loop

#define SS_SINK_FRAMES 512u
#define SS_SINK_BYTES (1u << 20)
