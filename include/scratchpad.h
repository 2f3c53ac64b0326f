/*
 * Programs on machines whose caches have the network interface in them (S. Kavadias, M. Katevenis,
 * M. Zampetakis, D. Nikolopoulos: "Cache-Integrated Network Interfaces: Flexible On-Chip
 * Communication and Synchronization for Large-Scale CMPs", 2011; CINI below). A program turns lines
 * of its cores' L2 into scratchpad memory, and some of these into control registers: command
 * buffers, counters and queues.
 *
 *     scr_pad pad;
 *     if (scr_open(&pad) != 0)
 *         return 1;                                   // this machine has none of it
 *     double *mine = scr_alloc(&pad, 4096, 64);
 *     double *its = scr_remote(mine, 1);              // the same place at core 1
 *     its[0] = 1;                                     // a remote store
 *
 *   scratchpad/scrlib.h  scratchpad memory: set up, addresses, marking lines
 *   scratchpad/nilib.h   copies, messages, remote stores, notifications, counters, queues
 *   scratchpad/syslib.h  threads, time, locks and barriers (and coherent ones to compare with)
 *
 * These are the three libraries of section 5.1, inline; only the threads of syslib.h need libc. C11
 * or C++17, GCC or Clang. Functions return 0 or a negative errno unless they say otherwise.
 */
#ifndef SCRATCHPAD_H
#define SCRATCHPAD_H

#include "scratchpad/scrlib.h"
#include "scratchpad/nilib.h"
#include "scratchpad/syslib.h"

#endif
