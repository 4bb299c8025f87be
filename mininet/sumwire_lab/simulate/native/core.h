// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// A network in virtual time: links with queues, nodes, processors and timers. Nothing reads a clock, and one generator of
// random numbers decides everything, so a seed replays a run bit for bit.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "constants.h"

// Picoseconds since the beginning. One byte takes 80 of them at 100 Gbit/s.
typedef uint64_t ps;
#define NEVER UINT64_MAX
#define NONE UINT32_MAX
// Picoseconds of a byte at one bit a second.
#define BYTE_AT_A_BIT_A_SECOND UINT64_C(8000000000000)

enum packet_kind { CONTRIBUTE, PARTIAL, RESULT, SEGMENT, ACK, PULL };
enum packet_mark { CONGESTED = 1, TRIMMED = 2, AGAIN = 4, CAPABLE = 8 };

struct packet {
  ps at;            // when it leaves its link
  uint32_t source;  // the node that sent it, and the node it goes to
  uint32_t target;
  uint32_t owner;   // the job of a contribution or result, the flow of a segment
  uint32_t number;  // the chunk in the job's sequence, the segment in the flow
  uint32_t more;    // what its kind needs besides
  uint32_t bytes;   // on the wire
  uint32_t rank;    // its urgency, the smaller the sooner (order SMALLEST); of a job's packets, the op
  uint8_t kind, level, marks, path;  // level: its queue where a link has several, 0 first
};

// A queue of packets that grows.
struct ring {
  struct packet *packets;
  uint32_t room, head, count;
};

enum link_order { FIFO, LEVELS, SMALLEST };

// One direction of a link, or the way through a processor. What does not fit the queue is lost, or trimmed to `trim_bytes`
// and sent before everything else.
struct link {
  uint64_t rate;           // bits a second, 0: no limit
  ps byte;                 // of a byte at that rate, 0 where it is no whole number (sim_link)
  ps delay, per_packet;    // per_packet: what a processor needs for one, besides its bytes at `rate`
  ps varies;               // up to so much is added to the delay at random, in FIFO order (sim_vary)
  uint32_t node;           // at its end; NONE if `then` follows
  uint32_t then;           // the link that follows, or NONE
  uint32_t processor;      // that works for per_packet, or NONE
  uint32_t queue_bytes, queue_packets, mark_bytes, trim_bytes, order;
  uint32_t lose;           // of 2^32 packets
  ps free_at;              // when everything in FIFO order has left
  struct ring travels;     // those whose time is known, in the order of their times
  uint32_t gone;           // of `travels`, how many have left the queue
  uint64_t queued;         // bytes that wait or are being sent, of these at level 0, and packets
  uint64_t queued_first;
  uint32_t queued_packets;
  uint64_t packets, bytes, lost, marked, trimmed;
  struct ring levels[LEVELS_MOST];
};

// Something that does one thing after another, on one of its group's cores.
struct processor {
  ps free_at;
  uint32_t group;  // NONE: it has a core of its own
  ps worked;
};

struct group {
  uint32_t cores;
  ps *free_at;
};

enum node_kind { HOST, SWITCH };

struct node {
  uint32_t kind;
  uint32_t outbox;         // a host's only link, or the way to it through its processor
  uint32_t routes;         // where its routes begin, or NONE
  uint32_t tree;           // the first of its slots for jobs (slots.c), or NONE
};

// Towards a host: one of `width` links from `link` on, chosen by the packet's path.
struct route {
  uint32_t link, width;
};

struct sim;
typedef void fired(struct sim *sim, uint32_t who);

struct timer {
  fired *fire;
  uint32_t who;
};

struct place {
  ps at;
  uint32_t source, unused;
};

struct sim {
  ps now;
  uint64_t events, random;
  struct link *links;
  struct node *nodes;
  struct route *routes;
  struct timer *timers;
  struct processor *processors;
  struct group *groups;
  uint32_t link_count, node_count, route_count, timer_count, processor_count, group_count;
  // The events: a heap of sources, which are links and behind them timers.
  struct place *heap;
  uint32_t *where;  // the place of a source in the heap
  uint32_t sources;
  uint64_t in_flight, most_in_flight;
  struct flow *flows;
  struct task *tasks;
  struct worker *workers;
  struct job *jobs;
  struct tree *trees;
  uint32_t flow_count, task_count, worker_count, job_count, tree_count;
  uint32_t *next_tasks;  // what follows the tasks
  uint64_t tasks_open;
  struct place *agenda;  // when WORK ends (tasks.c): a heap
  uint32_t agenda_count, agenda_room, agenda_timer;
};

// Sends a packet over a link, from its queue on.
void sim_send(struct sim *sim, uint32_t link, const struct packet *packet);
// Sends a packet from a node towards its target.
void sim_forward(struct sim *sim, uint32_t node, const struct packet *packet);
// Makes a timer that calls `fire` with `who`. To be made before sim_start.
uint32_t sim_timer(struct sim *sim, fired *fire, uint32_t who);
// Sets a timer, NEVER stops it.
void sim_set(struct sim *sim, uint32_t timer, ps at);
// Returns when work of this length ends that a processor gets now.
ps sim_work(struct sim *sim, uint32_t processor, ps length);
// Returns 64 random bits, and whether something happens `of_all` in 2^32 times.
uint64_t sim_draw(struct sim *sim);
bool sim_happens(struct sim *sim, uint32_t of_all);
// Bytes that wait at a link now.
uint64_t sim_backlog(struct sim *sim, uint32_t link);

void ring_push(struct ring *ring, const struct packet *packet);
struct packet ring_pop(struct ring *ring);
